package pgstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fence"
)

const (
	// groupLimit bounds how many calls one transaction makes: it keeps as many leases locked for a few milliseconds.
	groupLimit = 64
	// flightSlots is how many transactions are under way before others wait.
	flightSlots = 4
	// flightLimit is how long those that come wait for the transactions under way before one of them goes ahead.
	flightLimit = 250 * time.Millisecond
)

// gatherer makes one commit of many calls. While transactions are under way, as many flights as there may be, calls that arrive
// queue up, and those of them that are of different leases make up the next one. There is no timer: whoever finds a flight
// free goes at once, alone, in his own goroutine. A flight waits for no lock, so that it is over soon; one that is not (a
// server that hangs, a table that is locked) is passed by.
type gatherer struct {
	one     func(ctx context.Context, c *settlement) error
	many    func(ctx context.Context, group []*settlement)
	limit   time.Duration // how long a flight is waited for: flightLimit
	patient time.Duration // how long a call stays in the queue

	slots int // how many flights there may be: flightSlots

	mu      sync.Mutex // guards what follows
	flights []*flight  // those that others wait for
	queue   []*settlement
	closed  bool

	running sync.WaitGroup // the flights in goroutines of their own
}

// flight is a transaction under way, and those that follow it without a pause.
type flight struct {
	began   time.Time
	company string // of a lane's batch: see entry
}

// queued is a call's place in the queue.
type queued struct {
	values context.Context // the caller's, for what it carries; it is never cancelled
	done   chan struct{}   // closed once err is the outcome
	gone   bool            // sent or withdrawn; guarded by gatherer.mu
}

// settle makes the call, alone or in a group. The error of a transaction that failed may be another call's fault, unless
// its code says that there was none or that its outcome is unknown.
func (g *gatherer) settle(ctx context.Context, c *settlement) error {
	g.mu.Lock()
	f := g.lead()
	if f == nil {
		c.queued = queued{values: context.WithoutCancel(ctx), done: make(chan struct{})}
		g.queue = append(g.queue, c)
		g.mu.Unlock()
		return g.wait(ctx, c)
	}
	g.mu.Unlock()
	defer g.land(f)
	return g.one(ctx, c)
}

// lead begins a flight if there may be one more beside those that others should wait for. g.mu is held.
func (g *gatherer) lead() *flight {
	now := time.Now()
	g.flights = slices.DeleteFunc(g.flights, func(f *flight) bool { return now.Sub(f.began) >= g.limit })
	if len(g.flights) >= g.slots {
		return nil
	}
	f := &flight{began: now}
	g.flights = append(g.flights, f)
	return f
}

// wait waits for the outcome of a call in the queue.
func (g *gatherer) wait(ctx context.Context, c *settlement) error {
	stuck := time.NewTicker(g.limit)
	defer stuck.Stop()
	over := time.NewTimer(g.patient)
	defer over.Stop()
	for {
		select {
		case <-c.done:
			return c.err
		case <-stuck.C:
			if f := g.overtake(c); f != nil {
				defer g.land(f)
				return g.one(ctx, c)
			}
		case <-over.C:
			if g.withdraw(c) {
				return fence.Errorf(fence.CodeOverloaded, "the grants and ends that came before took too long")
			}
		case <-ctx.Done():
			if g.withdraw(c) {
				return fence.Wrap(fence.CodeUnavailable, ctx.Err(), "the call was given up before it was sent")
			}
			select {
			case <-c.done:
				return c.err
			default:
				return classify(ctx.Err())
			}
		}
	}
}

// withdraw takes a call from the queue, and reports whether it was still there.
func (g *gatherer) withdraw(c *settlement) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.gone {
		return false
	}
	c.gone = true
	return true
}

// overtake begins a flight with a call of the queue when the one under way should not be waited for.
func (g *gatherer) overtake(c *settlement) *flight {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.gone {
		return nil
	}
	f := g.lead()
	c.gone = f != nil
	return f
}

// land ends a transaction. The flight goes on, on its own, with what has queued up.
func (g *gatherer) land(f *flight) {
	g.mu.Lock()
	group := g.next(f)
	if group == nil {
		g.mu.Unlock()
		return
	}
	if g.closed { // nobody would wait for it
		g.mu.Unlock()
		g.fly(f, group)
		return
	}
	g.running.Go(func() { g.fly(f, group) })
	g.mu.Unlock()
}

func (g *gatherer) fly(f *flight, group []*settlement) {
	for group != nil {
		ctx := group[0].values
		if len(group) == 1 {
			group[0].err = g.one(ctx, group[0])
		} else {
			g.many(ctx, group)
		}
		for _, c := range group {
			close(c.done)
		}
		g.mu.Lock()
		group = g.next(f)
		g.mu.Unlock()
	}
}

// next takes the calls of a flight's next transaction from the queue, in their order, one for each lease. Without any the
// flight is over; so is one that was passed by. g.mu is held.
func (g *gatherer) next(f *flight) []*settlement {
	at := slices.Index(g.flights, f)
	if at < 0 {
		return nil
	}
	var (
		group []*settlement
		rest  = g.queue[:0]
		taken = make(map[string]bool, min(len(g.queue), groupLimit))
	)
	for _, c := range g.queue {
		switch {
		case c.gone:
		case len(group) < groupLimit && !taken[c.lease]:
			taken[c.lease], c.gone = true, true
			group = append(group, c)
		default:
			rest = append(rest, c)
		}
	}
	clear(g.queue[len(rest):])
	g.queue = rest
	if group == nil {
		g.flights = slices.Delete(g.flights, at, at+1)
		return nil
	}
	f.began = time.Now()
	return group
}

// close waits for the flights.
func (g *gatherer) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}
