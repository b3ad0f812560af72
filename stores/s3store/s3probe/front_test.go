package s3probe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/internal/testenv"
)

// clientOf returns a client of the environment's server at another endpoint. It ends its connections with the test.
func clientOf(t *testing.T, env testenv.S3, endpoint string) *s3.Client {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(endpoint), Region: env.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(env.AccessKey, env.SecretKey, ""),
		HTTPClient:  &http.Client{Transport: transport},
		Retryer:     aws.NopRetryer{},
	})
}

// front is an S3 with a fault: it stands before a good one and signs what it passes on anew.
type front struct {
	*httptest.Server
	env      testenv.S3
	t        *testing.T
	fault    func(*front, *exchange)
	upstream *http.Client
	requests atomic.Int64
	// open: it lets anybody in.
	open bool
}

// exchange is a request on its way through, which a fault changes, answers or passes.
type exchange struct {
	f    *front
	w    http.ResponseWriter
	r    *http.Request
	q    url.Values
	body []byte
	// torn: the body ended early.
	torn bool
}

func newFront(t *testing.T, env testenv.S3, fault func(*front, *exchange)) *front {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	f := &front{env: env, t: t, fault: fault, upstream: &http.Client{Transport: transport}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() {
		f.Close()
		transport.CloseIdleConnections()
	})
	return f
}

func (f *front) config() Config {
	return Config{Client: clientOf(f.t, f.env, f.URL), Bucket: f.env.Bucket}.withDefaults()
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := &exchange{f: f, w: w, r: r, q: r.URL.Query()}
	if !f.open && r.Header.Get("Authorization") == "" && !e.q.Has("X-Amz-Signature") {
		e.refuse(403, "AccessDenied")
		return
	}
	body, err := io.ReadAll(r.Body)
	e.body, e.torn = body, err != nil
	f.fault(f, e)
}

func (e *exchange) is(method string, parameters ...string) bool {
	return e.r.Method == method && !slices.ContainsFunc(parameters, func(p string) bool { return !e.q.Has(p) })
}

// isPut tells a PUT of an object, rather than of a part or a copy.
func (e *exchange) isPut() bool {
	return e.is(http.MethodPut) && !e.q.Has("uploadId") && e.r.Header.Get("X-Amz-Copy-Source") == ""
}

func (e *exchange) refuse(status int, code string) {
	e.w.Header().Set("Content-Type", "application/xml")
	e.w.WriteHeader(status)
	fmt.Fprintf(e.w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>from the front</Message></Error>`, code)
}

func (e *exchange) answer(xml string) {
	e.w.Header().Set("Content-Type", "application/xml")
	fmt.Fprint(e.w, xml)
}

// hangUp ends the connection without an answer, or in the middle of one.
func (e *exchange) hangUp() { panic(http.ErrAbortHandler) }

// unverified takes from a request what the server would verify its body with.
func (e *exchange) unverified() *exchange {
	for name := range e.r.Header {
		if strings.HasPrefix(name, "X-Amz-Checksum-") || name == "Content-Md5" {
			e.r.Header.Del(name)
		}
	}
	e.r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	return e
}

// send passes the request on, and returns the answer with its body.
func (e *exchange) send() (*http.Response, []byte) {
	query := make(url.Values)
	for name, values := range e.q {
		if !strings.HasPrefix(name, "X-Amz-") {
			query[name] = values
		}
	}
	target := e.f.env.Endpoint + e.r.URL.EscapedPath() + "?" + query.Encode()
	// What a client gave up is done all the same.
	r, err := http.NewRequestWithContext(context.WithoutCancel(e.r.Context()), e.r.Method, target, bytes.NewReader(e.body))
	if err != nil {
		e.f.t.Error(err)
		e.hangUp()
	}
	r.Header = e.r.Header.Clone()
	for _, name := range []string{"Authorization", "X-Amz-Date", "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request", "Accept-Encoding"} {
		r.Header.Del(name)
	}
	hash := r.Header.Get("X-Amz-Content-Sha256")
	if hash == "" {
		hash = "UNSIGNED-PAYLOAD"
		r.Header.Set("X-Amz-Content-Sha256", hash)
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	secrets := aws.Credentials{AccessKeyID: e.f.env.AccessKey, SecretAccessKey: e.f.env.SecretKey}
	if err := signer.SignHTTP(r.Context(), secrets, r, hash, "s3", e.f.env.Region, time.Now()); err != nil {
		e.f.t.Error(err)
	}
	answer, err := e.f.upstream.Do(r)
	if err != nil {
		e.hangUp()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		e.hangUp()
	}
	return answer, body
}

// reply gives an answer to the client.
func (e *exchange) reply(answer *http.Response, body []byte) {
	for name, values := range answer.Header {
		e.w.Header()[name] = values
	}
	e.w.WriteHeader(answer.StatusCode)
	// The client may be gone.
	_, _ = e.w.Write(body)
}

// pass does what the server does. A torn body it hangs up on.
func (e *exchange) pass() {
	if e.torn {
		e.hangUp()
	}
	answer, body := e.send()
	e.reply(answer, body)
}

// only returns the probes that make these findings.
func only(names ...string) []probe {
	return slices.DeleteFunc(probes(), func(p probe) bool {
		return !slices.ContainsFunc(p.finds, func(name string) bool { return slices.Contains(names, name) })
	})
}
