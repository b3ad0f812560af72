package s3api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	unsigned        = "UNSIGNED-PAYLOAD"
	unsignedTrailer = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
)

// head is the head of a signed request up to its last header, for whoever sends a body as he likes: its length is not signed.
func (w *world) head(method, path, hash string, headers ...string) string {
	w.t.Helper()
	r := w.request(method, path, "", append(headers, "X-Amz-Content-Sha256", hash)...)
	r.Body, r.ContentLength = nil, 0
	err := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).SignHTTP(context.Background(), credentialsOf(accessKey), r, hash, "s3", "us-east-1", time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, r.URL.RequestURI(), r.URL.Host)
	_ = r.Header.Write(&b)
	return b.String()
}

// exchange sends bytes, and no more than them where the request is torn, and reads one answer.
func (w *world) exchange(t *testing.T, raw string, torn bool) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	defer func() { conn.Close(); <-sent }()
	go func() {
		defer close(sent)
		_, _ = io.WriteString(conn, raw) // the answer may come before its end
		if torn {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}()
	method, _, _ := strings.Cut(raw, " ")
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(text)
}

func withBody(head, body string) string {
	return head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

// hostile makes requests as no client of good will does. They are about reports/a, with a token that is good, and an upload of it.
type hostile struct {
	w   *world
	tok []string
	id  string
}

func (h hostile) put(headers ...string) string {
	return h.w.head("PUT", "/reports/a", unsigned, append(headers, h.tok...)...)
}

func (h hostile) putWith(headers ...string) string { return withBody(h.put(headers...), "x") }
func (h hostile) putTo(target string) string {
	return withBody(h.w.head("PUT", target, unsigned, h.tok...), "x")
}

func (h hostile) copy(source string, headers ...string) string {
	return withBody(h.put(append(headers, "X-Amz-Copy-Source", source)...), "")
}

// framed puts a body of ten bytes in chunks, told as they are.
func (h hostile) framed(body string, headers ...string) string {
	return h.told(unsignedTrailer, "10", body, headers...)
}

func (h hostile) told(hash, length, body string, headers ...string) string {
	headers = append(append(headers, h.tok...), "X-Amz-Decoded-Content-Length", length, "Content-Encoding", "aws-chunked")
	return withBody(h.w.head("PUT", "/reports/a", hash, headers...), body)
}

func (h hostile) bare(method, target string) string {
	return h.w.head(method, target, unsigned, h.tok...) + "\r\n"
}

func (h hostile) get(target string) string { return h.w.head("GET", target, unsigned) + "\r\n" }

func (h hostile) del(body string) string {
	return withBody(h.w.head("POST", "/reports?delete=", sha256HexOf(body), append(h.tok, "Content-Md5", md5Base64(body))...), body)
}

func (h hostile) complete(body string) string {
	return withBody(h.w.head("POST", "/reports/a?uploadId="+h.id, sha256HexOf(body)), body)
}

// presigned is the target of a URL that was signed so long ago.
func (h hostile) presigned(age time.Duration, expires, more string) string {
	r := h.w.request("GET", "/reports/a?X-Amz-Expires="+expires+more, "")
	r.Body = nil
	url, _, err := v4.NewSigner().PresignHTTP(context.Background(), credentialsOf(accessKey), r, unsigned, "s3", "us-east-1", time.Now().Add(-age))
	if err != nil {
		h.w.t.Fatal(err)
	}
	return strings.TrimPrefix(url, h.w.url)
}

func (h hostile) plain(method, target string, headers ...string) string {
	raw := method + " " + target + " HTTP/1.1\r\nHost: " + strings.TrimPrefix(h.w.url, "http://") + "\r\n"
	for i := 0; i < len(headers); i += 2 {
		raw += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	return raw + "\r\n"
}

// Whatever is sent, the answer is an error that S3's clients can read, nothing has changed, and the gateway is not at fault.
func TestHostileRequests(t *testing.T) {
	w := newWorld(t)
	g := w.grant("report:a")
	w.mustPut("a", "one", g.First())
	u := w.begin(t, g.First()+1)
	u.part(1, "two")
	h := hostile{w, []string{"X-Fence-Token", (g.First() + 1).String()}, *u.id}
	for _, tt := range h.requests() {
		t.Run(tt.name, func(t *testing.T) {
			status, body := w.exchange(t, tt.raw, strings.HasSuffix(tt.name, "Torn"))
			var refusal struct{ Code, RequestId string }
			err := xml.Unmarshal([]byte(body), &refusal)
			// What net/http cannot read it refuses by itself, in plain text.
			if got := strings.TrimSpace(fmt.Sprint(status, " ", refusal.Code)); got != tt.want || (err != nil || refusal.RequestId == "") && strings.Contains(tt.want, " ") {
				t.Errorf("%s, want %s: %.300s", got, tt.want, body)
			}
		})
	}
	o, err := w.client().HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("reports"), Key: aws.String("a")})
	if err != nil || *o.ETag != md5Of("one") {
		t.Errorf("the object has changed: %+v %v", o, err)
	}
	uploads, err := w.client().ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: aws.String("reports")})
	if err != nil || len(uploads.Uploads) != 1 {
		t.Errorf("uploads in parts: %+v %v", uploads, err)
	}
	for _, line := range w.logged() {
		if line["level"] != "INFO" {
			t.Errorf("logged: %v", line)
		}
	}
	if err := u.complete(); err != nil || w.get("a") != "two" {
		t.Errorf("the upload is complete: %v", err)
	}
}
