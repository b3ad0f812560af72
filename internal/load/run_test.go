package load_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/internal/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What ends is counted as what it was, at most MaxOps, and a client never has two operations at once.
func TestRunCounts(t *testing.T) {
	const clients, ops = 4, 400
	var calls atomic.Int64
	var busy [clients]atomic.Bool
	failure := errors.New("lost")
	r := load.Run(t.Context(), load.Plan{Clients: clients, Duration: time.Minute, MaxOps: ops}, func(_ context.Context, client int) (load.Outcome, error) {
		if busy[client].Swap(true) {
			t.Error("a client has two operations at once")
		}
		defer busy[client].Store(false)
		switch n := calls.Add(1); {
		case n%100 == 50:
			return load.Accepted, failure
		case n%4 == 0:
			return load.Refused, nil
		}
		return load.Accepted, nil
	})
	if calls.Load() != ops || r.Accepted != 296 || r.Refused != 100 || r.Failed != 4 || r.Latency.Count() != 396 {
		t.Errorf("%d calls: %d accepted, %d refused, %d failed, %d latencies", calls.Load(), r.Accepted, r.Refused, r.Failed, r.Latency.Count())
	}
	if r.Err != nil || !errors.Is(r.FirstError, failure) || r.Throughput() <= 0 {
		t.Errorf("%v, %v, %v/s", r.Err, r.FirstError, r.Throughput())
	}
}

func TestRunKeepsTheFirstError(t *testing.T) {
	calls := 0
	r := load.Run(t.Context(), load.Plan{Duration: time.Minute, MaxOps: 3}, func(context.Context, int) (load.Outcome, error) {
		calls++
		return load.Failed, fmt.Errorf("failure %d", calls)
	})
	if r.Failed != 3 || r.FirstError == nil || r.FirstError.Error() != "failure 1" {
		t.Errorf("%d failed, first %v", r.Failed, r.FirstError)
	}
}

// An operation that began in the warm-up does not count, even when it ends long after.
func TestRunWarmsUp(t *testing.T) {
	const warmup = 200 * time.Millisecond
	begin := time.Now()
	var first atomic.Bool
	began := begin
	plan := load.Plan{Warmup: warmup, Duration: time.Minute, MaxOps: 3, Begin: func() { began = time.Now() }}
	r := load.Run(t.Context(), plan, func(context.Context, int) (load.Outcome, error) {
		if !first.Swap(true) {
			time.Sleep(warmup + warmup/4)
		}
		return load.Accepted, nil
	})
	if r.Accepted != 3 || r.Latency.Max() >= warmup/4 {
		t.Errorf("%d accepted, the longest took %v", r.Accepted, r.Latency.Max())
	}
	if r.Elapsed > time.Since(begin)-warmup || began.Sub(begin) < warmup {
		t.Errorf("%v elapsed, measuring began after %v", r.Elapsed, began.Sub(begin))
	}
}

// The time limit ends the run; what hangs then is cut off, and counts as failed.
func TestRunIsBounded(t *testing.T) {
	plan := load.Plan{Clients: 2, Duration: 30 * time.Millisecond, Drain: 30 * time.Millisecond}
	r := load.Run(t.Context(), plan, func(ctx context.Context, client int) (load.Outcome, error) {
		if client == 1 {
			<-ctx.Done()
			return load.Failed, ctx.Err()
		}
		return load.Accepted, nil
	})
	if r.Accepted == 0 || r.Failed != 1 || r.Err != nil || r.Elapsed < plan.Duration+plan.Drain {
		t.Errorf("%d accepted, %d failed, %v after %v", r.Accepted, r.Failed, r.Err, r.Elapsed)
	}
}

func TestRunGivesUp(t *testing.T) {
	down := errors.New("connection refused")
	for name, warmup := range map[string]time.Duration{"AtOnce": 0, "InTheWarmUp": time.Minute} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			r := load.Run(t.Context(), load.Plan{Clients: 8, Warmup: warmup, Duration: time.Minute}, func(context.Context, int) (load.Outcome, error) {
				calls.Add(1)
				return load.Failed, down
			})
			if !errors.Is(r.Err, load.ErrAllFailed) || !errors.Is(r.Err, down) || !errors.Is(r.FirstError, down) || calls.Load() > 100 {
				t.Errorf("%v after %d calls", r.Err, calls.Load())
			}
		})
	}
}

// Where one client succeeds the run goes on, and those that fail pause after each failure.
func TestRunGoesOnWhereSomeFail(t *testing.T) {
	const clients, each = 20, 4
	var failures atomic.Int64
	enough := make(chan struct{})
	first := true
	r := load.Run(t.Context(), load.Plan{Clients: clients, Duration: time.Minute, MaxOps: clients * (each + 20)}, func(ctx context.Context, client int) (load.Outcome, error) {
		switch {
		case client > 0:
			if failures.Add(1) == clients*each { // more than without any success
				close(enough)
			}
			return load.Failed, nil
		case first:
			first = false
		default:
			select {
			case <-enough:
			case <-ctx.Done():
			}
		}
		return load.Accepted, nil
	})
	if r.Err != nil || r.Failed != failures.Load() || r.Accepted < 2 {
		t.Errorf("%v: %d accepted, %d of %d failures", r.Err, r.Accepted, r.Failed, failures.Load())
	}
	if least := time.Duration(1+2+4) * time.Millisecond; r.Elapsed < least {
		t.Errorf("each failed %d times or more in %v, want %v at least", each, r.Elapsed, least)
	}
}

// What the end of the context cuts off is not told as failed.
func TestRunIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	r := load.Run(ctx, load.Plan{Duration: time.Minute}, func(ctx context.Context, _ int) (load.Outcome, error) {
		cancel(enough)
		<-ctx.Done()
		return load.Failed, ctx.Err()
	})
	if !errors.Is(r.Err, enough) || r.Failed != 0 || r.FirstError != nil {
		t.Errorf("%v, %d failed, first %v", r.Err, r.Failed, r.FirstError)
	}
}

func TestRunTellsItsProgress(t *testing.T) {
	var told []load.Result
	seen := make(chan struct{})
	r := load.Run(t.Context(), load.Plan{
		Duration: time.Minute, MaxOps: 2, Every: time.Millisecond,
		Progress: func(r load.Result) {
			if told = append(told, r); r.Accepted == 1 && len(told) > 1 && told[len(told)-2].Accepted == 1 {
				select {
				case <-seen:
				default:
					close(seen)
				}
			}
		},
	}, func() func(context.Context, int) (load.Outcome, error) {
		calls := 0
		return func(context.Context, int) (load.Outcome, error) {
			if calls++; calls == 2 {
				<-seen
			}
			return load.Accepted, nil
		}
	}())
	if r.Accepted != 2 || len(told) < 2 || told[len(told)-1].Elapsed <= told[0].Elapsed {
		t.Errorf("%d accepted, told %d times", r.Accepted, len(told))
	}
}
