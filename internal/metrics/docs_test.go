package metrics_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/internal/metrics"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/pgstore"
	"github.com/fencegate/fencegate/stores/s3store"
)

var update = flag.Bool("update", false, "write the table of metrics in docs/operations.md anew")

const (
	operations = "../../docs/operations.md"
	dashboard  = "../../docs/grafana-dashboard.json"
	alerts     = "../../docs/examples/alerts.yaml"
)

// complete has a sample of every metric that there is.
func complete(t *testing.T) *metrics.Metrics {
	t.Helper()
	m := newMetrics()
	store, err := pgstore.Open(pgstore.Config{URL: "postgres://nobody@127.0.0.1:1/none"}) // connects to nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	m.Watch(metrics.Sources{
		Database: store.Stats, Redis: func() *redis.PoolStats { return &redis.PoolStats{TotalConns: 3, IdleConns: 1} },
		Leases: func() lease.Stats { return lease.Stats{Waiting: 2, Void: 5} },
		Gateway: func() gateway.Stats {
			return gateway.Stats{
				Streams: 11, RefusalsNoted: 12, RefusalsDropped: 13, OverRate: map[string]uint64{"reads": 14}, Uncounted: map[string]uint64{"writes": 15},
			}
		},
		Transfers: func() int64 { return 4 }, Uploads: func() s3store.Memory { return s3store.Memory{Size: 10, InUse: 9, Waiting: 8} },
		Logins: func() (failed, limited uint64) { return 6, 7 },
	})
	for _, o := range []gateway.Observation{
		{API: "rows", Op: "patch", Code: fence.CodeAccepted}, {API: "rows", Op: "get"}, {API: "leases", Op: "acquire"},
		{API: "leases", Op: "renew"}, {API: "marks", Op: "get"}, {API: "rows"}, {API: "events", Op: "stream"},
	} {
		m.Observe(t.Context(), o)
	}
	m.InFlight(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/rows/t/1", nil))
	m.Swept(stores.Swept{}, nil)
	m.WatchCertificate(func() time.Time { return time.Unix(1, 0) })
	run(t, m, &fakeLedger{})
	return m
}

func TestWatch(t *testing.T) {
	expect(t, complete(t),
		`fencegate_database_connections{state="idle"} 0`, "fencegate_database_connections_max 16",
		`fencegate_database_transactions_max{share="writes"} 10`, `fencegate_database_transactions_max{share="grants"} 4`,
		`fencegate_redis_connections{state="in_use"} 2`, `fencegate_redis_connections{state="idle"} 1`,
		"fencegate_acquires_waiting 2", "fencegate_certificates_void_total 5", "fencegate_transfers 4",
		"fencegate_event_streams 11", "fencegate_refusals_noted_total 12", "fencegate_refusals_dropped_total 13",
		`fencegate_rate_limited_total{class="reads"} 14`, `fencegate_rate_uncounted_total{class="writes"} 15`,
		"fencegate_upload_memory_bytes 9", "fencegate_upload_memory_max_bytes 10", "fencegate_uploads_waiting 8",
		`fencegate_logins_failed_total{reason="credentials"} 6`, `fencegate_logins_failed_total{reason="limit"} 7`)
}

// ours are the families of complete, without Go's and the process's.
func ours(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	families, err := complete(t).Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "fencegate_") })
}

func TestTableOfMetrics(t *testing.T) {
	var want strings.Builder
	want.WriteString("\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range ours(t) {
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, " "), f.GetHelp())
	}
	text, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), "<!-- metrics -->\n")
	got, after, found := strings.Cut(rest, "\n<!-- end of metrics -->")
	switch {
	case !found:
		t.Fatalf("%s has no table of metrics", operations)
	case *update:
		if err := os.WriteFile(operations, []byte(before+"<!-- metrics -->\n"+want.String()+"\n<!-- end of metrics -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case strings.TrimSpace(got) != strings.TrimSpace(want.String()):
		t.Errorf("%s differs (rewrite it with -update), it should have:\n%s", operations, want.String())
	}
}

// checkNames finds metrics in a text that do not exist.
func checkNames(t *testing.T, text string) (used []string) {
	t.Helper()
	known := map[string]bool{}
	for _, f := range ours(t) {
		known[f.GetName()] = true
		if f.GetType() == dto.MetricType_HISTOGRAM {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				known[f.GetName()+suffix] = true
			}
		}
	}
	for _, name := range regexp.MustCompile(`\bfencegate_[a-z_]+`).FindAllString(text, -1) {
		if !known[name] {
			t.Errorf("there is no metric %s", name)
		}
		used = append(used, name)
	}
	return used
}

func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Title, UID    string
		SchemaVersion int
		Panels        []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || d.SchemaVersion == 0 || len(d.Panels) == 0 {
		t.Errorf("not a dashboard: %+v", d)
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %+v", p)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			if len(checkNames(t, target.Expr)) == 0 {
				t.Errorf("%s shows no metric of ours: %s", p.Title, target.Expr)
			}
		}
	}
}

func TestAlerts(t *testing.T) {
	text, err := os.ReadFile(alerts)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	rules := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			rules++
			if r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%+v misses something", r)
			}
			if len(checkNames(t, r.Expr)) == 0 && !strings.Contains(r.Expr, "up{") {
				t.Errorf("%s looks at no metric of ours: %s", r.Alert, r.Expr)
			}
			// A gateway that is gone from the discovery has no up at all.
			if r.Alert == "FencegateDown" && !strings.Contains(r.Expr, `absent(up{job="fencegate"})`) {
				t.Errorf("%s is silent when there is no gateway: %s", r.Alert, r.Expr)
			}
			if strings.Count(r.Expr, "(") != strings.Count(r.Expr, ")") {
				t.Errorf("%s: %s", r.Alert, r.Expr)
			}
			if !strings.Contains(string(doc), "`"+r.Alert+"`") {
				t.Errorf("%s does not explain %s", operations, r.Alert)
			}
		}
	}
	if rules < 8 {
		t.Errorf("%d rules", rules)
	}
}
