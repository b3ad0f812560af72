package stores_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/stores"
)

func collector(t *testing.T, l *ledger, m *memory, cfg stores.CollectorConfig) *stores.Collector {
	t.Helper()
	c, err := stores.NewCollector(l, m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sweep(t *testing.T, c *stores.Collector) stores.Swept {
	t.Helper()
	swept, err := c.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return swept
}

const day = 24 * time.Hour

func TestSweepDeletesOnlyOldGarbage(t *testing.T) {
	l, m := newLedger(), newMemory()
	for id, b := range map[string]*intent{
		"pending-young":  {state: "pending", age: time.Hour},
		"pending-margin": {state: "pending", age: time.Hour + 15*time.Second},
		"pending-stale":  {state: "pending", age: 2 * time.Hour},
		"committed":      {state: "committed", age: 100 * day},
		"garbage-young":  {state: "garbage", age: day - time.Second},
		"garbage-old":    {state: "garbage", age: day + time.Second},
		"aborted-old":    {state: "aborted", age: day + time.Second},
		"deleted-before": {state: "aborted", age: day + time.Second, deletions: 1},
	} {
		l.blobs[id] = b
		m.bodies[id] = []byte(id)
	}
	m.bodies["nobody-knows"] = nil
	c := collector(t, l, m, stores.CollectorConfig{})
	if got := sweep(t, c); got != (stores.Swept{Aborted: 1, Deleted: 3}) {
		t.Errorf("swept %+v", got)
	}
	if got := strings.Join(m.deleted, " "); got != "aborted-old deleted-before garbage-old" {
		t.Errorf("deleted %q", got)
	}
	if got := sweep(t, c); got != (stores.Swept{}) {
		t.Errorf("the next pass swept %+v", got)
	}
	// A grace period later what was deleted once is deleted again: a late PUT may have landed meanwhile.
	for _, b := range l.blobs {
		if b.state != "pending" {
			b.age += 2 * day
		}
	}
	if got := sweep(t, c); got != (stores.Swept{Deleted: 4}) {
		t.Errorf("two days later swept %+v", got)
	}
	if l.blobs["garbage-old"] != nil || l.blobs["committed"] == nil {
		t.Errorf("the ledger knows %q as garbage, %q as committed", l.intents("garbage"), l.intents("committed"))
	}
}

func TestSweepGoesThroughAllPages(t *testing.T) {
	l, m := newLedger(), newMemory()
	for i := range 250 {
		l.blobs[fmt.Sprintf("stale-%d", i)] = &intent{state: "pending", age: day}
		l.blobs[fmt.Sprintf("garbage-%d", i)] = &intent{state: "garbage", age: 2 * day}
	}
	if got := sweep(t, collector(t, l, m, stores.CollectorConfig{})); got != (stores.Swept{Aborted: 250, Deleted: 250}) {
		t.Errorf("swept %+v", got)
	}
}

func TestSweepStopsAtTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	newGarbage := func() (*ledger, *memory) {
		l, m := newLedger(), newMemory()
		for _, id := range []string{"a", "b", "c"} {
			l.blobs[id] = &intent{state: "garbage", age: 2 * day}
		}
		return l, m
	}
	t.Run("OfTheStore", func(t *testing.T) {
		l, m := newGarbage()
		m.failDelete = map[string]error{"b": broken}
		swept, err := collector(t, l, m, stores.CollectorConfig{}).Sweep(t.Context())
		if !errors.Is(err, broken) || swept.Deleted != 1 || len(m.deleted) != 1 {
			t.Errorf("swept %+v, %v, deleted %q", swept, err, m.deleted)
		}
		if l.blobs["b"].deletions != 0 {
			t.Error("a deletion was recorded that did not happen")
		}
	})
	t.Run("OfTheLedger", func(t *testing.T) {
		l, m := newGarbage()
		l.failCollected = broken
		swept, err := collector(t, l, m, stores.CollectorConfig{}).Sweep(t.Context())
		if !errors.Is(err, broken) || swept.Deleted != 0 || len(m.deleted) != 1 {
			t.Errorf("swept %+v, %v, deleted %q", swept, err, m.deleted)
		}
	})
}

// Run goes on after a pass that failed, logs the failure once, and ends with its context.
func TestRunGoesOnAfterAnError(t *testing.T) {
	l, m := newLedger(), newMemory()
	l.blobs["a"] = &intent{state: "garbage", age: 2 * day}
	m.failDelete = map[string]error{"a": errors.New("broken")}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l.onCollected = cancel
	var lines []string
	log := writer(func(p []byte) (int, error) {
		lines = append(lines, string(p))
		m.mu.Lock()
		defer m.mu.Unlock()
		m.failDelete = nil
		return len(p), nil
	})
	c := collector(t, l, m, stores.CollectorConfig{Interval: time.Millisecond, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err := c.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
	if len(m.deleted) != 1 {
		t.Errorf("deleted %q", m.deleted)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "broken") {
		t.Errorf("logged %q", lines)
	}
}

type writer func(p []byte) (int, error)

func (f writer) Write(p []byte) (int, error) { return f(p) }

func TestGraceMustExceedTheLimits(t *testing.T) {
	for name, cfg := range map[string]stores.CollectorConfig{
		"BelowTheUploadLimit":   {Grace: time.Hour, UploadLimit: 2 * time.Hour, DownloadLimit: time.Minute},
		"BelowTheDownloadLimit": {Grace: time.Hour, UploadLimit: time.Minute, DownloadLimit: time.Hour},
		"BelowTheDefaultLimits": {Grace: time.Hour},
		"NegativeInterval":      {Interval: -1},
		"NegativeUploadLimit":   {UploadLimit: -1},
		"NegativeDownloadLimit": {DownloadLimit: -1},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := stores.NewCollector(newLedger(), newMemory(), cfg); err == nil {
				t.Error("no error")
			}
		})
	}
}
