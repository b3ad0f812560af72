package load_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/load"
)

const patience = 10 * time.Second

// served is net/http's server, which counts its connections.
func served(t *testing.T, handler http.HandlerFunc) (c *load.Conn, connections *atomic.Int64) {
	t.Helper()
	connections = new(atomic.Int64)
	s := httptest.NewUnstartedServer(handler)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return dial(t, s.Listener.Addr().String()), connections
}

func dial(t *testing.T, addr string) *load.Conn {
	t.Helper()
	c, err := load.Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Responses of each framing, one after the other on one connection as long as the server keeps it.
func TestConnReads(t *testing.T) {
	long := strings.Repeat("0123456789", 20_000)
	c, connections := served(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/echo":
			w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, r.Method+" "+r.Host+" "+r.Header.Get("X-Fence-Token")+" ")
			w.Write(body)
		case "/chunked":
			w.Header().Set("Trailer", "X-End")
			for part := range strings.SplitSeq(long, "9") {
				io.WriteString(w, part+"9")
			}
			w.(http.Flusher).Flush()
			w.Header().Set("X-End", "yes")
		case "/hints":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusAccepted)
		case "/close":
			w.Header().Set("Connection", "close")
			io.WriteString(w, "bye")
		case "/304":
			w.WriteHeader(http.StatusNotModified)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	host := ""
	for _, step := range []struct {
		name, method, path string
		body               string
		status             int
		want               string
		connections        int64
	}{
		{"Length", "PATCH", "/echo", `{"a":1}`, 201, `PATCH HOST 1001 {"a":1}`, 1},
		{"NoContent", "DELETE", "/none", "", 204, "", 1},
		{"Chunked", "GET", "/chunked", "", 200, long + "9", 1},
		{"NotModified", "GET", "/304", "", 304, "", 1},
		{"Head", "HEAD", "/echo", "", 201, "", 1},
		{"Informational", "POST", "/hints", "", 202, "", 1},
		{"Large", "POST", "/echo", long, 201, "POST HOST 1001 " + long, 1},
		{"Close", "GET", "/close", "", 200, "bye", 1},
		{"AfterClose", "PUT", "/echo", "", 201, "PUT HOST 1001 ", 2},
	} {
		t.Run(step.name, func(t *testing.T) {
			status, body, err := c.Do(step.method, step.path, []byte("X-Fence-Token: 1001\r\n"), []byte(step.body), patience)
			if err != nil {
				t.Fatal(err)
			}
			if host == "" {
				host = string(bytes.Fields(body)[1])
			}
			if want := strings.Replace(step.want, "HOST", host, 1); status != step.status || string(body) != want {
				t.Errorf("%d %.80q (%d bytes), want %d %.80q (%d bytes)", status, body, len(body), step.status, want, len(want))
			}
			if n := connections.Load(); n != step.connections {
				t.Errorf("%d connections, want %d", n, step.connections)
			}
		})
	}
}

// raw answers each connection's first request with a fixed text.
func raw(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 4096))
			io.WriteString(conn, text)
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestConnReadsWhatServersSay(t *testing.T) {
	for _, c := range []struct {
		name, text string
		body       string
		err        error
	}{
		{"ToTheEnd", "HTTP/1.1 200 OK\r\n\r\nall of it", "all of it", nil},
		{"HTTP10", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc", nil},
		{"NoReason", "HTTP/1.1 200\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", "", nil},
		{"BareNewlines", "HTTP/1.1 200 OK\nConnection: close\nContent-Length: 1\n\nx", "x", nil},
		{"ChunkExtension", "HTTP/1.1 200 OK\r\nconnection:close\r\ntransfer-encoding: Chunked\r\n\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", "0123456789", nil},
		{"Nothing", "", "", io.ErrUnexpectedEOF},
		{"CutBody", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "", io.ErrUnexpectedEOF},
		{"CutBeforeBody", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "", io.ErrUnexpectedEOF},
		{"CutChunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "", io.ErrUnexpectedEOF},
		{"NoLastChunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", "", io.ErrUnexpectedEOF},
		{"BadChunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "", load.ErrMalformed},
		{"LongChunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n", "", load.ErrMalformed},
		{"NoHTTP", "220 smtp.example.org ready\r\n\r\n", "", load.ErrMalformed},
		{"BadStatus", "HTTP/1.1 2x0 OK\r\n\r\n", "", load.ErrMalformed},
		{"NoColon", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", "", load.ErrMalformed},
		{"NegativeLength", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "", load.ErrMalformed},
		{"TwoLengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "", load.ErrMalformed},
		{"Gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "", load.ErrMalformed},
		{"Upgrade", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "", load.ErrMalformed},
		{"HugeLength", "HTTP/1.1 200 OK\r\nContent-Length: 16777217\r\n\r\n", "", load.ErrTooLarge},
		{"HugeChunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000001\r\n", "", load.ErrTooLarge},
		{"LongLine", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 1<<15) + "\r\n\r\n", "", load.ErrTooLarge},
		{"ManyLines", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: a\r\n", 300) + "\r\n", "", load.ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := dial(t, raw(t, c.text))
			for range 2 { // the second one over a new connection
				_, body, err := conn.Do("GET", "/", nil, nil, patience)
				if !errors.Is(err, c.err) || err == nil && string(body) != c.body {
					t.Errorf("%q, %v, want %q, %v", body, err, c.body, c.err)
				}
			}
		})
	}
}

// A request that could become two is not sent.
func TestConnRefusesToSplit(t *testing.T) {
	c, _ := served(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	for _, path := range []string{"", "/a b", "/a\r\nX: y", "/\x7f"} {
		if _, _, err := c.Do("GET", path, nil, nil, patience); err == nil {
			t.Errorf("%q was sent", path)
		}
	}
	if _, _, err := c.Do("GET\n", "/", nil, nil, patience); err == nil {
		t.Error("the method was sent")
	}
}

// A server that does not answer costs the time limit, and the next request is not answered by the late response.
func TestConnTimesOut(t *testing.T) {
	release := make(chan struct{})
	c, _ := served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
		}
		io.WriteString(w, r.URL.Path)
	})
	if _, _, err := c.Do("GET", "/slow", nil, nil, 20*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want a deadline", err)
	}
	close(release)
	if _, body, err := c.Do("GET", "/quick", nil, nil, patience); err != nil || string(body) != "/quick" {
		t.Errorf("%q, %v", body, err)
	}
}

// The server runs in this process, so what it allocates has to be kept out: it answers from a fixed buffer.
func TestConnAllocatesNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buf, answer := make([]byte, 4096), []byte("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n")
		for {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	c := dial(t, l.Addr().String())
	defer c.Close()
	header, body := []byte("Content-Type: application/json\r\n"), []byte(`{"balance":1}`)
	allocs := testing.AllocsPerRun(200, func() {
		if status, _, err := c.Do("PATCH", "/v1/rows/wallets/42", header, body, patience); err != nil || status != 200 {
			t.Fatalf("%d, %v", status, err)
		}
	})
	if allocs >= 1 {
		t.Errorf("%v allocations for a request", allocs)
	}
}

func BenchmarkConn(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"balance":1}`) }))
	defer s.Close()
	c, err := load.Dial(b.Context(), s.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	header := []byte("X-Fence-Token: 1001\r\n")
	for b.Loop() {
		if _, _, err := c.Do("GET", "/", header, nil, patience); err != nil {
			b.Fatal(err)
		}
	}
}
