package gateway_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/gateway"
)

// limiter answers what it is told, and remembers what it was asked.
type limiter struct {
	mu    sync.Mutex
	wait  time.Duration // guarded by mu, like the rest
	err   error
	asked []string
	bound bool // a call ended with its client
}

func (l *limiter) Take(ctx context.Context, class, principal string) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, class+" "+principal)
	l.bound = l.bound || ctx.Done() != nil
	return l.wait, l.err
}

func (l *limiter) answer(wait time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wait, l.err, l.asked = wait, err, nil
}

func TestClassesOfRequests(t *testing.T) {
	l := &limiter{}
	a := hurried(t, func(c *gateway.Config) { c.Limiter = l })
	for _, tc := range []struct{ method, path, class string }{
		{"GET", "/v1/rows/t/1", "reads"}, {"HEAD", "/v1/rows/t/1", "reads"}, {"PATCH", "/v1/rows/t/1", "writes"}, {"PUT", "/v1/rows/t/1", "writes"}, {"DELETE", "/v1/rows/t/1", "writes"},
		{"GET", "/v1/objects/b/a", "reads"}, {"PUT", "/v1/objects/b/a", "writes"}, {"DELETE", "/v1/objects/b/a", "writes"},
		{"GET", "/v1/marks/rows/t/1", "reads"}, {"GET", "/v1/marks/objects/b/a", "reads"},
		{"POST", "/v1/leases/a", "leases"}, {"PUT", "/v1/leases/a", "leases"}, {"POST", "/v1/leases/a/tokens", "leases"}, {"POST", "/v1/leases/a/break", "leases"},
		{"GET", "/v1/leases/a", "reads"}, {"POST", "/v1/leases/a/verify", "reads"}, {"GET", "/v1/leases", "reads"}, {"HEAD", "/v1/events", "reads"},
		{"DELETE", "/v1/leases/a", ""}, {"GET", "/nowhere", ""}, {"BREW", "/v1/rows/t/1", ""}, {"GET", "/readyz", ""},
	} {
		l.answer(0, nil)
		a.do(tc.method, tc.path, "", "X-User: ann")
		var want []string
		if tc.class != "" {
			want = []string{tc.class + " ann"}
		}
		if !slices.Equal(l.asked, want) {
			t.Errorf("%s %s: %q", tc.method, tc.path, l.asked)
		}
	}
	// A write of a client that has left is carried out; that its client has left is no sign of a Redis that does not answer.
	if l.bound {
		t.Error("requests are counted only while their clients wait")
	}
}

func TestRateLimits(t *testing.T) {
	l := &limiter{}
	a := serve(t, func(c *gateway.Config) { c.Limiter = l })
	token, id := a.acquire("t:1")
	l.answer(1500*time.Millisecond, nil)
	for _, tc := range [][2]string{{"GET", "/v1/rows/t/1"}, {"PUT", "/v1/rows/t/1"}, {"PUT", "/v1/leases/t:1"}, {"GET", "/v1/leases"}, {"GET", "/v1/events"}} {
		got := a.want(429, tc[0], tc[1], `{"n":1}`, token, id)
		if p := got.problem(t); p.Code != "rate-limited" || !p.Retryable || got.Header.Get("Retry-After") != "2" {
			t.Errorf("%v: %s", tc, got.text)
		}
	}
	a.want(204, "DELETE", "/v1/leases/t:1", "", id)
	if got := a.gateway.Stats(); got.OverRate["reads"] != 3 || got.OverRate["writes"] != 1 || got.OverRate["leases"] != 1 {
		t.Errorf("%+v", got)
	}
	l.answer(0, nil)
	a.want(404, "GET", "/v1/rows/t/1", "") // and nothing was written
}

func TestRequestsThatCannotBeCounted(t *testing.T) {
	for name, deny := range map[string]bool{"Allow": false, "Deny": true} {
		t.Run(name, func(t *testing.T) {
			l := &limiter{}
			a := serve(t, func(c *gateway.Config) { c.Limiter, c.DenyUncounted = l, deny })
			token, id := a.acquire("t:1")
			l.answer(time.Hour, errors.New("Redis is away"))
			a.want(201, "PUT", "/v1/rows/t/1", `{"n":1}`, token)
			a.want(204, "DELETE", "/v1/rows/t/1", "", "X-Fence-Token: 1001")
			a.want(201, "PUT", "/v1/objects/b/t:1", "x", func() string { token, _ := acquireUncounted(a, l); return token }())
			l.answer(0, errors.New("Redis is away"))
			for path, status := range map[string]int{"/v1/marks/rows/t/1": 200, "/v1/leases/t:1": 200, "/v1/leases": 200} {
				if !deny {
					a.want(status, "GET", path, "")
					continue
				}
				got := a.want(503, "GET", path, "")
				if p := got.problem(t); p.Code != "unavailable" || !p.Retryable || got.Header.Get("Retry-After") != "1" {
					t.Errorf("%s: %s", path, got.text)
				}
			}
			status := 200
			if deny {
				status = 503
			}
			a.want(status, "PUT", "/v1/leases/t:1", "", id)
			a.want(204, "DELETE", "/v1/leases/t:1", "", id)
			if got := a.gateway.Stats(); got.Uncounted["writes"] != 3 || got.Uncounted["reads"] != 3 || got.Uncounted["leases"] != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// acquireUncounted takes the lease of the object while requests can be counted.
func acquireUncounted(a *api, l *limiter) (token, id string) {
	l.answer(0, nil)
	defer l.answer(0, errors.New("Redis is away"))
	return a.acquire("report:t:1")
}
