package gateway_test

import (
	"bufio"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

func digests(body string) (md, sha string) {
	m, s := md5.Sum([]byte(body)), sha256.Sum256([]byte(body))
	return "Content-MD5: " + base64.StdEncoding.EncodeToString(m[:]), "sha-256=:" + base64.StdEncoding.EncodeToString(s[:]) + ":"
}

func TestObjectLifecycle(t *testing.T) {
	a := serve(t, nil)
	a.acquire("report:a")
	const path, body = "/v1/objects/b/a", "0123456789"
	md, sha := digests(body)
	put := []string{
		"X-Fence-Token: 1000", "Content-Type: text/csv", "Content-Encoding: x-enc", "Cache-Control: no-cache",
		"Content-Disposition: attachment", "X-Meta-Colour: red", "X-Meta-Colour: blue", md,
		"Content-Digest: sha-512=:AAAA:, " + sha, "Repr-Digest: " + sha,
	}
	for _, replayed := range []string{"", "true"} {
		got := a.want(201, "PUT", path, body, put...)
		if got.text != `{"bucket":"b","key":"a","size":10,"token":1000,"sha256":"84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"}`+"\n" {
			t.Fatal(got.text)
		}
		if got.Header.Get("ETag") != `"1000"` || got.Header.Get("X-Fence-Replayed") != replayed {
			t.Fatal(got.Header)
		}
	}
	for _, method := range []string{"GET", "HEAD"} {
		got := a.want(200, method, path, "")
		for name, want := range map[string]string{
			"Content-Type": "text/csv", "Content-Encoding": "x-enc", "Cache-Control": "no-cache", "Content-Disposition": "attachment",
			"X-Meta-Colour": "red, blue", "ETag": `"1000"`, "X-Fence-Token": "1000", "X-Fence-Lease": "report%3Aa",
			"Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT", "Accept-Ranges": "bytes", "Content-Length": "10",
			"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox",
		} {
			if got.Header.Get(name) != want {
				t.Errorf("%s %s: %q, want %q", method, name, got.Header.Get(name), want)
			}
		}
		if method == "GET" && got.text != body || method == "HEAD" && got.text != "" {
			t.Fatal(got.text)
		}
	}
	a.want(200, "PUT", path, "", "X-Fence-Token: 1001", "If-Match: \"1000\"")
	if got := a.want(200, "GET", path, ""); got.text != "" || got.Header.Get("Content-Length") != "0" || got.Header.Get("Content-Type") != "application/octet-stream" {
		t.Fatal(got.Header)
	}
	a.want(204, "PUT", path, "x", "X-Fence-Token: 1002", "Prefer: return=minimal")
	a.want(204, "DELETE", path, "", "X-Fence-Token: 1003")
	if p := a.refused(404, "not-found", "GET", path, ""); p.Mark == nil || *p.Mark != 1003 {
		t.Fatalf("%+v", p)
	}
	if got := a.want(200, "GET", "/v1/marks/objects/b/a", ""); !strings.Contains(got.text, `"token":1003`) {
		t.Fatal(got.text)
	}
}

func TestObjectRangesAndConditions(t *testing.T) {
	a := serve(t, nil)
	a.acquire("report:a")
	const path, body = "/v1/objects/b/a", "0123456789"
	a.want(201, "PUT", path, body, "X-Fence-Token: 1000")
	const date = "Fri, 02 Jan 2026 03:04:05 GMT"
	for _, tc := range []struct {
		name         string
		headers      []string
		status       int
		body, ranged string
	}{
		{"Single", []string{"Range: bytes=2-4"}, 206, "234", "bytes 2-4/10"},
		{"Open", []string{"Range: bytes=7-"}, 206, "789", "bytes 7-9/10"},
		{"Suffix", []string{"Range: bytes=-2"}, 206, "89", "bytes 8-9/10"},
		{"Malformed", []string{"Range: bytes=x"}, 200, body, ""},
		{"OtherUnit", []string{"Range: rows=1-2"}, 200, body, ""},
		{"TwoLines", []string{"Range: bytes=0-1", "Range: bytes=2-3"}, 200, body, ""},
		{"Outside", []string{"Range: bytes=10-"}, 416, "", "bytes */10"},
		{"Several", []string{"Range: bytes=0-1,3-4"}, 416, "", "bytes */10"},
		{"IfRange", []string{"Range: bytes=0-1", `If-Range: "1000"`}, 206, "01", "bytes 0-1/10"},
		{"IfRangeOther", []string{"Range: bytes=0-1", `If-Range: "999"`}, 200, body, ""},
		{"IfRangeDate", []string{"Range: bytes=0-1", "If-Range: " + date}, 200, body, ""},
		{"NotModified", []string{`If-None-Match: "1000"`, "Range: bytes=0-1"}, 304, "", ""},
		{"NotModifiedSince", []string{"If-Modified-Since: " + date}, 304, "", ""},
		{"MatchFails", []string{`If-Match: "999"`}, 412, "", ""},
		{"BadTag", []string{`If-Match: 1000`}, 400, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := *a
			a.t = t
			got := a.want(tc.status, "GET", path, "", tc.headers...)
			if tc.status < 300 && got.text != tc.body || got.Header.Get("Content-Range") != tc.ranged {
				t.Fatalf("got %q, %q", got.text, got.Header.Get("Content-Range"))
			}
			if tc.status != 400 && got.Header.Get("ETag") != `"1000"` {
				t.Fatalf("no mark: %v", got.Header)
			}
		})
	}
	if got := a.want(200, "HEAD", path, "", "Range: bytes=0-1"); got.Header.Get("Content-Length") != "10" {
		t.Fatal("HEAD has no ranges")
	}
}

