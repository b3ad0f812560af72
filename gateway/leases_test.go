package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/lease"
)

func TestLeaseLifecycle(t *testing.T) {
	a := serve(t, nil)
	const path = "/v1/leases/report:2026%2Fa.csv"
	got := a.want(201, "POST", path, `{"ttl":"1m","holder":"worker-a"}`)
	var g map[string]any
	if err := json.Unmarshal([]byte(got.text), &g); err != nil {
		t.Fatal(err)
	}
	if g["name"] != "report:2026/a.csv" || g["holder"] != "worker-a" || g["ttl_ms"] != 60000.0 || g["granted_at"] != "2026-01-02T03:04:05Z" {
		t.Fatal(got.text)
	}
	id := "X-Lease-Id: " + got.Header.Get("X-Lease-Id")
	if id != "X-Lease-Id: "+g["id"].(string) || got.Header.Get("Cache-Control") != "no-store" {
		t.Fatal(got.Header)
	}
	held := a.want(409, "POST", path, "")
	if p := held.problem(t); p.Code != "lease-held" || p.Holder != "worker-a" || p.RemainingMS != 29500 || p.Lease != "report:2026/a.csv" || !p.Retryable {
		t.Fatal(held.text)
	}
	if held.Header.Get("Retry-After") != "30" {
		t.Fatal(held.Header)
	}
	if got := a.want(200, "GET", path, ""); strings.Contains(got.text, `"id"`) || got.Header.Get("X-Lease-Id") != "" || !strings.Contains(got.text, `"blocks":[[1000,1999]]`) {
		t.Fatal(got.text)
	}
	if got := a.want(200, "PUT", path, `{"ttl":"2m"}`, id); !strings.Contains(got.text, `"ttl_ms":120000`) {
		t.Fatal(got.text)
	}
	a.want(200, "PUT", path, "", id)
	if got := a.want(200, "POST", path+"/tokens", "", id); !strings.Contains(got.text, `"token":1000,"token_last":2999,"blocks":[[1000,1999],[2000,2999]]`) {
		t.Fatal(got.text)
	}
	if got := a.want(200, "POST", path+"/verify", `{"token":2001}`); got.text != `{"lease":"report:2026/a.csv","token":2001,"principal":"anonymous"}`+"\n" {
		t.Fatal(got.text)
	}
	a.refused(403, "foreign-token", "POST", path+"/verify", `{"token":2001,"principal":"bob"}`)
	a.refused(409, "lease-lost", "DELETE", path, "", "X-Lease-Id: another")
	a.want(204, "DELETE", path, "", id)
	if p := a.refused(412, "grant-ended", "POST", path+"/verify", `{"token":2001}`); p.Token != 2001 || p.FirstToken != 1000 {
		t.Fatalf("%+v", p)
	}
	if p := a.refused(404, "not-found", "GET", path, ""); p.Lease != "report:2026/a.csv" {
		t.Fatalf("%+v", p)
	}
	if strings.Contains(a.log.String(), strings.TrimPrefix(id, "X-Lease-Id: ")) {
		t.Fatal("the log has the grant's id")
	}
}

func TestLeaseRequestRefused(t *testing.T) {
	a := serve(t, nil)
	for _, tc := range []struct {
		name, method, path, body, field string
		status                          int
		headers                         []string
	}{
		{"ZeroTTL", "POST", "a", `{"ttl":"0s"}`, "ttl", 400, nil},
		{"ShortTTL", "POST", "a", `{"ttl":"99ms"}`, "ttl", 400, nil},
		{"EmptyAcquireID", "POST", "a", `{"acquire_id":""}`, "acquire_id", 400, nil},
		{"LongTTL", "POST", "a", `{"ttl":"24h1s"}`, "ttl", 400, nil},
		{"NumberTTL", "POST", "a", `{"ttl":30}`, "ttl", 400, nil},
		{"NullTTL", "POST", "a", `{"ttl":null}`, "ttl", 400, nil},
		{"BadTTL", "POST", "a", `{"ttl":"30 seconds"}`, "ttl", 400, nil},
		{"NegativeWait", "POST", "a", `{"wait":"-1s"}`, "wait", 400, nil},
		{"Unknown", "POST", "a", `{"tll":"30s"}`, "tll", 400, nil},
		{"OtherCase", "POST", "a", `{"TTL":"30s"}`, "TTL", 400, nil},
		{"EmptyHolder", "POST", "a", `{"holder":""}`, "holder", 400, nil},
		{"LongAcquireID", "POST", "a", `{"acquire_id":"` + strings.Repeat("x", 129) + `"}`, "acquire_id", 400, nil},
		{"NotJSON", "POST", "a", `{"ttl":"30s"}`, "Content-Type", 415, []string{"Content-Type: text/plain"}},
		{"RawSlash", "POST", "a/b", "", "lease name", 400, nil},
		{"NoName", "POST", "", "", "lease name", 400, nil},
		{"NoID", "DELETE", "a", "", "X-Lease-Id", 400, nil},
		{"TwoIDs", "PUT", "a", "", "X-Lease-Id", 400, []string{"X-Lease-Id: 1", "X-Lease-Id: 1"}},
		{"RenewWait", "PUT", "a", `{"wait":"1s"}`, "wait", 400, []string{"X-Lease-Id: 1"}},
		{"TokensBody", "POST", "a/tokens", `{"n":1}`, "n", 400, []string{"X-Lease-Id: 1"}},
		{"VerifyNothing", "POST", "a/verify", "", "token", 400, nil},
		{"VerifyPrincipal", "POST", "a/verify", `{"token":1,"principal":1}`, "principal", 400, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := *a
			a.t = t
			code := "invalid-request"
			if tc.status == 415 {
				code = "unsupported-media-type"
			}
			if p := a.refused(tc.status, code, tc.method, "/v1/leases/"+tc.path, tc.body, tc.headers...); p.Field != tc.field {
				t.Fatalf("field %q: %+v", p.Field, p)
			}
		})
	}
	for _, token := range []string{`"1001"`, "1e3", "1.0", "0", "-1", "null", "1000000000000000"} {
		a.refused(400, "invalid-token", "POST", "/v1/leases/a/verify", `{"token":`+token+`}`)
	}
}

