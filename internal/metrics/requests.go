package metrics

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

// buckets are for what PostgreSQL answers in a millisecond or two, and waits five seconds for a lock in the worst case.
func buckets() []float64 {
	return []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}
}

// waitBuckets are for acquires, most of whose time is the wait that the client asked for.
func waitBuckets() []float64 {
	return []float64{.001, .005, .02, .1, .5, 1, 2, 5, 10, 30, 60, 300, 1800}
}

// requests are the metrics of the API.
type requests struct {
	writes, reads, leases, marks, streams, rejected       *prometheus.CounterVec
	writeTime, readTime, leaseTime, acquireTime, markTime *prometheus.HistogramVec
	inFlight                                              *prometheus.GaugeVec

	writeSeries *remembered[writeLabels, writeSeries]
}

// writeSeries are what one kind of write is counted in; writeLabels say which kind it is, in values of labels.go.
type (
	writeSeries struct {
		count prometheus.Counter
		time  prometheus.Observer
	}
	writeLabels struct{ store, verb, outcome, result string }
)

func (r requests) findWrite(l writeLabels) writeSeries {
	return writeSeries{r.writes.WithLabelValues(l.store, l.verb, l.outcome), r.writeTime.WithLabelValues(l.store, l.verb, l.result)}
}

func newRequests() requests {
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	duration := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	r := requests{
		writes:   count("fencegate_writes_total", "Writes of rows and objects, commits and uploads, by what became of them.", "store", "verb", "outcome"),
		reads:    count("fencegate_reads_total", "Reads of rows, lists of them, objects and the OpenAPI document, by what became of them.", "store", "outcome"),
		leases:   count("fencegate_leases_total", "Calls about leases, by what became of them.", "call", "outcome"),
		marks:    count("fencegate_marks_total", "Reads of marks, by what became of them.", "outcome"),
		streams:  count("fencegate_event_streams_ended_total", "Streams of events that ended or were refused, by what became of them.", "outcome"),
		rejected: count("fencegate_requests_rejected_total", "Requests refused before it was known what they ask for: credentials, path or method.", "api", "outcome"),

		writeTime:   duration("fencegate_write_duration_seconds", "Time from a write's header to the end of its answer, an object's body included.", buckets(), "store", "verb", "result"),
		readTime:    duration("fencegate_read_duration_seconds", "Time from a read's header to the end of its answer, an object's body included.", buckets(), "store", "result"),
		leaseTime:   duration("fencegate_lease_duration_seconds", "Time of a call about a lease, acquires apart.", buckets(), "call", "result"),
		acquireTime: duration("fencegate_acquire_duration_seconds", "Time of an acquire, its wait for the holder before it included.", waitBuckets(), "result"),
		markTime:    duration("fencegate_mark_duration_seconds", "Time of a read of a mark.", buckets(), "result"),

		writeSeries: &remembered[writeLabels, writeSeries]{},

		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "fencegate_requests_in_flight", Help: "Requests that are being served."}, []string{"api"}),
	}
	for _, c := range []fence.Code{fence.CodeUnissuedToken, fence.CodeForeignToken, fence.CodeOutcomeUnknown} {
		for store, verbs := range map[string][]string{"rows": {"patch", "put", "delete"}, "objects": {"put", "copy", "delete"}} {
			for _, verb := range verbs {
				r.writes.WithLabelValues(store, verb, outcomeOf(c))
			}
		}
	}
	return r
}

func (r requests) all() []prometheus.Collector {
	return []prometheus.Collector{
		r.writes, r.reads, r.leases, r.marks, r.streams, r.rejected,
		r.writeTime, r.readTime, r.leaseTime, r.acquireTime, r.markTime, r.inFlight,
	}
}

// Observe counts a request of the API; it is for gateway.Config.
func (m *Metrics) Observe(_ context.Context, o gateway.Observation) {
	r, outcome, result, seconds := m.requests, outcomeOf(o.Code), resultOf(o.Code), o.Duration.Seconds()
	switch api := apiOf(o.API); {
	case o.Op == "" || api == other:
		r.rejected.WithLabelValues(api, outcome).Inc()
	case api == "leases":
		call := callOf(o.Op)
		r.leases.WithLabelValues(call, outcome).Inc()
		if call == "acquire" {
			r.acquireTime.WithLabelValues(result).Observe(seconds)
		} else {
			r.leaseTime.WithLabelValues(call, result).Observe(seconds)
		}
	case api == "marks":
		r.marks.WithLabelValues(outcome).Inc()
		r.markTime.WithLabelValues(result).Observe(seconds)
	case api == "events":
		r.streams.WithLabelValues(outcome).Inc()
	case o.Op == "get" || o.Op == "list" || api == "openapi":
		r.reads.WithLabelValues(api, outcome).Inc()
		r.readTime.WithLabelValues(api, result).Observe(seconds)
	default:
		series := r.writeSeries.get(writeLabels{api, verbOf(o.Op), outcome, result}, r.findWrite)
		series.count.Inc()
		series.time.Observe(seconds)
	}
}

// InFlight counts the requests that next is serving, by their paths unless next names the one API that it serves.
func (m *Metrics) InFlight(next http.Handler) http.Handler {
	of := func(r *http.Request) string { return apiOfPath(r.URL.Path) }
	if one, ok := next.(interface{ API() string }); ok {
		of = func(*http.Request) string { return apiOf(one.API()) }
	}
	inFlight := &remembered[string, prometheus.Gauge]{}
	find := func(api string) prometheus.Gauge { return m.requests.inFlight.WithLabelValues(api) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := inFlight.get(of(r), find)
		n.Inc()
		defer n.Dec()
		next.ServeHTTP(w, r)
	})
}
