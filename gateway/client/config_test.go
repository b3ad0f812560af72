package client_test

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/lease"
)

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]client.Config{
		"NoURL":         {},
		"NoScheme":      {URL: "localhost:8080"},
		"AnotherScheme": {URL: "ftp://hunter2@x"},
		"Unparsable":    {URL: "http://u:hunter2@[::1"},
		"Credentials":   {URL: "http://u:hunter2@x"},
		"Query":         {URL: "http://x?hunter2=1"},
		"Fragment":      {URL: "http://x#hunter2"},
		"TLSAndHTTP":    {URL: "http://x", TLS: &tls.Config{}, HTTP: &http.Client{}},
		"LineBreak":     {URL: "http://x", AuthToken: "hunter2\r\nX: y"},
		"Negative":      {URL: "http://x", Timeout: -1},
		"NoPause":       {URL: "http://x", MinPause: 10, MaxPause: 5},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := client.New(cfg); err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestBearerToken(t *testing.T) {
	r := serve(t, func(c *client.Config) { c.AuthToken = "hunter2" })
	r.put(func(w http.ResponseWriter, req *http.Request, n int, next http.Handler) {
		if req.Header.Get("Authorization") != "Bearer hunter2" {
			t.Errorf("authorization %q", req.Header.Get("Authorization"))
		}
		refusing(1, 401, fence.CodeUnauthenticated)(w, req, n, next)
	})
	_, err := r.Acquire(t.Context(), lease.Request{Name: "job"})
	wantCode(t, err, fence.CodeUnauthenticated)
}

// Go sends headers of ours along with a redirect.
func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("followed with %v", r.Header)
	}))
	defer elsewhere.Close()
	own := &http.Client{Transport: &http.Transport{}}
	defer own.CloseIdleConnections()
	for name, change := range map[string]func(*client.Config){
		"ItsOwnClient":     func(c *client.Config) {},
		"TheCallersClient": func(c *client.Config) { c.HTTP = own },
	} {
		t.Run(name, func(t *testing.T) {
			r := serve(t, change)
			r.put(answering(9, 307, "text/plain", "", "Location", elsewhere.URL))
			_, err := r.Renew(t.Context(), lease.Ref{Name: "job", ID: "secret"}, 0)
			wantCode(t, err, fence.CodeInternal)
			if own.CheckRedirect != nil {
				t.Error("the caller's client was changed")
			}
		})
	}
}

func TestTLSAndPaths(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/below/v1/leases/a%2Fb" {
			t.Errorf("path %s", r.URL.EscapedPath())
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"name":"a/b","holder":"x","remaining_ms":5}`)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake that is to fail
	s.StartTLS()
	defer s.Close()
	trusting := s.Client().Transport.(*http.Transport).TLSClientConfig
	c, err := client.New(client.Config{URL: s.URL + "/below/", TLS: trusting})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if v, err := c.Inspect(t.Context(), "a/b"); err != nil || v.Holder != "x" || len(v.Blocks) != 0 {
		t.Errorf("inspected %+v, %v", v, err)
	}
	strict, err := client.New(client.Config{URL: s.URL, MaxTries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer strict.Close()
	_, err = strict.Inspect(t.Context(), "a/b")
	wantCode(t, err, fence.CodeUnavailable)
}
