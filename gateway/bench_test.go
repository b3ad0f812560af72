package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/access"
	"github.com/fencegate/fencegate/gateway/gatewaytest"
	"github.com/fencegate/fencegate/internal/metrics"
)

const (
	benchClients = 64
	benchSecret  = "fg_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	benchBody    = `{"balance":42.50,"note":"top-up"}`
	benchRow     = `{"id":42,"owner":"ann","balance":42.50,"note":"top-up","updated_at":"2026-01-02T03:04:05.678901+00:00","version":1017}`
)

// instant is a backend whose writes take no time.
type instant struct {
	*gatewaytest.Memory
	refuse bool
}

func (b instant) WriteRow(_ context.Context, w fence.RowWrite) (fence.Row, error) {
	s := fence.State{Resource: "rows/public.wallets/42", Lease: "wallet:42", Mark: w.Token}
	if b.refuse {
		e := fence.Errorf(fence.CodeStaleToken, "a newer grant begins at 2000")
		e.State, e.Token, e.Lease, e.First, e.Holder = &s, w.Token, s.Lease, 2000, "worker-b"
		return fence.Row{}, e
	}
	return fence.Row{State: s, JSON: json.RawMessage(benchRow)}, nil
}

// benchServer is what fencegate serve puts before its backends: without authentication on loopback only, else with secrets and metrics.
func benchServer(b testing.TB, guarded, refuse bool) *http.Server {
	b.Helper()
	rows := instant{gatewaytest.New(), refuse}
	log := slog.New(slog.NewJSONHandler(io.Discard, nil))
	cfg := gateway.Config{Leases: rows, Rows: rows, Objects: rows, Readiness: rows, Commits: rows, Events: rows, Log: log, LoopbackOnly: !guarded}
	counts := metrics.New(metrics.Build{})
	if guarded {
		policy, err := access.Parse(fmt.Appendf(nil, "principals:\n  - name: worker\n    secret_sha256: %x\n    allow:\n      - {tables: [public.wallets], verbs: [read, write]}\n", sha256.Sum256([]byte(benchSecret))))
		if err != nil {
			b.Fatal(err)
		}
		auth, err := access.New(access.Config{Policy: policy})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(auth.Close)
		cfg.Authenticate, cfg.Observe = auth.Authenticate, counts.Observe
	}
	g, err := gateway.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	var h http.Handler = g
	if guarded {
		h = counts.InFlight(h)
	}
	return gateway.NewServer(h, gateway.ServerConfig{Log: log})
}

// BenchmarkPatchRow is the path of one small write through the gateway, without what is behind it: by the handler alone, and over a
// socket with clients that cost next to nothing.
func BenchmarkPatchRow(b *testing.B) {
	for _, c := range []struct {
		name            string
		guarded, refuse bool
	}{{name: "Open"}, {name: "Guarded", guarded: true}, {name: "Refused", refuse: true}} {
		b.Run(c.name+"/Handler", func(b *testing.B) { benchHandler(b, benchServer(b, c.guarded, c.refuse).Handler) })
		b.Run(c.name+"/Socket", func(b *testing.B) { benchSocket(b, benchServer(b, c.guarded, c.refuse)) })
	}
}

// discarded is an answer that nobody reads.
type discarded struct {
	header http.Header
	status int
	size   int
}

func (d *discarded) Header() http.Header  { return d.header }
func (d *discarded) WriteHeader(code int) { d.status = code }
func (d *discarded) Write(p []byte) (int, error) {
	d.size += len(p)
	return len(p), nil
}

// SetReadDeadline is for a body that is there already.
func (d *discarded) SetReadDeadline(time.Time) error { return nil }

func benchHandler(b *testing.B, h http.Handler) {
	w, patch := patchOf(h)
	b.ReportAllocs()
	for b.Loop() {
		patch()
	}
	if w.status != http.StatusOK && w.status != http.StatusPreconditionFailed || w.size == 0 {
		b.Fatalf("answered %d with %d bytes", w.status, w.size)
	}
}

// patchOf returns what makes a handler patch a row, and what it answered last.
func patchOf(h http.Handler) (*discarded, func()) {
	body := strings.NewReader(benchBody)
	r := httptest.NewRequest(http.MethodPatch, "/v1/rows/wallets/42", io.NopCloser(body))
	r.Host, r.ContentLength = "127.0.0.1:8080", int64(len(benchBody))
	r.Header = http.Header{"Content-Type": {"application/json"}, "X-Fence-Token": {"1017"}, "Authorization": {"Bearer " + benchSecret}}
	w := &discarded{header: http.Header{}}
	kept := r.Body
	return w, func() {
		body.Reset(benchBody)
		clear(w.header)
		r.Body, w.status = kept, 0
		h.ServeHTTP(w, r)
	}
}

// The path of a write is kept short: what is allocated for each adds up.
func TestPatchAllocatesLittle(t *testing.T) {
	for name, most := range map[string]float64{"Open": 26, "Guarded": 26, "Refused": 34} {
		w, patch := patchOf(benchServer(t, name == "Guarded", name == "Refused").Handler)
		if n := testing.AllocsPerRun(200, patch); n > most || w.status == 0 {
			t.Errorf("%s: %v allocations for an answer of %d, at most %v are due", name, n, w.status, most)
		}
	}
}

func benchSocket(b *testing.B, s *http.Server) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	b.Cleanup(func() {
		_ = s.Close()
		<-served
	})
	request := fmt.Appendf(nil, "PATCH /v1/rows/wallets/42 HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nX-Fence-Token: 1017\r\nContent-Length: %d\r\n\r\n%s",
		l.Addr(), benchSecret, len(benchBody), benchBody)
	b.ReportAllocs()
	b.SetParallelism(benchClients / runtime.GOMAXPROCS(0))
	b.RunParallel(func(pb *testing.PB) {
		c, answer := benchClient(b, l.Addr().String(), request)
		defer c.Close()
		for pb.Next() {
			if _, err := c.Write(request); err != nil {
				b.Error(err)
				return
			}
			if _, err := io.ReadFull(c, answer); err != nil {
				b.Error(err)
				return
			}
		}
		// A client may have come too late to ask.
		if len(answer) > 0 && answer[0] != 0 && !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 OK\r\n")) && !bytes.HasPrefix(answer, []byte("HTTP/1.1 412 ")) {
			b.Errorf("answered %q", answer)
		}
	})
}

// benchClient connects and asks once. All answers are of the length of the first, so that a client need not understand them.
func benchClient(b *testing.B, addr string, request []byte) (net.Conn, []byte) {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		_, err = c.Write(request)
	}
	if err != nil {
		b.Error(err)
		return c, nil
	}
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		b.Error(err)
		return c, nil
	}
	var size bytes.Buffer
	if err := resp.Write(&size); err != nil || in.Buffered() != 0 {
		b.Error(err, in.Buffered())
	}
	return c, make([]byte, size.Len())
}
