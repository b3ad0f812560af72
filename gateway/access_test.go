package gateway_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/gatewaytest"
)

// untouched fails the test when a request that is forbidden reaches a backend.
type untouched struct {
	*gatewaytest.Memory
	t *testing.T
}

func (u untouched) RowMark(context.Context, fence.RowName) (fence.State, error) {
	u.t.Error("the ledger was asked for the mark of a row")
	return fence.State{}, nil
}

func (u untouched) ListRows(context.Context, fence.RowQuery) (fence.RowPage, error) {
	u.t.Error("the ledger was asked for rows")
	return fence.RowPage{}, nil
}

func (u untouched) ObjectMark(context.Context, fence.ObjectName) (fence.State, error) {
	u.t.Error("the ledger was asked for the mark of an object")
	return fence.State{}, nil
}

func TestEachRequestIsAuthorisedFirst(t *testing.T) {
	row := gateway.Action{Schema: "public", Table: "wallets"}
	object := gateway.Action{Bucket: "reports", Key: "2026/a.csv"}
	lease := gateway.Action{Lease: "wallet:42"}
	tests := []struct {
		method, path string
		want         gateway.Action
		verb         gateway.Verb
	}{
		{"GET", "/v1/rows/wallets/42", row, gateway.VerbRead},
		{"HEAD", "/v1/rows/Wallets/42", row, gateway.VerbRead},
		{"PATCH", "/v1/rows/%22public%22.wallets/42", row, gateway.VerbWrite},
		{"PUT", "/v1/rows/wallets/42", row, gateway.VerbWrite},
		{"DELETE", "/v1/rows/wallets/42", row, gateway.VerbWrite},
		{"GET", "/v1/rows/wallets?owner=eq.ann", row, gateway.VerbRead},
		{"HEAD", "/v1/rows/Wallets", row, gateway.VerbRead},
		{"PATCH", "/v1/rows/wallets?owner=eq.ann", row, gateway.VerbWrite},
		{"DELETE", "/v1/rows/wallets", row, gateway.VerbWrite},
		{"GET", "/v1/marks/rows/wallets/42", row, gateway.VerbRead},
		{"PUT", "/v1/rows/%22a.b%22.%22Reply%22/42", gateway.Action{Schema: "a.b", Table: "Reply"}, gateway.VerbWrite},
		{"GET", "/v1/objects/reports/2026/a.csv", object, gateway.VerbRead},
		{"PUT", "/v1/objects/reports/2026%2Fa.csv", object, gateway.VerbWrite},
		{"DELETE", "/v1/objects/reports/2026/a.csv", object, gateway.VerbWrite},
		{"GET", "/v1/marks/objects/reports/2026/a.csv", object, gateway.VerbRead},
		{"POST", "/v1/leases/wallet:42", lease, gateway.VerbLease},
		{"PUT", "/v1/leases/wallet:42", lease, gateway.VerbLease},
		{"DELETE", "/v1/leases/wallet:42", lease, gateway.VerbLease},
		{"POST", "/v1/leases/wallet:42/tokens", lease, gateway.VerbLease},
		{"GET", "/v1/leases/wallet:42", lease, gateway.VerbRead},
		{"POST", "/v1/leases/wallet:42/verify", lease, gateway.VerbRead},
		{"POST", "/v1/leases/wallet:42/break", lease, gateway.VerbAdmin},
	}
	for _, tc := range tests {
		t.Run(tc.method+tc.path, func(t *testing.T) {
			var asked []gateway.Action
			a := serve(t, func(c *gateway.Config) {
				backend := untouched{gatewaytest.New(), t}
				c.Leases, c.Rows, c.Objects = backend.Memory, backend, backend
				c.Authenticate = func(*http.Request) (gateway.Caller, error) {
					return caller{name: "worker-a", may: func(a gateway.Action) bool {
						asked = append(asked, a)
						return false
					}}, nil
				}
			})
			got := a.do(tc.method, tc.path, "", "X-Fence-Token: 1000", "X-Lease-Id: x")
			if got.StatusCode != 403 || got.Header.Get("X-Fence-Token") != "" || got.Header.Get("X-Fence-Lease") != "" {
				t.Errorf("answered %d with %v", got.StatusCode, got.Header)
			}
			tc.want.Verb = tc.verb
			if !slices.Equal(asked, []gateway.Action{tc.want}) {
				t.Errorf("asked for %+v, want %+v", asked, tc.want)
			}
		})
	}
}

