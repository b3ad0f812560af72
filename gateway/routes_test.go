package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

func TestUnknownPathsAndMethods(t *testing.T) {
	a := serve(t, nil)
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/lease", "/v1/events/", "/v1/rows/", "/v1/objects/", "/v1/versions/b", "/v2/rows/t/1", "/v1%2Frows/t/1", "//v1/rows/t/1", "/livez/"} {
		a.refused(404, "not-found", "GET", path, "")
	}
	for _, tc := range []struct{ method, path, allow string }{
		{"PATCH", "/v1/leases/a", "GET, HEAD, POST, PUT, DELETE"},
		{"GET", "/v1/leases/a/tokens", "POST"},
		{"POST", "/v1/leases", "GET, HEAD"},
		{"DELETE", "/v1/events", "GET, HEAD"},
		{"DELETE", "/v1/leases/a/verify", "POST"},
		{"POST", "/v1/rows/t/1", "GET, HEAD, PATCH, PUT, DELETE"},
		{"BREW", "/v1/rows/t/1", "GET, HEAD, PATCH, PUT, DELETE"},
		{"OPTIONS", "/v1/objects/b/a", "GET, HEAD, PUT, POST, DELETE"},
		{"PUT", "/v1/objects/b", "GET, HEAD"},
		{"POST", "/v1/versions/b/a", "GET, HEAD"},
		{"POST", "/v1/marks/rows/t/1", "GET, HEAD"},
		{"DELETE", "/v1/marks/objects/b/a", "GET, HEAD"},
		{"POST", "/livez", "GET, HEAD"},
	} {
		got := a.want(405, tc.method, tc.path, "")
		if got.problem(t).Code != "method-not-allowed" || got.Header.Get("Allow") != tc.allow {
			t.Errorf("%s %s: Allow %q", tc.method, tc.path, got.Header.Get("Allow"))
		}
	}
	a.refused(404, "not-found", "BREW", "/nowhere", "")
	a.refused(400, "invalid-request", "PATCH", "/v1/rows/t/1?balance=eq.1", `{"n":1}`, "X-Fence-Token: 7")
	if got := a.want(404, "HEAD", "/v1/rows/t/1", ""); got.text != "" || got.Header.Get("X-Fence-Token") != "0" {
		t.Fatal(got.text, got.Header)
	}
}

func TestTraceIDIsTheCallers(t *testing.T) {
	a := serve(t, nil)
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	if p := a.refused(404, "not-found", "GET", "/", "", "traceparent: 00-"+id+"-00f067aa0ba902b7-01"); p.TraceID != id {
		t.Fatal(p.TraceID)
	}
	if !strings.Contains(a.log.String(), id) {
		t.Fatal("the log line has no trace id")
	}
}

type notReady struct{}

func (notReady) Ready(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		return nil
	}
	return errors.New("no PostgreSQL")
}

func TestHealth(t *testing.T) {
	a := serve(t, func(c *gateway.Config) {
		c.Authenticate = func(*http.Request) (gateway.Caller, error) { return nil, errors.New("nobody") }
	})
	for _, path := range []string{"/livez", "/readyz"} {
		if got := a.want(200, "GET", path, ""); got.text != "ok\n" {
			t.Fatal(got.text)
		}
		a.want(200, "HEAD", path, "")
	}
	a = serve(t, func(c *gateway.Config) { c.Readiness = notReady{} })
	a.want(200, "GET", "/livez", "")
	if got := a.want(503, "GET", "/readyz", ""); strings.Contains(got.text, "PostgreSQL") {
		t.Fatal(got.text)
	}
}

func TestUnauthenticated(t *testing.T) {
	var refusal error
	a := serve(t, func(c *gateway.Config) {
		c.Authenticate = func(*http.Request) (gateway.Caller, error) { return nil, refusal }
	})
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{errors.New("bad signature"), 401, "unauthenticated"},
		{nil, 401, "unauthenticated"},
		{fence.Errorf(fence.CodeForbidden, "not you"), 403, "forbidden"},
		{fence.Errorf(fence.CodeUnavailable, "no keys"), 503, "unavailable"},
	} {
		refusal = tc.err
		got := a.want(tc.status, "GET", "/v1/rows/t/1", "")
		if p := got.problem(t); p.Code != tc.code || p.Mark != nil {
			t.Fatal(got.text)
		}
		if tc.status == 401 && got.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Fatal(got.Header)
		}
	}
}

func TestLoopbackOnly(t *testing.T) {
	a := serve(t, func(c *gateway.Config) { c.LoopbackOnly = true })
	for _, tc := range []struct {
		host   string
		status int
		header string
	}{
		{"localhost", 200, ""},
		{"LOCALHOST:8080", 200, ""},
		{"127.0.0.1:8080", 200, ""},
		{"127.1.2.3", 200, ""},
		{"[::1]", 200, ""},
		{"[::1]:8080", 200, ""},
		{"localhost:1", 200, "Origin: http://localhost:1"},
		{"localhost:1", 200, "Origin: https://localhost:1"},
		{"localhost:1", 200, "Sec-Fetch-Site: same-origin"},
		{"evil.example", 403, ""},
		{"localhost.evil.example:80", 403, ""},
		{"10.0.0.1:80", 403, ""},
		{"[fe80::1]:80", 403, ""},
		{"localhost:1", 403, "Origin: http://localhost:2"},
		{"localhost:1", 403, "Origin: http://evil.example"},
		{"localhost:1", 403, "Origin: null"},
		{"localhost:1", 403, "Sec-Fetch-Site: cross-site"},
	} {
		headers := []string{"Host: " + tc.host}
		if tc.header != "" {
			headers = append(headers, tc.header)
		}
		got := a.want(tc.status, "GET", "/v1/marks/rows/t/1", "", headers...)
		if tc.status == 403 && got.problem(t).Code != "forbidden" {
			t.Errorf("%s: %s", tc.host, got.text)
		}
	}
	open := serve(t, nil)
	open.want(200, "GET", "/v1/marks/rows/t/1", "", "Host: evil.example", "Origin: http://other.example")
}

func TestConfigIsValidated(t *testing.T) {
	if _, err := gateway.New(gateway.Config{}); err == nil {
		t.Fatal("a gateway without backends was made")
	}
}

func TestPathOverTheLimit(t *testing.T) {
	a := serve(t, func(c *gateway.Config) { c.MaxPath = 64 })
	a.refused(400, "invalid-request", "GET", "/v1/rows/w/"+strings.Repeat("x", 64), "")
	a.refused(404, "not-found", "GET", "/v1/rows/w/"+strings.Repeat("x", 64-len("/v1/rows/w/")), "")
}
