package metrics

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencegate/fencegate/stores/pgstore"
)

// readyInterval is the time between two looks at the ledger; scrapes never ask it.
const readyInterval = 10 * time.Second

// Ledger is what is asked of the ledger at intervals.
type Ledger interface {
	Ready(ctx context.Context) error
	CountBlobs(ctx context.Context) (pgstore.BlobCounts, error)
}

// ledger are the metrics that take a look at PostgreSQL.
type ledger struct {
	up, lastReady prometheus.Gauge
	blobs         *prometheus.GaugeVec
}

func newLedger() ledger {
	return ledger{
		up:        prometheus.NewGauge(prometheus.GaugeOpts{Name: "fencegate_ledger_up", Help: "1 while PostgreSQL answers with the ledger, looked at every 10 s."}),
		lastReady: prometheus.NewGauge(prometheus.GaugeOpts{Name: "fencegate_ledger_last_ready_timestamp_seconds", Help: "When PostgreSQL last answered with the ledger, 0 before."}),
		blobs:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "fencegate_blobs", Help: "Blobs in the ledger. Pending ones are being uploaded, or recorded for uploads that are about to come: up to 64 of a principal and bucket, for seconds. Exact up to 100000; above, committed is an estimate and the others mean at least as many."}, []string{"state"}),
	}
}

func (l ledger) all() []prometheus.Collector {
	return []prometheus.Collector{l.up, l.lastReady, l.blobs}
}

// Run looks at the ledger every ten seconds and counts its blobs once per interval, until the context ends.
func (m *Metrics) Run(ctx context.Context, l Ledger, interval time.Duration, log *slog.Logger) error {
	var counted time.Time
	every(ctx, readyInterval, func() {
		if err := l.Ready(ctx); err != nil {
			// The cause is logged by whoever probes /readyz.
			m.ledger.up.Set(0)
			return
		}
		m.ledger.up.Set(1)
		m.ledger.lastReady.SetToCurrentTime()
		if time.Since(counted) < interval {
			return
		}
		counted = time.Now()
		if err := m.countBlobs(ctx, l); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "count blobs", "error", err)
		}
	})
	return ctx.Err()
}

func (m *Metrics) countBlobs(ctx context.Context, l Ledger) error {
	c, err := l.CountBlobs(ctx)
	if err != nil {
		// No number is better than an old one that looks new.
		m.ledger.blobs.Reset()
		return err
	}
	for state, n := range map[string]int64{"pending": c.Pending, "committed": c.Committed, "garbage": c.Garbage, "aborted": c.Aborted} {
		m.ledger.blobs.WithLabelValues(state).Set(float64(n))
	}
	return nil
}