func TestObservations(t *testing.T) {
	var mu sync.Mutex
	var seen []gateway.Observation
	a := serve(t, func(c *gateway.Config) {
		c.Observe = func(_ context.Context, o gateway.Observation) {
			mu.Lock()
			defer mu.Unlock()
			if o.Duration <= 0 {
				t.Errorf("%+v has no duration", o)
			}
			o.Duration = 0
			seen = append(seen, o)
		}
	})
	a.want(201, "POST", "/v1/leases/t:1", `{}`)
	a.want(201, "PUT", "/v1/rows/t/1", `{"a":1}`, "X-Fence-Token: 1000")
	a.want(201, "PUT", "/v1/rows/t/1", `{"a":1}`, "X-Fence-Token: 1000")
	a.want(412, "PUT", "/v1/rows/t/1", `{"a":2}`, "X-Fence-Token: 999")
	a.want(200, "HEAD", "/v1/rows/t/1", "")
	a.want(404, "GET", "/v1/objects/reports/a", "")
	a.want(405, "PATCH", "/v1/objects/reports/a", "")
	a.want(200, "GET", "/v1/marks/rows/t/1", "")
	a.want(200, "GET", "/readyz", "")
	a.want(404, "GET", "/nowhere", "")
	want := []gateway.Observation{
		{API: "leases", Op: "acquire", Code: fence.CodeAccepted},
		{API: "rows", Op: "put", Code: fence.CodeAccepted},
		{API: "rows", Op: "put", Code: fence.CodeReplayed},
		{API: "rows", Op: "put", Code: fence.CodeStaleToken},
		{API: "rows", Op: "get", Code: fence.CodeAccepted},
		{API: "objects", Op: "get", Code: fence.CodeNotFound},
		{API: "objects", Code: fence.CodeMethodNotAllowed},
		{API: "marks", Op: "get", Code: fence.CodeAccepted},
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(seen, want) {
		t.Errorf("got  %+v\nwant %+v", seen, want)
	}
}

func TestTraceIDOfTheSpan(t *testing.T) {
	a := serve(t, func(c *gateway.Config) {
		c.TraceID = func(context.Context) string { return "4bf92f3577b34da6a3ce929d0e0e4736" }
	})
	if got := a.want(404, "GET", "/nowhere", ""); got.Header.Get("X-Trace-Id") != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Errorf("got %v", got.Header)
	}
}

func TestBreak(t *testing.T) {
	a := serve(t, nil)
	a.want(404, "POST", "/v1/leases/t:1/break", `{"reason":"stuck"}`)
	a.want(201, "POST", "/v1/leases/t:1", `{}`)
	a.want(400, "POST", "/v1/leases/t:1/break", `{"why":"stuck"}`)
	a.want(204, "POST", "/v1/leases/t:1/break", `{"reason":"stuck"}`)
	a.want(412, "PUT", "/v1/rows/t/1", `{"a":1}`, "X-Fence-Token: 1000")
	a.want(201, "POST", "/v1/leases/t:1", `{}`)
}

func TestLeave(t *testing.T) {
	a := serve(t, nil)
	a.gateway.Leave()
	a.want(503, "GET", "/readyz", "")
	if got := a.want(200, "GET", "/livez", ""); !got.Close {
		t.Error("the connection is kept")
	}
	a.want(201, "POST", "/v1/leases/t:1", `{}`)
}

// Who may write a row and not read it is not shown the columns that it did not send.
func TestWriterWithoutReadSeesNoRow(t *testing.T) {
	a := serve(t, func(c *gateway.Config) {
		c.Authenticate = func(*http.Request) (gateway.Caller, error) {
			return caller{name: "writer", may: func(a gateway.Action) bool { return a.Verb != gateway.VerbRead }}, nil
		}
	})
	token, _ := a.acquire("t:1")
	for range 2 { // the second is a replay
		if got := a.want(204, "PUT", "/v1/rows/t/1", `{"a":1}`, token); got.text != "" || got.Header.Get("X-Fence-Token") != "1000" {
			t.Errorf("%v %q", got.Header, got.text)
		}
	}
}

// A method that the router does not know is answered to those only who may ask.
func TestUnknownMethodNeedsCredentials(t *testing.T) {
	a := serve(t, func(c *gateway.Config) {
		c.Authenticate = func(*http.Request) (gateway.Caller, error) { return nil, nil }
	})
	for _, method := range []string{"FOO", "PROPFIND", "POST", "TRACE"} {
		a.want(401, method, "/v1/rows/t/1", "")
	}
	a.want(405, "FOO", "/readyz", "")
}

// The line tells what was asked for: nothing was looked up that could.
func TestForbiddenNamesWhatWasAsked(t *testing.T) {
	a := serve(t, func(c *gateway.Config) {
		c.Authenticate = func(*http.Request) (gateway.Caller, error) {
			return caller{name: "worker-a", may: func(gateway.Action) bool { return false }}, nil
		}
	})
	for path, want := range map[string]string{
		"/v1/rows/Orders/1": "read the table public.orders", "/v1/objects/reports/a.csv": "read the object reports/a.csv", "/v1/leases/x:1": "read the lease x:1",
	} {
		if p := a.refused(403, "forbidden", "GET", path, ""); !strings.Contains(p.Detail, want) {
			t.Errorf("%s: %s", path, p.Detail)
		}
		if log := a.log.String(); !strings.Contains(log, want) {
			t.Errorf("%q is not in %s", want, log)
		}
	}
}
