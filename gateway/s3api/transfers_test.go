package s3api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// CRC-32C and CRC-64/NVME of a body are checked over HTTP, too, before anything is visible.
func TestChecksumsOverHTTP(t *testing.T) {
	b := newServers(t).open(t, 0)
	for name, sums := range map[string]struct{ right, wrong, malformed string }{ // of "123456789"
		"X-Amz-Checksum-Crc32c":    {"4waSgw==", "4waShA==", "4waS"},
		"X-Amz-Checksum-Crc64nvme": {"rosUhgp5mIg=", "rosUhgp5mIk=", "4waSgw=="},
	} {
		g := b.grant("report:" + name)
		for _, tt := range []struct {
			sum    string
			status int
			code   string
		}{{sums.wrong, 400, "checksum-mismatch"}, {sums.malformed, 400, "invalid-request"}, {sums.right, 201, ""}} {
			r := b.put(false, name, "123456789", g.First())
			r.Header.Set(name, tt.sum)
			answer := b.send(r)
			if text, err := io.ReadAll(answer.Body); answer.StatusCode != tt.status || !strings.Contains(string(text), tt.code) || err != nil {
				t.Errorf("%s: %s: %s %s", name, tt.sum, answer.Status, text)
			}
			if status, _ := b.read(false, name); (status == http.StatusOK) != (tt.status == 201) {
				t.Errorf("%s: after %s it reads %d", name, tt.sum, status)
			}
		}
	}
}

// wire writes a request as it goes over a connection, without its body.
func wire(t *testing.T, r *http.Request, length int, expect bool) (address, head string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", r.Method, r.URL.RequestURI(), r.URL.Host, length)
	if expect {
		b.WriteString("Expect: 100-continue\r\n")
	}
	r.Header.Del("Content-Length")
	if err := r.Header.Write(&b); err != nil {
		t.Fatal(err)
	}
	return r.URL.Host, b.String() + "\r\n"
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A client that leaves before the end of its body, after whichever byte, has published nothing (I6).
func TestDisconnectAtAnyByte(t *testing.T) {
	const body = "0123456789"
	b := newServers(t).open(t, 0)
	token := b.grant("report:a").First()
	for _, overS3 := range []bool{false, true} {
		for sent := range len(body) {
			address, head := wire(t, b.put(overS3, "a", body, token), len(body), false)
			conn := dial(t, address)
			if _, err := io.WriteString(conn, head+body[:sent]); err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		n, err := b.store.CountBlobs(t.Context())
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%+v, %v", n, err)
		}
		if n.Aborted == 2*int64(len(body)) {
			break
		}
	}
	b.wantBlobs(t, 0)
	if status, text := b.read(false, "a"); status != http.StatusNotFound {
		t.Errorf("%d %q", status, text)
	}
	if answer := b.send(b.put(false, "a", body, token)); answer.StatusCode != http.StatusCreated || answer.Header.Get("X-Fence-Replayed") != "" {
		t.Errorf("the token is spent: %s %v", answer.Status, answer.Header)
	}
}

// Who waits to be asked for a body is refused without, and who sends it anyway reads why.
func TestRefusedBeforeTheBody(t *testing.T) {
	b := newServers(t).open(t, 0)
	old := b.grant("report:a").First()
	b.grant("report:a")
	for _, overS3 := range []bool{false, true} {
		for _, size := range []int{10, 3 << 20} {
			for _, expect := range []bool{true, false} {
				address, head := wire(t, b.put(overS3, "a", "", old), size, expect)
				conn := dial(t, address)
				if _, err := io.WriteString(conn, head); err != nil {
					t.Fatal(err)
				}
				if !expect { // a client that reads nothing before it has sent everything
					if _, err := io.WriteString(conn, strings.Repeat("x", size)); err != nil {
						t.Fatalf("over S3: %t, %d bytes: %v", overS3, size, err)
					}
				}
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatalf("over S3: %t, %d bytes, expect: %t: %v", overS3, size, expect, err)
				}
				if !expect && answer.Close {
					t.Errorf("over S3: %t, %d bytes: the connection was given up with the body unread", overS3, size)
				}
				if text, err := io.ReadAll(answer.Body); answer.StatusCode != http.StatusPreconditionFailed || !strings.Contains(strings.ToLower(string(text)), "stale") || err != nil {
					t.Errorf("over S3: %t, %d bytes, expect: %t: %s %s %v", overS3, size, expect, answer.Status, text, err)
				}
			}
		}
	}
	b.wantBlobs(t, 0)
	if n, err := b.store.CountBlobs(t.Context()); err != nil || n.Aborted != 0 {
		t.Errorf("%+v, %v: an upload was begun", n, err)
	}
}

// A reader that has found the object reads that one, whatever writers make of it before it opens the body, and while it reads (I6).
func TestReaderKeepsItsVersion(t *testing.T) {
	b := newServers(t).open(t, 0)
	first := strings.Repeat("of the first ", 100_000)
	g := b.grant("report:a")
	if answer := b.send(b.put(false, "a", first, g.First())); answer.StatusCode != http.StatusCreated {
		t.Fatal(answer.Status)
	}
	found, err := b.objects.Object(t.Context(), fence.ObjectName{Bucket: b.Bucket, Key: "a"}, fence.Access{})
	if err != nil {
		t.Fatal(err)
	}
	open := func() io.ReadCloser {
		t.Helper()
		body, err := b.objects.Open(t.Context(), found, 0, found.Size)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { body.Close() })
		return body
	}
	read := func(when string, body io.Reader, want string) {
		t.Helper()
		if got, err := io.ReadAll(body); err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, %.20q, %v", when, len(got), got, err)
		}
	}
	begun := open()
	if _, err := io.CopyN(io.Discard, begun, 100); err != nil {
		t.Fatal(err)
	}
	if answer := b.send(b.put(true, "a", strings.Repeat("of the second", 100_000), g.First()+1)); answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	read("opened after a write", open(), first)
	remove := b.put(false, "a", "", g.First()+2)
	remove.Method = http.MethodDelete
	if answer := b.send(remove); answer.StatusCode != http.StatusNoContent {
		t.Fatal(answer.Status)
	}
	read("opened after a delete", open(), first)
	read("begun before both", begun, first[100:])
	if status, _ := b.read(true, "a"); status != http.StatusNotFound {
		t.Errorf("the object is there: %d", status)
	}
}

