package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencegate/fencegate/stores"
)

// sweeps are the metrics of the collector of blobs.
type sweeps struct {
	passes                    *prometheus.CounterVec
	deleted, aborted, expired prometheus.Counter
	lastSuccess               prometheus.Gauge
}

func newSweeps() sweeps {
	s := sweeps{
		passes:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fencegate_collector_passes_total", Help: "Passes of the collector of blobs; one that met an error stopped there."}, []string{"result"}),
		deleted:     prometheus.NewCounter(prometheus.CounterOpts{Name: "fencegate_collector_deleted_total", Help: "Deletions of blobs. Each blob is deleted twice, a grace period apart."}),
		aborted:     prometheus.NewCounter(prometheus.CounterOpts{Name: "fencegate_collector_aborted_total", Help: "Uploads given up because they took longer than an upload may."}),
		expired:     prometheus.NewCounter(prometheus.CounterOpts{Name: "fencegate_collector_expired_total", Help: "Versions of objects that were forgotten because they are kept no longer."}),
		lastSuccess: prometheus.NewGauge(prometheus.GaugeOpts{Name: "fencegate_collector_last_success_timestamp_seconds", Help: "When a pass last went through, 0 before the first."}),
	}
	s.passes.WithLabelValues("ok")
	s.passes.WithLabelValues("failed")
	return s
}

func (s sweeps) all() []prometheus.Collector {
	return []prometheus.Collector{s.passes, s.deleted, s.aborted, s.expired, s.lastSuccess}
}

// Swept counts a pass of the collector; it is for stores.CollectorConfig.
func (m *Metrics) Swept(done stores.Swept, err error) {
	m.sweeps.aborted.Add(float64(done.Aborted))
	m.sweeps.expired.Add(float64(done.Expired))
	m.sweeps.deleted.Add(float64(done.Deleted))
	if err != nil {
		m.sweeps.passes.WithLabelValues("failed").Inc()
		return
	}
	m.sweeps.passes.WithLabelValues("ok").Inc()
	m.sweeps.lastSuccess.SetToCurrentTime()
}
