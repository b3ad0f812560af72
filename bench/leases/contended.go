package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/bench/stats"
)

const (
	// waiters is how many want the one lease, each again as soon as it has given it back.
	waiters = 32
	// hold is how long each keeps it.
	hold = time.Millisecond
	// leastGrace is how long after the end of a short slice those that wait may still get the lease. After a longer one it is
	// half of its length.
	leastGrace = 200 * time.Millisecond
)

var (
	errOverlap = errors.New("two held the lease at once")
	errNobody  = errors.New("nobody got the lease")
)

// race is one slice in which all waiters want one lease.
type race struct {
	name   string
	start  time.Time
	length time.Duration

	holders atomic.Int32
	// released is when the last release was called, since the start; 0 before the first.
	released atomic.Int64
}

// runner is what one waiter of a race saw.
type runner struct {
	handoffs, waits []float64 // in ns
	wins, turns     int
	err             error
}

// contend runs a slice and returns its figures. At its end each waiter still gets the lease once, so that the wait of one that
// starves is seen; who does not get it then either is taken to have waited until now.
func contend(ctx context.Context, c candidate, length time.Duration) (figures, error) {
	runtime.GC()
	before, err := c.count(ctx)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, length+max(length/2, leastGrace))
	defer cancel()
	// Each slice has a lease of its own: what one leaves behind cannot delay the next.
	r := &race{start: time.Now(), length: length}
	r.name = fmt.Sprintf("%s %d", c.name, r.start.UnixNano())
	var all [waiters]runner
	var running sync.WaitGroup
	for i := range all {
		running.Go(func() {
			if all[i].err = r.run(ctx, within, c.client(i), &all[i]); all[i].err != nil {
				cancel()
			}
		})
	}
	running.Wait()
	after, err := c.count(ctx)
	if err != nil {
		return nil, err
	}
	sum, err := summarise(all[:])
	if err != nil {
		return nil, err
	}
	sum[trips] *= after - before
	return sum, nil
}

// summarise returns a slice's figures, with 1 round trip in all.
func summarise(all []runner) (figures, error) {
	var handoffs, waits []float64
	turns, most, least := 0, 0, math.MaxInt
	var err error
	for _, a := range all {
		// The first error has ended the waiting of the others.
		if a.err != nil && (err == nil || errors.Is(err, context.Canceled)) {
			err = a.err
		}
		handoffs, waits = append(handoffs, a.handoffs...), append(waits, a.waits...)
		turns += a.turns
		most, least = max(most, a.wins), min(least, a.wins)
	}
	switch {
	case err != nil:
		return nil, err
	case len(handoffs) == 0:
		return nil, errNobody
	}
	return figures{
		handoffP50: stats.Percentile(handoffs, 0.5),
		handoffP99: stats.Percentile(handoffs, 0.99),
		waitP99:    stats.Percentile(waits, 0.99),
		trips:      1 / float64(turns),
		wins:       float64(most) / float64(least), // infinite when one starved
	}, nil
}

func (r *race) over() bool { return time.Since(r.start) >= r.length }

// run takes the lease again and again, waiting for it on the context within; what it has is given back on ctx.
func (r *race) run(ctx, within context.Context, take acquire, seen *runner) error {
	for !r.over() {
		asked := time.Now()
		release, err := take(within, r.name)
		got := time.Now()
		if err != nil && r.over() && within.Err() != nil {
			seen.waits = append(seen.waits, float64(got.Sub(asked)))
			return nil
		}
		if err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		if r.holders.Add(1) != 1 {
			return errOverlap
		}
		seen.turns++
		seen.waits = append(seen.waits, float64(got.Sub(asked)))
		if !r.over() {
			seen.wins++
			if at := r.released.Load(); at > 0 {
				seen.handoffs = append(seen.handoffs, float64(got.Sub(r.start)-time.Duration(at)))
			}
			time.Sleep(hold)
		}
		r.holders.Add(-1)
		r.released.Store(int64(time.Since(r.start)))
		if err := release(ctx); err != nil {
			return fmt.Errorf("release: %w", err)
		}
	}
	return nil
}

// count is NaN for a candidate whose requests are not counted.
func (c candidate) count(ctx context.Context) (float64, error) {
	if c.calls == nil {
		return math.NaN(), nil
	}
	n, err := c.calls(ctx)
	return float64(n), err
}
