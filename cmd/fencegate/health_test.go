package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// answering is a gateway as far as its health goes.
func answering(t *testing.T, ready int, tls bool) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/livez")
		w.WriteHeader(ready)
		_, _ = w.Write([]byte("words\n"))
	})
	mux.HandleFunc("/slow/readyz", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s := httptest.NewUnstartedServer(mux)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of callers that do not like its certificate
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func TestHealth(t *testing.T) {
	ready, draining, moved := answering(t, http.StatusOK, false), answering(t, http.StatusServiceUnavailable, false), answering(t, http.StatusFound, false)
	secure := answering(t, http.StatusOK, true)
	address := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	port := address(ready)[strings.LastIndex(address(ready), ":"):]
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"Ready", []string{"--url=" + ready.URL}, 0, ready.URL + ": words"},
		{"Draining", []string{"--url=" + draining.URL}, 1, `answers 503: "words"`},
		{"DrainingButLive", []string{"--url=" + draining.URL, "--live"}, 0, "ok"},
		{"Redirected", []string{"--url=" + moved.URL}, 1, "answers 302"},
		{"NobodyThere", []string{"--url=http://127.0.0.1:1"}, 1, "refused"},
		{"Slow", []string{"--url=" + ready.URL + "/slow", "--timeout=50ms"}, 1, "deadline"},
		{"OwnListener", []string{"--listen=" + address(ready)}, 0, "words"},
		{"OwnListenerOnAllAddresses", []string{"--listen=0.0.0.0" + port}, 0, "http://127.0.0.1" + port},
		{"OwnAdminListenerFirst", []string{"--listen=" + address(draining), "--admin-listen=" + port, "--tls-cert=x"}, 0, "http://127.0.0.1" + port},
		{"OwnListenerWithTLS", []string{"--listen=" + address(secure), "--tls-cert=x"}, 0, "https://"},
		{"UnknownCertificate", []string{"--url=" + secure.URL}, 1, "certificate"},
		{"UnknownCertificateAccepted", []string{"--url=" + secure.URL, "--insecure"}, 0, "words"},
		{"InsecureElsewhere", []string{"--url=https://gateway.example", "--insecure"}, 1, "loopback addresses only"},
		{"NotAURL", []string{"--url=127.0.0.1:8080"}, 1, "of the form http://"},
		{"PasswordIsNotRepeated", []string{"--url=http://u:hunter2@127.0.0.1"}, 1, "of the form http://"},
		{"NoPort", []string{"--listen=127.0.0.1"}, 1, "missing port"},
		{"AnyPort", []string{"--listen=127.0.0.1:0"}, 1, "name the gateway with --url"},
		{"NoTime", []string{"--timeout=0s"}, 1, "must be positive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := command(t, append([]string{"health"}, c.args...)...)
			if code != c.code || !strings.Contains(out+errs, c.says) {
				t.Errorf("exit %d, want %d, and %q in:\n%s%s", code, c.code, c.says, out, errs)
			}
			if strings.Contains(out+errs, "hunter2") {
				t.Errorf("a secret in:\n%s%s", out, errs)
			}
		})
	}
}

func TestHealthIsSettledInTwoSeconds(t *testing.T) {
	s := answering(t, http.StatusOK, false)
	t.Setenv("FENCEGATE_HEALTH_URL", s.URL+"/slow")
	began := time.Now()
	code, _, errs := command(t, "health")
	if took := time.Since(began); code != exitFailed || took > 4*time.Second {
		t.Errorf("exit %d after %v: %s", code, took, errs)
	}
}
