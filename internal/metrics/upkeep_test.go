package metrics_test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// increase() and rate() see a counter's first event only when the counter was there before it.
func TestMetricsThatAlertsCountAreThereFromTheStart(t *testing.T) {
	m := newMetrics()
	for _, outcome := range []string{"unissued-token", "foreign-token", "outcome-unknown"} {
		for _, write := range []string{"rows patch", "rows put", "rows delete", "objects put", "objects delete"} {
			store, verb, _ := strings.Cut(write, " ")
			expect(t, m, `fencegate_writes_total{outcome="`+outcome+`",store="`+store+`",verb="`+verb+`"} 0`)
		}
	}
}

func TestMetricsOfReloads(t *testing.T) {
	m := newMetrics()
	expect(t, m, "fencegate_last_reload_successful 1")
	m.Reloaded(false)
	expect(t, m, "fencegate_last_reload_successful 0")
	m.Reloaded(true)
	expect(t, m, "fencegate_last_reload_successful 1")
}

func TestMetricsOfCertificate(t *testing.T) {
	const sample = "fencegate_certificate_expiry_seconds{}"
	var at time.Time
	m := newMetrics()
	m.WatchCertificate(func() time.Time { return at })
	t.Run("None", func(t *testing.T) {
		if slices.Contains(series(t, m), sample) {
			t.Error("without a certificate there is a time at which it runs out")
		}
	})
	t.Run("Served", func(t *testing.T) {
		at = time.Unix(1_900_000_000, 0)
		expect(t, m, "fencegate_certificate_expiry_seconds 1.9e+09")
	})
}
