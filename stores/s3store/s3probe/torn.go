package s3probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	tornUploads = "torn uploads"

	// tornLength is what a torn upload announces, in bytes; it sends tornSent.
	tornLength = 1 << 20
	tornSent   = 100_000
	tornLooks  = 5
	tornPause  = 60 * time.Millisecond
	// tornAnswer bounds the wait for an answer to a request that never becomes whole.
	tornAnswer = time.Second
)

// torn is an upload that sends less than it announced and then ends the connection: half, only the direction to the
// server, so that there can be an answer; else all of it, as an uploader does that is killed.
type torn struct {
	name      string
	sum, half bool // sum: it carries its body's SHA-256, as the gateway's uploads do
	key       string
	status    int
	seen      bool
	length    int64
}

// tryTorn tears uploads. The gateway publishes what was answered with success, so a success for a torn blob would harm
// it; what is visible of one does not.
func tryTorn(ctx context.Context, t *trial) error {
	all := []*torn{
		{name: "a torn blob", sum: true, half: true},
		{name: "a blob whose uploader died", sum: true},
		{name: "a torn upload without a checksum", half: true},
		{name: "an upload without a checksum whose uploader died"},
	}
	for i, u := range all {
		u.key = t.key(fmt.Sprintf("torn-%d", i))
		if err := t.tear(ctx, u); err != nil {
			return err
		}
	}
	// A server finds out about a lost connection in its own time.
	for look := range tornLooks {
		if look > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(tornPause):
			}
		}
		for _, u := range all {
			length, err := t.length(ctx, u.key)
			if err == nil {
				u.seen, u.length = true, length
			} else if !hides(err) {
				return err
			}
		}
	}
	tellTorn(t, all)
	return nil
}

func tellTorn(t *trial, all []*torn) {
	var notes []string
	harm := false
	for _, u := range all {
		switch answered := u.status >= 200 && u.status < 300; {
		case answered:
			harm = harm || u.sum
			notes = append(notes, fmt.Sprintf("%s is answered %d", u.name, u.status))
		case u.seen:
			notes = append(notes, fmt.Sprintf("%s is visible, with %d bytes of %d", u.name, u.length, tornLength))
		}
	}
	note := strings.Join(notes, "; ")
	if harm {
		t.findNeeded(tornUploads, Wrong, note)
		return
	}
	t.find(tornUploads, outcomeOf(note), note)
}

// tear sends a part of an upload. Its status is that of the server's answer, 0 without one.
func (s *session) tear(ctx context.Context, u *torn) error {
	body := random(tornLength)
	var sum []byte
	if u.sum {
		sum = sumSHA256(body)
	}
	r, err := s.signedPut(ctx, u.key, tornLength, sum)
	if err != nil {
		return err
	}
	conn, err := s.dial(ctx, r.URL)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	w := bufio.NewWriter(conn)
	fmt.Fprintf(w, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", r.Method, r.URL.RequestURI(), r.Host, tornLength)
	// What is left to be said of an error is said by Flush.
	_ = r.Header.Write(w)
	_, _ = w.WriteString("\r\n")
	_, _ = w.Write(body[:tornSent])
	if err := w.Flush(); err != nil || !u.half {
		// A server may refuse early and hang up.
		return ctx.Err()
	}
	if closer, ok := conn.(interface{ CloseWrite() error }); ok {
		if err := closer.CloseWrite(); err != nil {
			return ctx.Err()
		}
	}
	if err := conn.SetReadDeadline(time.Now().Add(tornAnswer)); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		// No answer is as it should be.
		return ctx.Err()
	}
	answer.Body.Close()
	u.status = answer.StatusCode
	return nil
}

// signedPut returns a PUT signed in its headers, without a body, of the length that it announces. sum is the
// SHA-256 that the gateway would send twice, or nil.
func (s *session) signedPut(ctx context.Context, key string, length int64, sum []byte) (*http.Request, error) {
	// The client knows how its URLs are made.
	pre, err := s.presigner().PresignPutObject(ctx, &s3.PutObjectInput{Bucket: &s.cfg.Bucket, Key: &key})
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(pre.URL)
	if err != nil {
		return nil, errors.New("the client made a URL that cannot be parsed")
	}
	u.RawQuery = ""
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, u.String(), nil)
	if err != nil {
		return nil, err
	}
	o := s.api.Options()
	if o.Credentials == nil {
		return nil, errors.New("the client has no credentials")
	}
	secrets, err := o.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	r.ContentLength = length
	hash := "UNSIGNED-PAYLOAD"
	if sum != nil {
		hash = hex.EncodeToString(sum)
		r.Header.Set("X-Amz-Checksum-Sha256", *checksum(sum))
	}
	r.Header.Set("X-Amz-Content-Sha256", hash)
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	return r, signer.SignHTTP(ctx, secrets, r, hash, "s3", o.Region, time.Now())
}

// dial connects as the client does.
func (s *session) dial(ctx context.Context, u *url.URL) (net.Conn, error) {
	port := u.Port()
	if port == "" {
		port = u.Scheme // both are services' names
	}
	transport := transportOf(s.api.Options().HTTPClient)
	if transport != nil && transport.Proxy != nil {
		proxy, err := transport.Proxy(&http.Request{URL: u})
		if err != nil || proxy != nil {
			return nil, errors.New("not tried through a proxy")
		}
	}
	address := net.JoinHostPort(u.Hostname(), port)
	if u.Scheme != "https" {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if transport != nil && transport.TLSClientConfig != nil {
		config = transport.TLSClientConfig.Clone()
	}
	config.NextProtos = []string{"http/1.1"}
	d := tls.Dialer{Config: config}
	return d.DialContext(ctx, "tcp", address)
}

// transportOf returns the transport of a client, nil when it has another kind.
func transportOf(client s3.HTTPClient) *http.Transport {
	switch c := client.(type) {
	case *http.Client:
		t, _ := c.Transport.(*http.Transport)
		return t
	case interface{ GetTransport() *http.Transport }:
		return c.GetTransport()
	}
	return nil
}