// A bucket can send all of its readers to the store.
func TestRedirectOfABucket(t *testing.T) {
	s := newServers(t)
	s.exec(t, `SELECT fence.set_options($1, '', '{"redirect":true}')`, s.Bucket)
	b := s.open(t, 0)
	if answer := b.send(b.put(false, "a", "0123456789", b.grant("report:a").First())); answer.StatusCode != http.StatusCreated {
		t.Fatal(answer.Status)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Get(b.api + "/v1/objects/" + b.Bucket + "/a")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if to := answer.Header.Get("Location"); answer.StatusCode != http.StatusTemporaryRedirect || !strings.HasPrefix(to, s.Endpoint+"/") || answer.Header.Get("X-Fence-Token") == "" {
		t.Fatalf("%s %v", answer.Status, answer.Header)
	}
	if status, body := b.read(false, "a"); status != http.StatusOK || body != "0123456789" {
		t.Errorf("what it leads to: %d %q", status, body)
	}
	// HEAD has nothing to carry, and the S3 front's clients would not sign a request to somewhere else.
	if head, err := client.Head(b.api + "/v1/objects/" + b.Bucket + "/a"); err != nil || head.ContentLength != 10 {
		t.Errorf("%+v, %v", head, err)
	}
	if status, body := b.read(true, "a"); status != http.StatusOK || body != "0123456789" {
		t.Errorf("over S3: %d %q", status, body)
	}
}

// An object is renamed under the lease of both its keys, or not at all.
func TestRenameNeedsOneLease(t *testing.T) {
	s := newServers(t)
	s.exec(t, "SELECT fence.protect_bucket($1, 'day/', 'day:{key:2}')", s.Bucket)
	b := s.open(t, 0)
	day := b.grant("day:1").First()
	if answer := b.send(b.put(false, "day/1/a", "body", day)); answer.StatusCode != http.StatusCreated {
		t.Fatal(answer.Status)
	}
	rename := func(to string, status int, field string) {
		t.Helper()
		r := b.put(false, to, fmt.Sprintf(`{"rename":"objects/%s/day/1/a"}`, b.Bucket), day+1)
		r.Method = http.MethodPost
		r.Header.Set("Content-Type", "application/json")
		answer := b.send(r)
		var told struct{ Field, Detail string }
		if err := json.NewDecoder(answer.Body).Decode(&told); err != nil || answer.StatusCode != status || told.Field != field || field != "" && !strings.Contains(told.Detail, "day:1 and day:2") {
			t.Errorf("to %s: %s, %+v, %v", to, answer.Status, told, err)
		}
	}
	b.grant("day:2")
	rename("day/2/a", http.StatusBadRequest, "rename")
	for key, want := range map[string]int{"day/1/a": http.StatusOK, "day/2/a": http.StatusNotFound} {
		if status, _ := b.read(false, key); status != want {
			t.Errorf("%s after a rename that was refused: %d", key, status)
		}
	}
	rename("day/1/b", http.StatusCreated, "")
	for key, want := range map[string]int{"day/1/a": http.StatusNotFound, "day/1/b": http.StatusOK} {
		if status, _ := b.read(true, key); status != want {
			t.Errorf("%s after the rename: %d", key, status)
		}
	}
	b.wantBlobs(t, 1)
}

// What a HEAD and the ranges that no front answers say.
func TestOddReads(t *testing.T) {
	b := newServers(t).open(t, 0)
	for key, body := range map[string]string{"a": "0123456789", "empty": ""} {
		if answer := b.send(b.put(false, key, body, b.grant("report:"+key).First())); answer.StatusCode != http.StatusCreated {
			t.Fatal(answer.Status)
		}
	}
	for _, tt := range []struct {
		method, key, name, value string
		overHTTP, overS3         int
	}{
		{"GET", "empty", "Range", "bytes=0-0", 416, 416},
		{"GET", "a", "Range", "bytes=-0", 416, 416},
		{"GET", "a", "Range", "bytes=33-10", 200, 200},
		{"GET", "a", "Range", "bytes=0-1,4-5", 416, 200},
		{"HEAD", "a", "If-None-Match", "*", 304, 304},
		{"HEAD", "a", "If-Match", `"other"`, 412, 412},
		{"HEAD", "a", "If-Modified-Since", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), 304, 304},
		{"HEAD", "none", "If-Match", "*", 404, 404},
	} {
		over := b.request(tt.method, "/v1/objects/"+b.Bucket+"/"+tt.key, "", tt.name, tt.value)
		over.URL.Host, over.Host = strings.TrimPrefix(b.api, "http://"), ""
		for i, r := range []*http.Request{over, b.signed(tt.method, b.s3Path(tt.key), "", tt.name, tt.value)} {
			if answer, want := b.send(r), []int{tt.overHTTP, tt.overS3}[i]; answer.StatusCode != want {
				t.Errorf("%s of %s with %s: %s, over S3: %t: %s, want %d", tt.method, tt.key, tt.name, tt.value, i == 1, answer.Status, want)
			}
		}
	}
}
