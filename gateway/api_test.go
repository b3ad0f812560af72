package gateway_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/gatewaytest"
)

var (
	_ gateway.Leases    = (*gatewaytest.Memory)(nil)
	_ gateway.Rows      = (*gatewaytest.Memory)(nil)
	_ gateway.Objects   = (*gatewaytest.Memory)(nil)
	_ gateway.Readiness = (*gatewaytest.Memory)(nil)
	_ gateway.Events    = (*gatewaytest.Memory)(nil)
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// api is a gateway on a server of its own.
type api struct {
	t       *testing.T
	url     string
	client  *http.Client
	log     *logBuffer
	gateway *gateway.Gateway
	memory  *gatewaytest.Memory
	// odd says that the backend gives answers that none should: they need not stand in /openapi.json.
	odd         bool
	undescribed func(method, path string, status int) string
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// caller may do what may says, everything when it is nil.
type caller struct {
	name    string
	may     func(gateway.Action) bool
	as      fence.Identity
	columns func(gateway.Action) []string
}

func (c caller) Principal() string              { return c.name }
func (c caller) May(a gateway.Action) bool      { return c.may == nil || c.may(a) }
func (c caller) MayBelow(a gateway.Action) bool { return c.may == nil || c.may(a) }
func (c caller) Identity() fence.Identity       { return c.as }
func (c caller) Columns(a gateway.Action) []string {
	if c.columns == nil {
		return nil
	}
	return c.columns(a)
}

// serve starts a gateway on a Memory; change may replace parts of the configuration. The header X-User names the
// caller.
func serve(t *testing.T, change func(*gateway.Config)) *api {
	t.Helper()
	mem, log := gatewaytest.New(), &logBuffer{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	cfg := gateway.Config{
		Leases: mem, Rows: mem, Objects: mem, Readiness: mem, Events: mem, Commits: mem, Log: logger,
		Authenticate: func(r *http.Request) (gateway.Caller, error) {
			return caller{name: cmp.Or(r.Header.Get("X-User"), gateway.Anonymous)}, nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	g, err := gateway.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(nil)
	s.Config = gateway.NewServer(g, gateway.ServerConfig{Log: logger})
	s.Start()
	t.Cleanup(s.Close)
	s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &api{t: t, url: s.URL, client: s.Client(), log: log, gateway: g, memory: mem, undescribed: g.Undescribed()}
}

type answer struct {
	*http.Response
	text string
}

// problem is what the tests look at in a refusal.
type problem struct {
	Type, Title, Detail, Code, Resource, Lease, Holder, Field, Constraint string
	Status                                                                int
	Token                                                                 int64
	FirstToken                                                            int64  `json:"first_token"`
	Mark                                                                  *int64 `json:"mark"`
	RemainingMS                                                           int64  `json:"remaining_ms"`
	QueuePosition                                                         int    `json:"queue_position"`
	QueueLength                                                           int    `json:"queue_length"`
	Ended                                                                 string `json:"ended"`
	EndedBy                                                               string `json:"ended_by"`
	Retryable                                                             bool
	TraceID                                                               string `json:"trace_id"`
}

func (a answer) problem(t *testing.T) problem {
	t.Helper()
	var p problem
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("%d %s is no problem: %s", a.StatusCode, got, a.text)
	}
	if err := json.Unmarshal([]byte(a.text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// do sends a request; headers are "Name: value". A body that begins with { says it is JSON unless told otherwise.
func (a *api) do(method, path, body string, headers ...string) answer {
	a.t.Helper()
	r, err := http.NewRequest(method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	if strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		switch name {
		case "Host":
			r.Host = value
		case "Content-Type":
			r.Header.Set(name, value)
		default:
			r.Header.Add(name, value)
		}
	}
	resp, err := a.client.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	if a.undescribed != nil && !a.odd {
		if problem := a.undescribed(method, path, resp.StatusCode); problem != "" {
			a.t.Errorf("/openapi.json: %s: %s", problem, text)
		}
	}
	return answer{resp, string(text)}
}

// want sends a request and demands a status.
func (a *api) want(status int, method, path, body string, headers ...string) answer {
	a.t.Helper()
	got := a.do(method, path, body, headers...)
	if got.StatusCode != status {
		a.t.Fatalf("%s %s: %d, want %d: %s", method, path, got.StatusCode, status, got.text)
	}
	return got
}

// refused sends a request and demands a refusal.
func (a *api) refused(status int, code, method, path, body string, headers ...string) problem {
	a.t.Helper()
	p := a.want(status, method, path, body, headers...).problem(a.t)
	if p.Code != code || p.Type != "urn:fencegate:"+code || p.Status != status || p.Title == "" || len(p.TraceID) != 32 {
		a.t.Fatalf("%s %s: want %s, got %+v", method, path, code, p)
	}
	return p
}

// acquire takes a lease and returns the grant's first token as a header, and its id as one.
func (a *api) acquire(path string, headers ...string) (token, id string) {
	a.t.Helper()
	var g struct {
		ID    string
		Token json.Number
	}
	got := a.want(201, "POST", "/v1/leases/"+path, "", headers...)
	if err := json.Unmarshal([]byte(got.text), &g); err != nil {
		a.t.Fatal(err)
	}
	return "X-Fence-Token: " + g.Token.String(), "X-Lease-Id: " + g.ID
}

// send sends a request whose answer does not matter: its client may leave.
func (a *api) send(ctx context.Context, method, path, body string, headers ...string) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	if resp, err := a.client.Do(r); err == nil {
		resp.Body.Close()
	}
}
