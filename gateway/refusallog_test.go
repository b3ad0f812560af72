package gateway_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/gateway"
)

// The one line about a refusal has what is needed to find out who was refused, and why.
func TestRefusalLine(t *testing.T) {
	log := &logBuffer{}
	a := serve(t, func(c *gateway.Config) {
		c.Log = slog.New(slog.NewJSONHandler(log, nil))
		authenticate := c.Authenticate
		c.Authenticate = func(r *http.Request) (gateway.Caller, error) {
			if r.Header.Get("X-User") == "stranger" {
				return nil, errors.New("no such secret")
			}
			return authenticate(r)
		}
	})
	first, id := a.acquire("t:1", "X-User: alice")
	a.want(201, "PUT", "/v1/rows/t/1", `{"n":1}`, first, "X-User: alice")
	a.want(204, "DELETE", "/v1/leases/t:1", "", id, "X-User: alice")
	a.acquire("t:1", "X-User: bob")
	const trace = "0af7651916cd43dd8448eb211c80319c"
	parent := "traceparent: 00-" + trace + "-00f067aa0ba902b7-01"
	for name, c := range map[string]struct {
		refuse func()
		want   map[string]any
		not    string
	}{
		"StaleWrite": {
			func() {
				a.refused(412, "stale-token", "PATCH", "/v1/rows/t/1", `{"n":2}`, "X-Fence-Token: 1001", "X-User: alice", parent)
			},
			map[string]any{
				"level": "INFO", "code": "stale-token", "status": 412.0, "resource": "rows/public.t/1", "lease": "t:1", "token": 1001.0, "mark": 1000.0,
				"holder": "bob", "principal": "alice", "trace_id": trace,
			}, "client",
		},
		"Held": {
			func() { a.refused(409, "lease-held", "POST", "/v1/leases/t:1", "", "X-User: alice", parent) },
			map[string]any{"level": "INFO", "code": "lease-held", "lease": "t:1", "holder": "bob", "principal": "alice", "trace_id": trace}, "client",
		},
		"Stranger": {
			func() { a.refused(401, "unauthenticated", "GET", "/v1/rows/t/1", "", "X-User: stranger", parent) },
			map[string]any{"level": "INFO", "code": "unauthenticated", "principal": "", "client": "127.0.0.1", "trace_id": trace}, "resource",
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(log.String())
			c.refuse()
			line := log.String()[before:]
			var got map[string]any
			if err := json.Unmarshal(bytes.TrimSpace([]byte(line)), &got); err != nil {
				t.Fatalf("not one line: %v: %s", err, line)
			}
			if client, ok := got["client"].(string); ok {
				got["client"], _, _ = strings.Cut(client, ":")
			}
			for key, want := range c.want {
				if got[key] != want {
					t.Errorf("%s is %v, want %v in %s", key, got[key], want, line)
				}
			}
			if _, has := got[c.not]; has {
				t.Errorf("%s is in %s", c.not, line)
			}
		})
	}
	if strings.Contains(log.String(), strings.TrimPrefix(id, "X-Lease-Id: ")) {
		t.Error("the log has a grant's id")
	}
}
