package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Outcome is what became of an operation.
type Outcome int

const (
	// Accepted is an operation that did what it should.
	Accepted Outcome = iota
	// Refused is an operation that was answered with a refusal, as it should be.
	Refused
	// Failed is an operation without a proper answer.
	Failed
)

// ErrAllFailed is why a run ended early: no operation has succeeded, and each client had its tries.
var ErrAllFailed = errors.New("every operation failed")

// Failing clients try this often, together at least triesAtLeast, before the run is given up; after each failure they wait twice
// as long, up to failurePause, so that a server that is down is not hammered.
const (
	triesEach    = 3
	triesAtLeast = 10
	failurePause = 100 * time.Millisecond
)

// Plan is the load to make.
type Plan struct {
	Clients  int           // Defaults to 1.
	Warmup   time.Duration // Operations that begin in it do not count. Defaults to none.
	Duration time.Duration // How long to measure after that. Defaults to 1s.
	MaxOps   int64         // Most operations to measure, without those of the warm-up. Defaults to no limit.
	// Drain is how long operations may take that are under way at the end; then their context is cancelled. Defaults to 10s.
	Drain time.Duration
	// Begin is called once, at the end of the warm-up, from the goroutine that calls Run; not when the run ends in the warm-up.
	// What is measured beside the latencies, such as CPU, begins there.
	Begin func()
	// Progress is told of what was measured so far, from the goroutine that calls Run: Elapsed is 0 during the warm-up.
	Progress func(Result)
	Every    time.Duration // Time between two calls of Progress. Defaults to 1s.
}

func (p Plan) withDefaults() Plan {
	p.Clients = max(p.Clients, 1)
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&p.Duration, time.Second}, {&p.Drain, 10 * time.Second}, {&p.Every, time.Second}} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	if p.Begin == nil {
		p.Begin = func() {}
	}
	if p.Progress == nil {
		p.Progress = func(Result) {}
	}
	return p
}

// Result is what was measured.
type Result struct {
	// Elapsed is the time from the end of the warm-up until the last operation ended.
	Elapsed                   time.Duration
	Accepted, Refused, Failed int64
	Latency                   Histogram // of what was accepted and refused
	FirstError                error     // of the first operation that failed, also in the warm-up
	// Err is why the run ended before its time: ErrAllFailed with the first error, or the cause of the context's end.
	Err error
}

// Throughput is how many operations a second were answered, accepted or refused.
func (r Result) Throughput() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Accepted+r.Refused) / r.Elapsed.Seconds()
}

// Run makes the load and returns when all clients have ended: each is a goroutine that calls do with its number, counted from 0,
// again and again. An error counts as Failed, whatever the outcome beside it, and as nothing when the context has ended. do has
// to end when its context does, or on a time limit of its own.
func Run(ctx context.Context, plan Plan, do func(ctx context.Context, client int) (Outcome, error)) Result {
	plan = plan.withDefaults()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if plan.Warmup <= 0 {
		plan.Begin()
	}
	r := &runner{plan: plan, do: do, stop: cancel, begin: time.Now().Add(plan.Warmup), clients: make([]client, plan.Clients)}
	r.end = r.begin.Add(plan.Duration)
	opCtx, release := context.WithDeadline(ctx, r.end.Add(plan.Drain))
	defer release()

	var running sync.WaitGroup
	for i := range r.clients {
		running.Go(func() { r.loop(ctx, opCtx, i) })
	}
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	r.wait(done)
	result := r.result(time.Now())
	result.Err = context.Cause(ctx)
	return result
}

// runner is one run.
type runner struct {
	plan       Plan
	do         func(context.Context, int) (Outcome, error)
	stop       context.CancelCauseFunc
	begin, end time.Time // of what is measured
	clients    []client

	started   atomic.Int64 // measured operations, kept only where they are bounded
	failures  atomic.Int64
	succeeded atomic.Bool
	first     atomic.Pointer[error]
}

// client is what one client has measured. Its lock is shared only with those who ask how far it is.
type client struct {
	mu                        sync.Mutex // guards all below
	accepted, refused, failed int64
	latency                   Histogram
}

// wait tells of the progress until all clients have ended.
func (r *runner) wait(done <-chan struct{}) {
	var warm <-chan time.Time
	if r.plan.Warmup > 0 {
		warm = time.After(time.Until(r.begin))
	}
	ticker := time.NewTicker(r.plan.Every)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-warm:
			r.plan.Begin()
		case now := <-ticker.C:
			r.plan.Progress(r.result(now))
		}
	}
}

// loop is one client.
func (r *runner) loop(ctx, opCtx context.Context, number int) {
	c := &r.clients[number]
	succeeded, pause := false, time.Millisecond
	start := time.Now()
	for ctx.Err() == nil && start.Before(r.end) {
		measured := !start.Before(r.begin)
		if measured && r.plan.MaxOps > 0 && r.started.Add(1) > r.plan.MaxOps {
			return
		}
		outcome, err := r.do(opCtx, number)
		ended := time.Now()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			outcome = Failed
		}
		if measured {
			c.record(outcome, ended.Sub(start))
		}
		start = ended
		if outcome != Failed {
			if !succeeded {
				succeeded = true
				r.succeeded.Store(true)
			}
			pause = time.Millisecond
			continue
		}
		r.fail(err)
		sleep(ctx, pause)
		pause, start = min(2*pause, failurePause), time.Now()
	}
}

// record counts one operation.
func (c *client) record(outcome Outcome, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch outcome {
	case Accepted:
		c.accepted++
	case Refused:
		c.refused++
	default:
		c.failed++
		return
	}
	c.latency.Record(took)
}

// fail keeps the first error, and gives up when nothing else has come.
func (r *runner) fail(err error) {
	if err == nil {
		err = errors.New("failed")
	}
	r.first.CompareAndSwap(nil, &err)
	tries := max(int64(triesEach*r.plan.Clients), triesAtLeast)
	if r.failures.Add(1) >= tries && !r.succeeded.Load() {
		r.stop(fmt.Errorf("%w: %w", ErrAllFailed, *r.first.Load()))
	}
}

// sleep waits, or until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// result adds up the clients.
func (r *runner) result(now time.Time) Result {
	sum := Result{Elapsed: max(now.Sub(r.begin), 0)}
	for i := range r.clients {
		c := &r.clients[i]
		c.mu.Lock()
		sum.Accepted += c.accepted
		sum.Refused += c.refused
		sum.Failed += c.failed
		sum.Latency.Merge(&c.latency)
		c.mu.Unlock()
	}
	if first := r.first.Load(); first != nil {
		sum.FirstError = *first
	}
	return sum
}
