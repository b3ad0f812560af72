package client_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/gateway/gatewaytest"
	"github.com/fencegate/fencegate/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a gateway on a Memory, with what stands between it and the client.
type rig struct {
	*client.Client
	t      *testing.T
	memory *gatewaytest.Memory
	server *httptest.Server
	hooks  *hooks

	mu       sync.Mutex
	between  func(w http.ResponseWriter, r *http.Request, n int, next http.Handler) // guarded by mu; n counts from 1 since it was set
	requests int                                                                    // guarded by mu
}

// repeatable is a Memory that knows an acquire again by its id, as the Manager does.
type repeatable struct {
	*gatewaytest.Memory
	mu    sync.Mutex
	known map[string]*lease.Held // guarded by mu
}

func (m *repeatable) Acquire(ctx context.Context, r lease.Request) (*lease.Held, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.known[r.AcquireID]; h != nil {
		return h, nil
	}
	h, err := m.Memory.Acquire(ctx, r)
	if err == nil {
		m.known[r.AcquireID] = h
	}
	return h, err
}

func serve(t *testing.T, change func(*client.Config)) *rig {
	t.Helper()
	m := gatewaytest.New()
	g, err := gateway.New(gateway.Config{
		Leases: &repeatable{Memory: m, known: map[string]*lease.Held{}}, Rows: m, Objects: m, Commits: m, Readiness: m, Events: m,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, memory: m, hooks: &hooks{}}
	r.server = httptest.NewUnstartedServer(nil)
	r.server.Config = gateway.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.serve(w, req, g) }), gateway.ServerConfig{Log: slog.New(slog.DiscardHandler)})
	r.server.Start()
	t.Cleanup(r.server.Close)
	r.Client = r.client(change)
	return r
}

// client makes another client of the same gateway.
func (r *rig) client(change func(*client.Config)) *client.Client {
	r.t.Helper()
	cfg := client.Config{URL: r.server.URL, MinPause: time.Millisecond, MaxPause: 20 * time.Millisecond, Timeout: 5 * time.Second, Hooks: r.hooks}
	if change != nil {
		change(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return c
}

func (r *rig) serve(w http.ResponseWriter, req *http.Request, g http.Handler) {
	r.mu.Lock()
	r.requests++
	between, n := r.between, r.requests
	r.mu.Unlock()
	if between == nil {
		g.ServeHTTP(w, req)
		return
	}
	between(w, req, n, g)
}

// put stands between client and gateway from now on.
func (r *rig) put(between func(w http.ResponseWriter, r *http.Request, n int, next http.Handler)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.between, r.requests = between, 0
}

// asked is how many requests came since put.
func (r *rig) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// hang breaks the connection off.
func hang() { panic(http.ErrAbortHandler) }

// losing lets the gateway serve the first n requests, and loses what it answers.
func losing(most int) func(http.ResponseWriter, *http.Request, int, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, n int, next http.Handler) {
		if n > most {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(httptest.NewRecorder(), r)
		hang()
	}
}

// dropping loses the first n requests.
func dropping(most int) func(http.ResponseWriter, *http.Request, int, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, n int, next http.Handler) {
		if n > most {
			next.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		hang()
	}
}

// answering answers the first n requests in place of the gateway.
func answering(most, status int, kind, body string, header ...string) func(http.ResponseWriter, *http.Request, int, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, n int, next http.Handler) {
		if n > most {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", kind)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// refusing answers with a gateway's refusal.
func refusing(most int, status int, code fence.Code, header ...string) func(http.ResponseWriter, *http.Request, int, http.Handler) {
	return answering(most, status, "application/problem+json", `{"code":"`+string(code)+`","detail":"said the test"}`, header...)
}

func (r *rig) acquire(name string) *lease.Held {
	r.t.Helper()
	h, err := r.Acquire(r.t.Context(), lease.Request{Name: name})
	if err != nil {
		r.t.Fatalf("acquire %s: %v", name, err)
	}
	return h
}

func ref(h *lease.Held) lease.Ref { return lease.Ref{Name: h.Lease, ID: h.ID} }

// row takes the lease of a row of the table wallets and puts the row.
func (r *rig) row(key string) (fence.RowName, fence.Token) {
	r.t.Helper()
	name, h := client.RowName("wallets", key), r.acquire("wallets:"+key)
	if _, err := r.PutRow(r.t.Context(), name, h.First(), map[string]any{"balance": 100}); err != nil {
		r.t.Fatal(err)
	}
	return name, h.First() + 1
}

func wantCode(t *testing.T, err error, code fence.Code) *fence.Error {
	t.Helper()
	var e *fence.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	if strings.Contains(err.Error(), " id-") {
		t.Fatalf("a grant's id is in %q", err)
	}
	return e
}

type hooks struct {
	lease.NoHooks
	mu   sync.Mutex
	told []string // guarded by mu
}

func (h *hooks) Requested(what string, _ time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, what+" "+string(fence.CodeOf(err)))
}

func (h *hooks) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.told, ", ")
}