func TestObjectKeysRoundTrip(t *testing.T) {
	a := serve(t, nil)
	for path, key := range map[string]string{
		"a//b": "a//b", "/lead": "/lead", "../up/./x": "../up/./x", "a+b": "a+b", "a%2Fb": "a/b", "a%252Fb": "a%2Fb",
		"%E2%82%AC%20x": "€ x", "tail/": "tail/", "%22q%22%2F": `"q"/`, ".": ".", "..": "..",
	} {
		token, id := a.acquire(strings.ReplaceAll("report:"+path, "/", "%2F"))
		got := a.want(201, "PUT", "/v1/objects/b/"+path, "x", token)
		if !strings.Contains(got.text, `"key":`+quote(key)+`,`) {
			t.Errorf("%s: %s", path, got.text)
		}
		a.want(200, "GET", "/v1/objects/b/"+path, "")
		a.want(204, "DELETE", "/v1/objects/b/"+path, "", "X-Fence-Token: "+next(token))
		a.want(204, "DELETE", "/v1/leases/"+strings.ReplaceAll("report:"+path, "/", "%2F"), "", id)
	}
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

// next turns the header of a block's first token into its second token.
func next(token string) string {
	return strings.TrimSuffix(strings.TrimPrefix(token, "X-Fence-Token: "), "0") + "1"
}

func TestObjectWriteRefused(t *testing.T) {
	a := serve(t, func(c *gateway.Config) { c.MaxObject = 100; c.MaxMeta = 20 })
	a.acquire("report:a")
	md, sha := digests("another")
	for _, tc := range []struct {
		name, code string
		status     int
		body       string
		headers    []string
	}{
		{"NoToken", "token-required", 428, "x", nil},
		{"Unissued", "unissued-token", 403, "x", []string{"X-Fence-Token: 99999"}},
		{"TooLarge", "too-large", 413, strings.Repeat("x", 101), []string{"X-Fence-Token: 1000"}},
		{"WrongMD5", "checksum-mismatch", 400, "x", []string{"X-Fence-Token: 1000", md}},
		{"WrongSHA256", "checksum-mismatch", 400, "x", []string{"X-Fence-Token: 1000", "Content-Digest: " + sha}},
		{"BadMD5", "invalid-request", 400, "x", []string{"X-Fence-Token: 1000", "Content-MD5: AAAA"}},
		{"EmptyMD5", "invalid-request", 400, "x", []string{"X-Fence-Token: 1000", "Content-MD5: "}},
		{"BadDigest", "invalid-request", 400, "x", []string{"X-Fence-Token: 1000", "Repr-Digest: sha-256=AAAA"}},
		{"ShortDigest", "invalid-request", 400, "x", []string{"X-Fence-Token: 1000", "Repr-Digest: sha-256=:AAAA:"}},
		{"TwoDigests", "invalid-request", 400, "x", []string{"X-Fence-Token: 1000", "Repr-Digest: " + sha, "Content-Digest: sha-256=:" + strings.Repeat("A", 43) + "=:"}},
		{"ContentRange", "invalid-request", 400, "x", []string{"X-Fence-Token: 1000", "Content-Range: bytes 0-0/2"}},
		{"MetaTooLong", "invalid-request", 400, "x", []string{"X-Fence-Token: 1000", "X-Meta-A: " + strings.Repeat("x", 20)}},
		{"MetaNotPrintable", "invalid-request", 400, "x", []string{"X-Fence-Token: 1000", "X-Meta-A: a\tb"}},
		{"MetaNotUTF8", "invalid-request", 400, "x", []string{"X-Fence-Token: 1000", "X-Meta-A: a\xffb"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := *a
			a.t = t
			a.refused(tc.status, tc.code, "PUT", "/v1/objects/b/a", tc.body, tc.headers...)
		})
	}
	if got := a.want(200, "GET", "/v1/marks/objects/b/a", ""); got.Header.Get("X-Fence-Token") != "0" {
		t.Fatal("a refusal moved the mark")
	}
}

// exchange sends raw bytes and reads one response.
func (a *api) exchange(request string) (*http.Response, *bufio.Reader, net.Conn) {
	a.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		a.t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp, r, conn
}

func TestChunkedUploadIsBounded(t *testing.T) {
	a := serve(t, func(c *gateway.Config) { c.MaxObject = 4 })
	a.acquire("report:a")
	const head = "PUT /v1/objects/b/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nX-Fence-Token: 1000\r\n\r\n"
	if resp, _, _ := a.exchange(head + "5\r\n01234\r\n0\r\n\r\n"); resp.StatusCode != 413 {
		t.Fatal(resp.Status)
	}
	if resp, _, _ := a.exchange(head + "4\r\n0123\r\n0\r\n\r\n"); resp.StatusCode != 201 {
		t.Fatal(resp.Status)
	}
}

func TestExpectIsRefusedWithoutTheBody(t *testing.T) {
	a := serve(t, nil)
	a.acquire("report:a")
	const head = "PUT /v1/objects/b/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\nX-Fence-Token: "
	if resp, _, _ := a.exchange(head + "7\r\n\r\n"); resp.StatusCode != 412 {
		t.Fatal(resp.Status)
	}
	resp, r, conn := a.exchange(head + "1000\r\n\r\n")
	if resp.StatusCode != 100 {
		t.Fatal(resp.Status)
	}
	if _, err := io.WriteString(conn, "01234"); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 201 {
		t.Fatal(resp, err)
	}
}

func TestRefusalIsReadByAClientThatKeepsSending(t *testing.T) {
	a := serve(t, nil)
	// More than net/http would read by itself.
	if got := a.want(428, "PUT", "/v1/objects/b/a", strings.Repeat("x", 400<<10)); got.Close {
		t.Fatal("the connection was given up with the body unread")
	}
}

func TestStalledBodyDoesNotHoldTheAnswer(t *testing.T) {
	a := serve(t, func(c *gateway.Config) { c.WriteTimeout = 50 * time.Millisecond })
	a.acquire("report:a")
	a.acquire("w:1")
	for request, status := range map[string]int{
		"PUT /v1/objects/b/a HTTP/1.1\r\n":                          428,
		"PATCH /v1/rows/w/1 HTTP/1.1\r\nX-Fence-Token: 2000\r\n":    415,
		"PUT /v1/leases/a HTTP/1.1\r\nX-Lease-Id: 1\r\n":            400,
		"DELETE /v1/rows/w/1 HTTP/1.1\r\nX-Fence-Token: 2000\r\n":   404,
		"GET /v1/marks/objects/b/a HTTP/1.1\r\n":                    200,
		"GET /v1/leases/report:a HTTP/1.1\r\nContent-Type: x/y\r\n": 200,
	} {
		if resp, _, _ := a.exchange(request + "Host: localhost\r\nContent-Length: 10\r\n\r\n0123"); resp.StatusCode != status {
			t.Errorf("%s: %s", request, resp.Status)
		}
	}
}

// objects replaces a backend's bodies.
type objects struct {
	gateway.Objects
	open  func(length int64) (io.ReadCloser, error)
	write func(context.Context, fence.ObjectWrite) (fence.Object, error)
}

func (o objects) Object(context.Context, fence.ObjectName, fence.Access) (fence.Object, error) {
	return fence.Object{State: fence.State{Resource: "objects/b/a", Lease: "l", Mark: 7}, Size: 1 << 20, Blob: "x"}, nil
}

func (o objects) Open(_ context.Context, _ fence.Object, _, length int64) (io.ReadCloser, error) {
	return o.open(length)
}

func (o objects) CheckWrite(_ context.Context, w fence.ObjectWrite) (fence.ObjectWrite, error) {
	return w, nil
}

func (o objects) WriteObject(ctx context.Context, w fence.ObjectWrite) (fence.Object, error) {
	return o.write(ctx, w)
}

func TestTornBodyBreaksTheConnection(t *testing.T) {
	for name, tail := range map[string]io.Reader{
		"EndsEarly": strings.NewReader(""),
		"Fails":     iotestErr{errors.New("store went away")},
	} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, func(c *gateway.Config) {
				c.Objects = objects{open: func(length int64) (io.ReadCloser, error) {
					return io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("x", int(length/2))), tail)), nil
				}}
			})
			resp, err := a.client.Get(a.url + "/v1/objects/b/a")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			n, err := io.Copy(io.Discard, resp.Body)
			if resp.ContentLength != 1<<20 || err == nil {
				t.Fatalf("a torn body looks whole: %d of %d bytes, %v", n, resp.ContentLength, err)
			}
			if log := a.log.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, "body cut off") {
				t.Fatalf("log: %s", log)
			}
		})
	}
}

