package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/gatewaytest"
	"github.com/fencegate/fencegate/internal/metrics"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/pgstore"
)

func newMetrics() *metrics.Metrics {
	return metrics.New(metrics.Build{Version: "v1", Revision: "abc", GoVersion: "go"})
}

// series returns our metrics as the text of each series, without its value.
func series(t *testing.T, m *metrics.Metrics) []string {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "fencegate_") {
			continue
		}
		for _, s := range f.Metric {
			var labels []string
			for _, l := range s.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all = append(all, f.GetName()+"{"+strings.Join(labels, ",")+"}")
		}
	}
	return all
}

// known are the values that a label may have.
func known(t *testing.T, label string) []string {
	switch label {
	case "store":
		return []string{"rows", "objects"}
	case "api":
		return []string{"leases", "rows", "objects", "marks", "events", "other"}
	case "verb":
		return []string{"patch", "put", "copy", "delete", "other"}
	case "call":
		return []string{"acquire", "renew", "tokens", "release", "inspect", "verify", "break", "list", "other"}
	case "result":
		return []string{"accepted", "refused", "failed", "client-left", "ok"}
	case "outcome":
		return append(codes(t), "client-left", "other")
	case "version", "revision", "goversion":
		return []string{"v1", "abc", "go"}
	}
	return nil
}

// codes are the values of the Code constants, read from their source.
func codes(t *testing.T) (values []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../fence/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Code") {
			value, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return true
	})
	return values
}

func checkSeries(t *testing.T, m *metrics.Metrics, most int) {
	t.Helper()
	all := series(t, m)
	if len(all) > most {
		t.Errorf("%d series, at most %d were expected", len(all), most)
	}
	for _, s := range all {
		_, labels, _ := strings.Cut(strings.TrimSuffix(s, "}"), "{")
		for label := range strings.SplitSeq(labels, ",") {
			name, value, _ := strings.Cut(label, "=")
			if label != "" && !slices.Contains(known(t, name), value) {
				t.Errorf("%s: %s is no value of %s", s, value, name)
			}
		}
	}
}

func TestEveryCodeHasItsOutcome(t *testing.T) {
	m := newMetrics()
	for _, c := range codes(t) {
		m.Observe(t.Context(), gateway.Observation{API: "marks", Op: "get", Code: fence.Code(c)})
		if want := "fencegate_marks_total{outcome=" + c + "}"; !slices.Contains(series(t, m), want) {
			t.Errorf("no series %s: the outcome is missing in labels.go", want)
		}
	}
}

// Names that clients choose never become labels, whatever they are.
func TestLabelsAreFixed(t *testing.T) {
	m := newMetrics()
	memory := gatewaytest.New()
	g, err := gateway.New(gateway.Config{
		Leases: memory, Rows: memory, Objects: memory, Readiness: memory, Events: memory, Observe: m.Observe, Log: slog.New(slog.DiscardHandler),
		Authenticate: func(r *http.Request) (gateway.Caller, error) {
			if r.Header.Get("Authorization") != "" {
				return nil, errors.New("no")
			}
			return gateway.Everybody{}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := m.InFlight(g)
	for i := range 50 {
		name := url.PathEscape(fmt.Sprintf(`n%d"{}`+"\n", i))
		for _, path := range []string{"/v1/leases/", "/v1/rows/t/", "/v1/rows/", "/v1/objects/b/", "/v1/objects/", "/v1/marks/rows/t/", "/v1/marks/objects/b/", "/v1/events", "/v1/leases?prefix=", "/v1/events?kinds=", "/v1/", "/"} {
			for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "POST", "BREW", "M" + strconv.Itoa(i)} {
				r := httptest.NewRequest(method, path+name, strings.NewReader(`{"n":1}`))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-Fence-Token", strconv.Itoa(1000+i))
				if i%7 == 0 {
					r.Header.Set("Authorization", "Bearer "+name)
				}
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
	}
	for i := range 300 {
		any := fmt.Sprintf("any%d", i)
		for _, o := range []gateway.Observation{
			{API: any, Op: any, Code: fence.Code(any)}, {API: "rows", Op: any, Code: fence.Code(any)}, {API: "leases", Op: any, Code: fence.Code(any)},
			{API: "objects", Op: "put", Code: fence.Code(any)}, {API: "marks", Op: any, Code: fence.Code(any)}, {API: "events", Op: any, Code: fence.Code(any)}, {API: "rows", Op: "get"}, {},
		} {
			m.Observe(t.Context(), o)
		}
	}
	checkSeries(t, m, 120)
}

func TestObserve(t *testing.T) {
	for name, c := range map[string]struct {
		seen gateway.Observation
		want []string
	}{
		"Write":     {gateway.Observation{API: "rows", Op: "patch", Code: fence.CodeStaleToken}, []string{"fencegate_writes_total{outcome=stale-token,store=rows,verb=patch}", "fencegate_write_duration_seconds{result=refused,store=rows,verb=patch}"}},
		"Replay":    {gateway.Observation{API: "objects", Op: "delete", Code: fence.CodeReplayed}, []string{"fencegate_writes_total{outcome=replayed,store=objects,verb=delete}", "fencegate_write_duration_seconds{result=accepted,store=objects,verb=delete}"}},
		"Read":      {gateway.Observation{API: "objects", Op: "get"}, []string{"fencegate_reads_total{outcome=client-left,store=objects}", "fencegate_read_duration_seconds{result=client-left,store=objects}"}},
		"Copy":      {gateway.Observation{API: "objects", Op: "copy", Code: fence.CodeAccepted}, []string{"fencegate_writes_total{outcome=accepted,store=objects,verb=copy}", "fencegate_write_duration_seconds{result=accepted,store=objects,verb=copy}"}},
		"Acquire":   {gateway.Observation{API: "leases", Op: "acquire", Code: fence.CodeLeaseHeld}, []string{"fencegate_leases_total{call=acquire,outcome=lease-held}", "fencegate_acquire_duration_seconds{result=refused}"}},
		"Renew":     {gateway.Observation{API: "leases", Op: "renew", Code: fence.CodeUnavailable}, []string{"fencegate_leases_total{call=renew,outcome=unavailable}", "fencegate_lease_duration_seconds{call=renew,result=failed}"}},
		"Mark":      {gateway.Observation{API: "marks", Op: "get", Code: fence.CodeAccepted}, []string{"fencegate_marks_total{outcome=accepted}", "fencegate_mark_duration_seconds{result=accepted}"}},
		"List":      {gateway.Observation{API: "leases", Op: "list", Code: fence.CodeAccepted}, []string{"fencegate_leases_total{call=list,outcome=accepted}", "fencegate_lease_duration_seconds{call=list,result=accepted}"}},
		"Stream":    {gateway.Observation{API: "events", Op: "stream", Code: fence.CodeRateLimited}, []string{"fencegate_event_streams_ended_total{outcome=rate-limited}"}},
		"Rejected":  {gateway.Observation{API: "rows", Code: fence.CodeUnauthenticated}, []string{"fencegate_requests_rejected_total{api=rows,outcome=unauthenticated}"}},
		"NoSuchAPI": {gateway.Observation{API: "x", Op: "get", Code: fence.CodeNotFound}, []string{"fencegate_requests_rejected_total{api=other,outcome=not-found}"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMetrics()
			before := series(t, m)
			m.Observe(t.Context(), c.seen)
			added := slices.DeleteFunc(series(t, m), func(s string) bool { return slices.Contains(before, s) })
			slices.Sort(added)
			slices.Sort(c.want)
			if !slices.Equal(added, c.want) {
				t.Errorf("%v, want %v", added, c.want)
			}
		})
	}
}

func TestInFlight(t *testing.T) {
	m := newMetrics()
	h := m.InFlight(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		expect(t, m, `fencegate_requests_in_flight{api="rows"} 1`)
		panic(http.ErrAbortHandler)
	}))
	func() {
		defer func() { _ = recover() }()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/rows/t/1", nil))
	}()
	expect(t, m, `fencegate_requests_in_flight{api="rows"} 0`)
}

// objectsOnly serves nothing but objects.
type objectsOnly struct{ http.Handler }

func (objectsOnly) API() string { return "objects" }

func TestInFlightOfOneAPI(t *testing.T) {
	m := newMetrics()
	h := m.InFlight(objectsOnly{http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		expect(t, m, `fencegate_requests_in_flight{api="objects"} 1`)
	})})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("PUT", "/v1/leases/a", nil)) // a bucket may have any name
	expect(t, m, `fencegate_requests_in_flight{api="objects"} 0`)
}

