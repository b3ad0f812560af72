package main

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// steady returns one figure after the other.
func steady(kind figure, values ...float64) runSlice {
	next := -1 // the first round counts for nothing
	return func(context.Context, time.Duration) (figures, error) {
		next++
		if next == 0 {
			return figures{kind: math.MaxFloat64}, nil
		}
		return figures{kind: values[next-1]}, nil
	}
}

func TestMeasure(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	all := []slice{
		{"a", time.Second, steady(handoffP50, 1, 30, 2)},
		{"b", time.Second, steady(handoffP50, 2, 60, 4)},
		{"breaks", time.Second, func(context.Context, time.Duration) (figures, error) {
			if calls++; calls == 3 {
				return nil, broken
			}
			return figures{handoffP50: float64(calls)}, nil
		}},
	}
	r := measure(t.Context(), all, plan{rounds: 3, warmUp: time.Millisecond, seed: 1}, io.Discard)
	if got := r.median("a", handoffP50); got != 2 {
		t.Errorf("median is %v, want 2", got)
	}
	if got := r.ratio("a", "b", handoffP50); got != 0.5 {
		t.Errorf("ratio is %v, want 0.5", got)
	}
	// It has the figures of the first round and the last.
	if got := r.median("breaks", handoffP50); calls != 4 || got != 3 {
		t.Errorf("one that failed once ran %d times and has the median %v", calls, got)
	}
	if len(r.failures) != 1 || r.failures[0].candidate != "breaks" || !errors.Is(r.failures[0].err, broken) {
		t.Errorf("got failures %v", r.failures)
	}
	if err := r.failure(); err != nil {
		t.Errorf("a peer's failure is ours: %v", err)
	}
	r.failures = append(r.failures, failure{gateway1, broken})
	if err := r.failure(); !errors.Is(err, broken) || !strings.Contains(err.Error(), gateway1) {
		t.Errorf("got failure %v", err)
	}
}

func TestMeasureKeepsWhatItHasWhenCutShort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	runs := 0
	all := []slice{{"a", time.Second, func(context.Context, time.Duration) (figures, error) {
		if runs++; runs == 3 {
			cancel()
			return nil, ctx.Err()
		}
		return figures{wins: float64(runs)}, nil
	}}}
	r := measure(ctx, all, plan{rounds: 5}, io.Discard)
	if got := r.median("a", wins); got != 2 || r.failure() != nil {
		t.Errorf("median is %v, want 2; failure %v", got, r.failure())
	}
}

func TestReport(t *testing.T) {
	r := newResults(1)
	r.add(rueidis1, 0, figures{handoffP50: 100e3, handoffP99: 200e3, waitP99: 3e6, trips: 3, wins: math.Inf(1)})
	r.add(gateway1, 0, figures{handoffP50: 4e3, handoffP99: 9e3, waitP99: 40e6, trips: 0.02, wins: 1.04})
	r.add(gateways32, 0, figures{handoffP50: 80e3, handoffP99: 90e3, waitP99: 40e6, trips: 3, wins: 1.04})
	var text strings.Builder
	if err := r.print(&text, plan{contended: time.Second}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"100µs 200µs 3ms 3.00 starved 1.00 - rueidislock, 1 client",
		"4µs 9µs 40ms 0.020 1.04 0.040 - fencegate, 1 gateway",
		"0.80 at most 0.65 short hand-off p50 across gateways / rueidislock, 1 client",
		"- at most 0.25 not measured hand-off p50 across gateways / bsm/redislock",
		"0.040 at most 0.05 reached hand-off p50 in one gateway / rueidislock, 1 client",
	} {
		found := false
		for line := range strings.Lines(text.String()) {
			found = found || strings.Join(strings.Fields(line), " ") == want
		}
		if !found {
			t.Errorf("no line says %q", want)
		}
	}
	if strings.Contains(text.String(), "UNCONTENDED") {
		t.Error("a part that was not measured is printed")
	}
	if t.Failed() {
		t.Log(text.String())
	}
}

func TestTargetReached(t *testing.T) {
	for _, tt := range []struct {
		target
		want bool
	}{
		{atMost("", 1.1, 1.1), true}, {atMost("", 1.11, 1.1), false},
		{atLeast("", 1.1, 1.1), true}, {atLeast("", 1.09, 1.1), false},
	} {
		if got := tt.reached(); got != tt.want {
			t.Errorf("%+v: reached is %v", tt.target, got)
		}
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-quick", "-part", "alone", "-rounds", "4", "-only", "redsync"}, io.Discard)
	if err != nil || o.contended != 0 || o.alone != quick().alone || o.rounds != 4 || o.only.MatchString("etcd") {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, args := range [][]string{{"-part", "both"}, {"-only", "("}, {"-rounds", "x"}, {"-rounds", "-1"}, {"quick"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
