package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// newReloaded tells of what a SIGHUP reads anew. A gateway that runs has read its files once.
func newReloaded() prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "fencegate_last_reload_successful", Help: "1 when the auth file and the certificates could be read when they were last looked at, 0 while older ones stay in force.",
	})
	g.Set(1)
	return g
}

// Reloaded notes whether the files could be read.
func (m *Metrics) Reloaded(ok bool) {
	if ok {
		m.reloaded.Set(1)
	} else {
		m.reloaded.Set(0)
	}
}

// WatchCertificate adds when the certificate runs out that connections are served with. notAfter is asked at each
// scrape and must be cheap; its zero time means that there is none. It is called once.
func (m *Metrics) WatchCertificate(notAfter func() time.Time) {
	m.registry.MustRegister(certificate(notAfter))
}

// certificate has no sample without a certificate: an alert on a zero would fire for ever.
type certificate func() time.Time

func (certificate) desc() *prometheus.Desc {
	return prometheus.NewDesc("fencegate_certificate_expiry_seconds", "When the certificate that TLS is served with runs out, in Unix time.", nil, nil)
}

// Describe implements prometheus.Collector.
func (c certificate) Describe(descs chan<- *prometheus.Desc) { descs <- c.desc() }

// Collect implements prometheus.Collector.
func (c certificate) Collect(metrics chan<- prometheus.Metric) {
	if at := c(); !at.IsZero() {
		metrics <- prometheus.MustNewConstMetric(c.desc(), prometheus.GaugeValue, float64(at.Unix()))
	}
}
