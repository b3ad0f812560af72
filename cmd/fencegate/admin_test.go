package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAdminListener(t *testing.T) {
	s := startServing(t)
	for name, c := range map[string]struct {
		method, path string
		headers      []string
		status       int
		says         string
	}{
		"Livez":                {"GET", "/livez", nil, 200, "ok"},
		"Readyz":               {"GET", "/readyz", nil, 200, "ok"},
		"ReadyzByAnotherName":  {"GET", "/readyz", []string{"Host: evil.example"}, 403, "local clients"},
		"LivezByAnotherName":   {"GET", "/livez", []string{"Host: 10.1.2.3:8081"}, 403, "local clients"},
		"MetricsByAnotherName": {"GET", "/metrics", []string{"Host: evil.example"}, 403, "local clients"},
		"Metrics":              {"GET", "/metrics", nil, 200, "fencegate_build_info{"},
		"NoWritesHere":         {"PATCH", "/v1/rows/wallets/42", nil, 404, ""},
		"MetricsAreRead":       {"POST", "/metrics", nil, 405, ""},
		"Profile":              {"GET", "/debug/pprof/goroutine?debug=1", nil, 200, "goroutine profile"},
		"ProfileOfAnotherHost": {"GET", "/debug/pprof/goroutine?debug=1", []string{"Host: evil.example"}, 403, "local clients"},
		// The command line holds the S3's secret key.
		"NoCommandLine": {"GET", "/debug/pprof/cmdline", nil, 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer, body := request(t, c.method, s.admin+c.path, "", c.headers...)
			if answer.StatusCode != c.status || !strings.Contains(body, c.says) {
				t.Errorf("%d, want %d and %q in %s", answer.StatusCode, c.status, c.says, body)
			}
		})
	}
	t.Run("NoMetricsBesideTheAPI", func(t *testing.T) { s.want(404, "GET", "/metrics", "") })
	t.Run("TablesInTheDocument", func(t *testing.T) {
		if doc := s.want(200, "GET", "/openapi.json", ""); !strings.Contains(doc, `"/v1/rows/public.wallets/{key}"`) {
			t.Errorf("the table is not described: %s", doc)
		}
	})
	if code := s.stop(); code != 0 {
		t.Errorf("exit %d: %s", code, s.log)
	}
}

// Monitoring and probes come by the pod's address.
func TestAdminBeyondLoopback(t *testing.T) {
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, text, " to ", r.Host) })
	}
	h := adminHandler(says("health"), says("metrics"), false)
	for path, want := range map[string]string{
		"/livez": "200 health to localhost", "/readyz": "200 health to localhost", "/metrics": "200 metrics to 10.1.2.3:8081",
		"/debug/pprof/heap": "404 404 page not found\n",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://10.1.2.3:8081"+path, nil))
		if got := fmt.Sprint(w.Code, " ", w.Body); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
