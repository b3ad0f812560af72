package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/internal/metrics"
)

// telemetry is what a gateway tells about itself: metrics when somebody can read them, traces when somebody collects
// them. The zero value tells nobody and costs nothing.
type telemetry struct {
	metrics *metrics.Metrics
	traces  *traces
}

// startTelemetry starts what is wanted: metrics for the operators' side, traces by the environment's OTEL_*.
func startTelemetry(ctx context.Context, admin adminFlags, log *slog.Logger) (*telemetry, error) {
	t := &telemetry{}
	if admin.AdminListen != "" {
		t.metrics = metrics.New(buildOf())
	}
	var err error
	t.traces, err = startTraces(ctx, os.Getenv, log)
	return t, err
}

// Close sends the traces that are left, for a bounded time.
func (t *telemetry) Close() { t.traces.close() }

// instrument adds to the parts of a gateway's configuration that report.
func (t *telemetry) instrument(c *gateway.Config) {
	if t.traces != nil {
		c.TraceID = traceIDOf
	}
	switch {
	case t.metrics != nil && t.traces != nil:
		c.Observe = func(ctx context.Context, o gateway.Observation) {
			t.metrics.Observe(ctx, o)
			noteOutcome(ctx, o)
		}
	case t.metrics != nil:
		c.Observe = t.metrics.Observe
	case t.traces != nil:
		c.Observe = noteOutcome
	}
}

// around puts around a gateway what sees whole requests.
func (t *telemetry) around(h http.Handler) http.Handler {
	if t.metrics != nil {
		h = t.metrics.InFlight(h)
	}
	return t.traces.around(h)
}

// watch makes the metrics read the parts of a gateway at each scrape.
func (t *telemetry) watch(a *assembly) {
	if t.metrics == nil {
		return
	}
	s := metrics.Sources{
		Database: a.store.Stats, Redis: a.redisStats, Leases: a.manager.Stats, Gateway: a.Stats, Transfers: a.Transfers,
	}
	if a.s3 != nil {
		s.Uploads = a.s3.Memory
	}
	s.Logins = a.logins
	t.metrics.Watch(s)
}

// reloaded notes whether the auth file and the certificates could be read again. A nil telemetry notes nothing.
func (t *telemetry) reloaded(ok bool) {
	if t != nil && t.metrics != nil {
		t.metrics.Reloaded(ok)
	}
}

// watchCertificate makes the metrics tell when the certificate that is served runs out; a zero time means that there is
// none. It is called once.
func (t *telemetry) watchCertificate(notAfter func() time.Time) {
	if t != nil && t.metrics != nil && notAfter != nil {
		t.metrics.WatchCertificate(notAfter)
	}
}

// background is the task that looks at the ledger for the metrics; nil without any.
func (t *telemetry) background(a *assembly, interval time.Duration) func(context.Context) error {
	if t.metrics == nil {
		return nil
	}
	return func(ctx context.Context) error { return t.metrics.Run(ctx, a.store, interval, a.log) }
}

// buildOf is what the program was built from.
func buildOf() metrics.Build {
	b := metrics.Build{Version: "(devel)", GoVersion: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	if version != "" {
		b.Version = version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}