// leases replaces a backend's leases by functions.
type leases struct {
	gateway.Leases
	acquire func(context.Context, lease.Request) (*lease.Held, error)
	inspect func() (*lease.View, error)
}

func (l leases) Acquire(ctx context.Context, r lease.Request) (*lease.Held, error) {
	return l.acquire(ctx, r)
}
func (l leases) Inspect(context.Context, string) (*lease.View, error) { return l.inspect() }

func TestInspectUncertifiedLease(t *testing.T) {
	a := serve(t, func(c *gateway.Config) {
		c.Leases = leases{Leases: c.Leases, inspect: func() (*lease.View, error) {
			return &lease.View{Held: lease.Held{Grant: fence.Grant{Lease: "a", Holder: "h"}, Remaining: 1500 * time.Millisecond}}, nil
		}}
	})
	if got := a.want(200, "GET", "/v1/leases/a", ""); got.text != `{"name":"a","holder":"h","remaining_ms":1500,"queue":{"length":0,"waiting":[]}}`+"\n" {
		t.Fatal(got.text)
	}
}

func TestAcquirePassesWhatWasAskedAndEndsWithItsClient(t *testing.T) {
	entered, done := make(chan lease.Request, 1), make(chan error, 1)
	a := serve(t, func(c *gateway.Config) {
		c.WriteTimeout = 50 * time.Millisecond // must not cut a wait short
		c.Leases = leases{Leases: c.Leases, acquire: func(ctx context.Context, r lease.Request) (*lease.Held, error) {
			if r.Wait == 0 {
				select {
				case <-ctx.Done():
				case <-time.After(150 * time.Millisecond):
				}
				done <- ctx.Err()
				return nil, fence.Errorf(fence.CodeLeaseHeld, "held")
			}
			entered <- r
			<-ctx.Done()
			done <- ctx.Err()
			return nil, ctx.Err()
		}}
	})
	a.want(409, "POST", "/v1/leases/a", `{"ttl":"1s"}`)
	if err := <-done; err != nil {
		t.Fatalf("an acquire was cut short: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if r := <-entered; r != (lease.Request{Name: "a%2Fb/c", Principal: "anonymous", AcquireID: "x", TTL: time.Second, Wait: time.Minute, Holder: "h"}) {
			t.Errorf("got %+v", r)
		}
		cancel()
	}()
	a.send(ctx, "POST", "/v1/leases/a%252Fb%2Fc", `{"ttl":"1s","wait":"1m","holder":"h","acquire_id":"x"}`, "Content-Type: application/json")
	if err := <-done; err == nil {
		t.Fatal("the waiter was not told that its client left")
	}
}

// waiter is a Leases whose Acquire waits until it is told to stop.
type waiter struct {
	gateway.Leases
	waiting chan struct{}
}

func (w waiter) Acquire(ctx context.Context, _ lease.Request) (*lease.Held, error) {
	close(w.waiting)
	<-ctx.Done()
	return nil, fence.Wrap(fence.CodeUnavailable, ctx.Err(), "the caller went away")
}

func TestDrainEndsAcquiresThatWait(t *testing.T) {
	waiting := make(chan struct{})
	a := serve(t, func(c *gateway.Config) { c.Leases = waiter{c.Leases, waiting} })
	go func() {
		<-waiting
		a.gateway.Drain()
	}()
	got := a.want(503, "POST", "/v1/leases/a", `{"wait":"1m"}`)
	if p := got.problem(t); p.Code != "unavailable" || !p.Retryable || got.Header.Get("Retry-After") == "" {
		t.Fatal(got.text)
	}
	a.want(404, "GET", "/v1/leases/a", "")
}

// A waiter that gives up is told where it stood.
func TestRefusalOfAWaiter(t *testing.T) {
	refusal := fence.Errorf(fence.CodeLeaseHeld, "held")
	a := serve(t, func(c *gateway.Config) {
		c.Leases = leases{Leases: c.Leases, acquire: func(context.Context, lease.Request) (*lease.Held, error) {
			e := *refusal
			return nil, &e
		}}
	})
	if got := a.want(409, "POST", "/v1/leases/a", ""); strings.Contains(got.text, "queue") {
		t.Error(got.text)
	}
	refusal.Queue, refusal.Waiting = 3, 7
	if p := a.refused(409, "lease-held", "POST", "/v1/leases/a", `{"wait":"1s"}`); p.QueuePosition != 3 || p.QueueLength != 7 {
		t.Errorf("%+v", p)
	}
	refusal.Code, refusal.Queue = fence.CodeRateLimited, 0
	got := a.want(429, "POST", "/v1/leases/a", `{"wait":"1s"}`)
	if p := got.problem(t); p.QueueLength != 7 || p.Lease != "a" || got.Header.Get("Retry-After") != "1" {
		t.Error(got.text, got.Header)
	}
	refusal.Code, refusal.Ended, refusal.EndedBy = fence.CodeForbidden, "broken: x", "root"
	if got := a.want(403, "POST", "/v1/leases/a", ""); strings.Contains(got.text, "root") || strings.Contains(got.text, "queue") {
		t.Error(got.text)
	}
}
