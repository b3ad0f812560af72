package e2e

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestObjectKeys: a key is every byte behind the bucket's slash, once decoded; no two keys are one object.
func TestObjectKeys(t *testing.T) {
	w, _ := shared(t)
	whole := strings.Repeat("k", 1024)
	for path, key := range map[string]string{
		"a": "a", "a/b": "a/b", "a//b": "a//b", "a/": "a/", "/a": "/a", "..": "..", "../a": "../a", ".": ".", "a/./b": "a/./b",
		"+": "+", "a+b": "a+b", "a%20b": "a b", "%2F": "/", "x%2Fy": "x/y", "%252F": "%2F", "%25": "%", "%3Fq=1": "?q=1", "%23": "#",
		"%E2%82%AC": "€", "%22%5C": `"\`, "%0A": "\n", "A": "A", ".fencegate/x": ".fencegate/x", whole: whole,
	} {
		full, lease := "/v1/objects/reports/"+path, leaseOfKey(key)
		if got := w.want(200, "GET", "/v1/marks/objects/reports/"+path, ""); got.header.Get("X-Fence-Token") != "0" || header(t, got, "X-Fence-Lease") != lease {
			t.Errorf("%q: %v, want lease %q", key, got, lease)
			continue
		}
		g := w.acquire(lease)
		r := w.want(201, "PUT", full, "body of "+key, g.token(0))
		var stored struct {
			Bucket, Key, SHA256 string
			Size, Token         int64
		}
		sum := sha256.Sum256([]byte("body of " + key))
		if err := json.Unmarshal([]byte(r.body), &stored); err != nil || stored.Bucket != "reports" || stored.Key != key || stored.Token != g.Token ||
			stored.Size != int64(len("body of "+key)) || stored.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%q: %v", key, r)
		}
		if got := w.want(200, "GET", full, "").body; got != "body of "+key {
			t.Errorf("%q: %q", key, got)
		}
		p := w.refusedWith(g.Token, 412, "spent-token", "PUT", full, "other", g.token(0))
		if p["resource"] != "objects/reports/"+key || p["lease"] != lease {
			t.Errorf("%q: %v", key, p)
		}
	}
	for _, path := range []string{"", whole + "k", "%ff", "%00"} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			if p := w.refused(400, "invalid-request", method, "/v1/objects/reports/"+path, "", "X-Fence-Token: 1000"); p["field"] != "key" {
				t.Errorf("%s %q: %v", method, path, p)
			}
		}
	}
}

// leaseOfKey is the name that a client computes: too long a one, or one with control characters, is cut and hashed.
func leaseOfKey(key string) string {
	name := "report:" + key
	if len(name) <= 1024 && !strings.Contains(name, "\n") {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.ReplaceAll(name[:min(len(name), 900)], "\n", "") + "~sha256:" + hex.EncodeToString(sum[:])
}

func header(t testing.TB, r response, name string) string {
	t.Helper()
	plain, err := url.PathUnescape(r.header.Get(name))
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// TestPrefixes: the longest protected prefix decides, and a segment of the key can name the lease of many objects.
func TestPrefixes(t *testing.T) {
	w, s := shared(t)
	execSQL(t, s.database, "SELECT fence.protect_bucket('reports', 'daily/', 'daily:{key:2}'), fence.protect_bucket('reports', 'daily/x/', 'constant')")
	for path, lease := range map[string]string{"daily/7/a": "daily:7", "daily/7/b": "daily:7", "daily/x/a": "constant", "daily": "report:daily", "daily/y": "daily:y"} {
		if got := header(t, w.want(200, "GET", "/v1/marks/objects/reports/"+path, ""), "X-Fence-Lease"); got != lease {
			t.Errorf("%s: %s, want %s", path, got, lease)
		}
	}
	g := w.acquire("daily:7")
	w.want(201, "PUT", "/v1/objects/reports/daily/7/a", "a", g.token(0))
	w.want(201, "PUT", "/v1/objects/reports/daily/7/b", "b", g.token(0))
	w.refusedWith(0, 403, "unissued-token", "PUT", "/v1/objects/reports/daily/x/a", "x", g.token(0))
}

// TestObjectReads (I6): whole bodies, parts, conditions, and the headers that were kept.
func TestObjectReads(t *testing.T) {
	w, _ := shared(t)
	g := w.acquire("report:a")
	const body = "0123456789"
	w.want(201, "PUT", objectPathA, body, g.token(0), "Content-Type: text/csv", "Content-Encoding: x-enc", "Content-Disposition: attachment",
		"Cache-Control: max-age=7", "X-Meta-Colour: red", "X-Meta-Colour: blue", "X-Meta-City: Zürich")
	tag := fmt.Sprintf(`"%d"`, g.Token)
	for _, method := range []string{"GET", "HEAD"} {
		r := w.want(200, method, objectPathA, "")
		for name, want := range map[string]string{
			"Content-Type": "text/csv", "Content-Encoding": "x-enc", "Content-Disposition": "attachment", "Cache-Control": "max-age=7",
			"X-Meta-Colour": "red, blue", "X-Meta-City": "Zürich", "Content-Length": "10", "ETag": tag, "Accept-Ranges": "bytes",
			"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox",
		} {
			if got := r.header.Get(name); got != want {
				t.Errorf("%s: %s: %q, want %q", method, name, got, want)
			}
		}
		if modified, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", r.header.Get("Last-Modified")); err != nil || time.Since(modified).Abs() > time.Minute {
			t.Errorf("%s: Last-Modified %q", method, r.header.Get("Last-Modified"))
		}
		if method == "GET" && r.body != body || method == "HEAD" && r.body != "" {
			t.Errorf("%s: body %q", method, r.body)
		}
	}
	for name, tt := range map[string]struct {
		headers    []string
		status     int
		body, part string
	}{
		"First":          {[]string{"Range: bytes=0-3"}, 206, "0123", "bytes 0-3/10"},
		"Rest":           {[]string{"Range: bytes=7-"}, 206, "789", "bytes 7-9/10"},
		"Last":           {[]string{"Range: bytes=-2"}, 206, "89", "bytes 8-9/10"},
		"BeyondEnd":      {[]string{"Range: bytes=8-100"}, 206, "89", "bytes 8-9/10"},
		"Outside":        {[]string{"Range: bytes=10-"}, 416, "", "bytes */10"},
		"Several":        {[]string{"Range: bytes=0-1,4-5"}, 416, "", "bytes */10"},
		"Malformed":      {[]string{"Range: bytes=z"}, 200, body, ""},
		"IfRange":        {[]string{"Range: bytes=0-1", "If-Range: " + tag}, 206, "01", "bytes 0-1/10"},
		"IfRangeOld":     {[]string{"Range: bytes=0-1", `If-Range: "1"`}, 200, body, ""},
		"NotModified":    {[]string{"If-None-Match: " + tag}, 304, "", ""},
		"NotModifiedAny": {[]string{"If-None-Match: *"}, 304, "", ""},
		"Modified":       {[]string{`If-None-Match: "1"`}, 200, body, ""},
		"Match":          {[]string{"If-Match: " + tag}, 200, body, ""},
		"NoMatch":        {[]string{`If-Match: "1"`}, 412, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.in(t).do("GET", objectPathA, "", tt.headers...)
			if r.status != tt.status || r.status < 400 && r.body != tt.body || r.header.Get("Content-Range") != tt.part {
				t.Fatalf("got %v", r)
			}
			r.knowsMark(t)
			switch tt.status {
			case 416:
				r.refusal(t, 416, "range-not-satisfiable")
			case 412:
				r.refusal(t, 412, "precondition-failed")
			}
		})
	}
}

// TestObjectLifecycle (I1): replaced, deleted and written again, the mark only rises.
func TestObjectLifecycle(t *testing.T) {
	w, _ := shared(t)
	g := w.acquire("report:a")
	w.refusedWith(0, 404, "not-found", "GET", objectPathA, "")
	w.refusedWith(0, 404, "not-found", "DELETE", objectPathA, "", g.token(0))
	w.refusedWith(0, 412, "precondition-failed", "PUT", objectPathA, "x", g.token(0), "If-Match: *")
	w.want(201, "PUT", objectPathA, "one", g.token(0), "If-None-Match: *", "X-Meta-A: 1")
	w.refusedWith(g.Token, 412, "precondition-failed", "PUT", objectPathA, "x", g.token(1), "If-None-Match: *")
	w.want(200, "PUT", objectPathA, "", g.token(1))
	if r := w.want(200, "GET", objectPathA, ""); r.body != "" || r.header.Get("X-Meta-A") != "" || r.header.Get("Content-Type") != "application/octet-stream" || r.header.Get("Content-Length") != "0" {
		t.Fatalf("got %v", r)
	}
	r := w.want(204, "PUT", objectPathA, "three", g.token(2), "Prefer: return=minimal")
	if r.body != "" || r.header.Get("Preference-Applied") != "return=minimal" {
		t.Fatalf("got %v", r)
	}
	w.want(204, "DELETE", objectPathA, "", g.token(3))
	w.refusedWith(g.Token+3, 404, "not-found", "GET", objectPathA, "")
	w.refusedWith(g.Token+3, 404, "not-found", "DELETE", objectPathA, "", g.token(4))
	w.refusedWith(g.Token+3, 412, "stale-token", "PUT", objectPathA, "late", g.token(2))
	w.want(201, "PUT", objectPathA, "four", g.token(4))
	// Content headers are part of the request: with others it is another one.
	w.refusedWith(g.Token+4, 412, "spent-token", "PUT", objectPathA, "four", g.token(4), "X-Meta-A: 2")
	if r := w.want(201, "PUT", objectPathA, "four", g.token(4)); !r.replayed() {
		t.Fatalf("got %v", r)
	}
}

// TestObjectChecksums (I6): a body that is not what its digest says is not published, nor one that breaks off.
func TestObjectChecksums(t *testing.T) {
	w, _ := shared(t)
	g := w.acquire("report:a")
	sums := func(body string) (contentMD5, contentDigest string) {
		m, s := md5.Sum([]byte(body)), sha256.Sum256([]byte(body))
		return "Content-MD5: " + base64.StdEncoding.EncodeToString(m[:]), "Content-Digest: sha-256=:" + base64.StdEncoding.EncodeToString(s[:]) + ":"
	}
	rightMD5, rightDigest := sums("before")
	w.want(201, "PUT", objectPathA, "before", g.token(0), rightMD5, rightDigest)
	wrongMD5, wrongDigest := sums("another")
	for _, wrong := range []string{wrongMD5, wrongDigest, strings.Replace(wrongDigest, "Content-Digest", "Repr-Digest", 1)} {
		w.refused(400, "checksum-mismatch", "PUT", objectPathA, "after", g.token(1), wrong)
	}
	for _, malformed := range []string{"Content-MD5: AAAA", "Content-Digest: sha-256=AAAA", "Content-Range: bytes 0-1/2"} {
		w.refused(400, "invalid-request", "PUT", objectPathA, "after", g.token(1), malformed)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n%s\r\n\r\nhalf", objectPathA, g.token(1)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if got := w.want(200, "GET", objectPathA, "").body; got != "before" || w.mark(objectPathA) != g.Token {
		t.Fatalf("published: %s", got)
	}
	w.want(200, "PUT", objectPathA, "after", g.token(1))
}