type iotestErr struct{ err error }

func (r iotestErr) Read([]byte) (int, error) { return 0, r.err }

func TestStoreFailsBeforeTheBody(t *testing.T) {
	a := serve(t, func(c *gateway.Config) {
		c.Objects = objects{open: func(int64) (io.ReadCloser, error) {
			return nil, fence.Errorf(fence.CodeStoreUnavailable, "the store does not answer")
		}}
	})
	got := a.want(502, "GET", "/v1/objects/b/a", "")
	if p := got.problem(t); p.Code != "unavailable" || got.Header.Get("X-Fence-Token") != "7" || got.Header.Get("Last-Modified") != "" {
		t.Fatal(got.text, got.Header)
	}
}

func TestBrokenUploadIsTheClientsFault(t *testing.T) {
	done := make(chan error, 1)
	a := serve(t, func(c *gateway.Config) {
		c.Objects = objects{write: func(ctx context.Context, w fence.ObjectWrite) (fence.Object, error) {
			_, err := io.Copy(io.Discard, w.Body)
			done <- err
			if ctx.Err() != nil {
				t.Error("the client's leaving cancels the write")
			}
			return fence.Object{}, err
		}}
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "PUT /v1/objects/b/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\nX-Fence-Token: 7\r\n\r\n01234"); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := <-done; fence.CodeOf(err) != fence.CodeInvalidRequest {
		t.Fatalf("got %v", err)
	}
}