func TestSwept(t *testing.T) {
	m := newMetrics()
	m.Swept(stores.Swept{Aborted: 2, Expired: 5, Deleted: 3}, errors.New("the store is away"))
	expect(t, m, "fencegate_collector_last_success_timestamp_seconds 0")
	m.Swept(stores.Swept{Deleted: 1}, nil)
	expect(t, m, `fencegate_collector_passes_total{result="failed"} 1`, `fencegate_collector_passes_total{result="ok"} 1`)
	expect(t, m, "fencegate_collector_deleted_total 4")
	expect(t, m, "fencegate_collector_aborted_total 2")
	expect(t, m, "fencegate_collector_expired_total 5")
}

// expect demands samples in a scrape, and names as Prometheus wants them.
func expect(t *testing.T, m *metrics.Metrics, samples ...string) {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	if lint, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(lint) > 0 {
		t.Errorf("%v %v", lint, err)
	}
	body := scrape(t, m)
	for _, s := range samples {
		if !strings.Contains(body, "\n"+s+"\n") {
			t.Errorf("%s is not in the scrape:\n%s", s, body)
		}
	}
}

func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// fakeLedger answers what it is told, and ends the run after a number of looks.
type fakeLedger struct {
	ready, counts error
	enough        context.CancelFunc
}

func (l *fakeLedger) Ready(context.Context) error { defer l.enough(); return l.ready }

func (l *fakeLedger) CountBlobs(context.Context) (pgstore.BlobCounts, error) {
	return pgstore.BlobCounts{Pending: 1, Committed: 2, Garbage: 3, Aborted: 4}, l.counts
}

// run lets the metrics look at the ledger once.
func run(t *testing.T, m *metrics.Metrics, l *fakeLedger) {
	t.Helper()
	var ctx context.Context
	ctx, l.enough = context.WithCancel(t.Context())
	if err := m.Run(ctx, l, time.Minute, slog.New(slog.DiscardHandler)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestLedger(t *testing.T) {
	for name, c := range map[string]struct {
		ledger    fakeLedger
		up, blobs bool
	}{
		"Up":         {up: true, blobs: true},
		"Down":       {ledger: fakeLedger{ready: errors.New("no")}},
		"NotCounted": {ledger: fakeLedger{counts: errors.New("no")}, up: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMetrics()
			run(t, m, &c.ledger)
			body := scrape(t, m)
			up := map[bool]string{true: "\nfencegate_ledger_up 1\n", false: "\nfencegate_ledger_up 0\n"}[c.up]
			if !strings.Contains(body, up) {
				t.Errorf("no %q in %s", up, body)
			}
			if got := strings.Contains(body, `fencegate_blobs{state="garbage"} 3`); got != c.blobs {
				t.Errorf("blobs are told: %v", got)
			}
		})
	}
}
