// Package metrics counts what a gateway does, for Prometheus.
//
// Every label has a fixed set of values (labels.go). Names of leases, tables, buckets and principals, keys and tokens
// are never labels: they are customer data, and each new value would be a series that the monitoring keeps for ever.
package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrapeTimeout bounds one scrape. Nothing in it asks a server.
const scrapeTimeout = 5 * time.Second

// Build is what the program was built from.
type Build struct{ Version, Revision, GoVersion string }

// Metrics are the metrics of one gateway, on a registry of their own. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	requests requests
	sweeps   sweeps
	ledger   ledger
	reloaded prometheus.Gauge
}

// New makes Metrics of which everything is zero. The series that alerts count are there from the start: increase() does not
// see the event that makes a series.
func New(build Build) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), requests: newRequests(), sweeps: newSweeps(), ledger: newLedger(), reloaded: newReloaded()}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "fencegate_build_info", Help: "1; what the program was built from is in the labels.",
		ConstLabels: prometheus.Labels{"version": build.Version, "revision": build.Revision, "goversion": build.GoVersion},
	})
	info.Set(1)
	m.registry.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(m.requests.all()...)
	m.registry.MustRegister(m.sweeps.all()...)
	m.registry.MustRegister(m.ledger.all()...)
	m.registry.MustRegister(m.reloaded)
	return m
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Timeout: scrapeTimeout, MaxRequestsInFlight: 4})
}

// Gatherer reads the metrics in this process.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// every calls f at once and then at intervals, until the context ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for f(); ; f() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
