package pgstore

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fence"
)

const (
	// batchLimit bounds the writes of a batch: it locks as many leases and marks for a few milliseconds.
	batchLimit, companyLimit = 256, 16
	// batchBytes bounds the bodies of a batch, and the queue's share of memory is queueBytes. One body may be longer.
	batchBytes, queueBytes = 4 << 20, 64 << 20
	// queueLimit bounds the writes that wait in a lane.
	queueLimit = 8192
	// laneFlights is how many batches of a lane may be under way, where all but the last take longer than flightLimit.
	laneFlights = 4
)

// lane makes one transaction of many writes. While a batch is under way, writes that arrive queue up, and those of them that are of
// different resources make up the next one. There is no timer for that: whoever finds the lane free goes at once, alone, in his own
// goroutine. A write whose resource is being written waits for that, so that writes of a resource keep their order. A batch that
// takes long (a trigger that sleeps, a server that hangs) is passed by.
type lane struct {
	send    func(ctx context.Context, batch []*entry) // sets the outcome of each
	limit   time.Duration                             // how long a batch is waited for: flightLimit
	patient time.Duration                             // how long a write stays in the queue
	apart   bool                                      // whether a write that can be in no batch of those that are coming goes alone

	mu       sync.Mutex // guards what follows
	flights  []*flight  // those that others wait for
	queue    []*entry
	bytes    int             // of the queue's bodies
	writing  map[string]bool // resources of batches, and of writes that were told to go alone
	watching *time.Timer     // nil when there is nothing to look after
	closed   bool

	running sync.WaitGroup // the flights in goroutines of their own, and the watch
}

// entry is a write in a lane.
type entry struct {
	resource, lease string
	write           writeArgs
	row             *rowEntry    // or
	object          *objectEntry // what it changes
	// company is empty for a write that anybody may share a transaction with, else it shares one with those of the same only.
	company string
	size    int

	outcome outcome

	values context.Context // the caller's, for what it carries; it is never cancelled
	since  time.Time
	done   chan struct{} // closed once outcome is set
	taken  bool          // sent or withdrawn; guarded by lane.mu
	left   bool          // nobody waits for the outcome; guarded by lane.mu
}

// outcome is what became of an entry. alone: nothing, and the caller is to make the write by itself.
type outcome struct {
	verdict verdict
	alone   bool
	err     error
}

// write sends the entry with others, or alone if the lane is free. If it is told to go alone, its resource stays the caller's until
// leave is called.
func (l *lane) write(ctx context.Context, e *entry) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errClosed()
	}
	if f := l.leadWith(e); f != nil {
		l.mu.Unlock()
		l.sendOwn(ctx, f, e)
		return e.outcome.err
	}
	if l.keepsApart(e) {
		l.writing[e.resource], e.taken, e.outcome.alone = true, true, true
		l.mu.Unlock()
		return nil
	}
	if len(l.queue) >= queueLimit || l.bytes+e.size > queueBytes && len(l.queue) > 0 {
		l.mu.Unlock()
		return fence.Errorf(fence.CodeOverloaded, "as many writes as may wait do so already")
	}
	e.values, e.since, e.done = context.WithoutCancel(ctx), time.Now(), make(chan struct{})
	l.queue = append(l.queue, e)
	l.bytes += e.size
	l.watch()
	l.depart() // what flies may have been passed by
	l.mu.Unlock()
	return l.wait(ctx, e)
}

// sendOwn sends an entry in its caller's goroutine, with his context, and lands. A panic is the caller's, too, and not the end of the lane.
func (l *lane) sendOwn(ctx context.Context, f *flight, e *entry) {
	sent := false
	defer func() {
		if !sent {
			e.outcome = outcome{err: fence.Errorf(fence.CodeOutcomeUnknown, "the write was given up: repeat it with the same token to learn the outcome")}
		}
		l.land(f, e)
	}()
	l.send(ctx, []*entry{e})
	sent = true
}

// keepsApart reports whether an entry may share no batch with those under way, and with none that waits: it need not wait for them, then.
// l.mu is held.
func (l *lane) keepsApart(e *entry) bool {
	if !l.apart || e.company == "" || l.writing[e.resource] {
		return false
	}
	for _, f := range l.flights {
		if f.company == e.company {
			return false
		}
	}
	return !slices.ContainsFunc(l.queue, func(q *entry) bool { return !q.taken && (q.company == e.company || q.resource == e.resource) })
}

func errClosed() error { return fence.Errorf(fence.CodeUnavailable, "the store is closed") }

// leadWith begins a flight with an entry, if its resource is not being written and nobody waits. l.mu is held.
func (l *lane) leadWith(e *entry) *flight {
	if l.writing[e.resource] || len(l.queue) > 0 {
		return nil
	}
	f := l.lead()
	if f != nil {
		l.writing[e.resource], e.taken, f.company = true, true, e.company
	}
	return f
}

// lead begins a flight if there may be one more beside those that others should wait for. l.mu is held.
func (l *lane) lead() *flight {
	if len(l.flights) > 0 && (len(l.flights) >= laneFlights || l.awaited(nil)) {
		return nil
	}
	f := &flight{began: time.Now()}
	l.flights = append(l.flights, f)
	return f
}

// awaited reports whether a flight other than f is not to be passed by. l.mu is held.
func (l *lane) awaited(f *flight) bool {
	now := time.Now()
	return slices.ContainsFunc(l.flights, func(other *flight) bool { return other != f && now.Sub(other.began) < l.limit })
}

// wait waits for the outcome of an entry of the queue.
func (l *lane) wait(ctx context.Context, e *entry) error {
	select {
	case <-e.done:
		return e.outcome.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !e.taken {
		e.taken = true
		l.bytes -= e.size
		return fence.Wrap(fence.CodeUnavailable, ctx.Err(), "the write was given up before it was sent")
	}
	select {
	case <-e.done:
		return e.outcome.err
	default:
		e.left = true
		return classify(ctx.Err())
	}
}

// leave gives the resource of a write that went alone back.
func (l *lane) leave(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.writing, e.resource)
	l.depart()
}

// depart begins a flight for what queues, unless one is under way that will take it. l.mu is held.
func (l *lane) depart() {
	if len(l.queue) == 0 {
		return
	}
	if f := l.lead(); f != nil {
		l.goOn(f)
	}
}

// land ends a batch of one in its caller's goroutine. The flight goes on, on its own, with what has queued up.
func (l *lane) land(f *flight, e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell([]*entry{e})
	l.goOn(f)
}

// goOn sends a flight's next batch, if there is one. l.mu is held.
func (l *lane) goOn(f *flight) {
	if batch := l.next(f); batch != nil {
		l.running.Go(func() { l.fly(f, batch) })
	}
}

func (l *lane) fly(f *flight, batch []*entry) {
	for batch != nil {
		l.send(batch[0].values, batch)
		l.mu.Lock()
		l.tell(batch)
		l.mu.Unlock()
		// Those who were answered write again, most of them at once: what they send is to be in the next batch.
		for range 3 {
			runtime.Gosched()
		}
		l.mu.Lock()
		batch = l.next(f)
		l.mu.Unlock()
	}
}

// tell tells the outcomes of a batch. l.mu is held.
func (l *lane) tell(batch []*entry) {
	for _, e := range batch {
		if !e.outcome.alone || e.left {
			delete(l.writing, e.resource)
		}
		if e.done != nil {
			close(e.done)
		}
	}
}

// next takes a flight's next batch from the queue, in its order. Without any the flight is over, and so is one that was passed by:
// others fly for it. l.mu is held.
func (l *lane) next(f *flight) []*entry {
	if len(l.flights) > 1 && l.awaited(f) {
		l.end(f)
		return nil
	}
	var (
		batch  []*entry
		bytes  int
		rest   = l.queue[:0]
		passed map[string]bool // resources of writes that are not taken: later ones wait for these
	)
	for _, e := range l.queue {
		switch {
		case e.taken: // it was withdrawn
		case len(batch) < limitOf(batch) && !l.writing[e.resource] && !passed[e.resource] &&
			(len(batch) == 0 || e.company == batch[0].company && bytes+e.size <= batchBytes):
			e.taken, l.writing[e.resource] = true, true
			bytes += e.size
			batch = append(batch, e)
		default:
			if rest = append(rest, e); len(batch) < limitOf(batch) && !l.writing[e.resource] {
				if passed == nil {
					passed = make(map[string]bool)
				}
				passed[e.resource] = true
			}
		}
	}
	clear(l.queue[len(rest):])
	l.queue = rest
	l.bytes -= bytes
	if batch == nil {
		l.end(f)
		return nil
	}
	f.began, f.company = time.Now(), batch[0].company
	return batch
}

// limitOf is how many writes a batch may have. Where somebody's code runs, which may take its time, they are few.
func limitOf(batch []*entry) int {
	if len(batch) > 0 && batch[0].company != "" {
		return companyLimit
	}
	return batchLimit
}

func (l *lane) end(f *flight) {
	l.flights = slices.DeleteFunc(l.flights, func(other *flight) bool { return other == f })
}

// watch looks after the queue as long as there is one. l.mu is held.
func (l *lane) watch() {
	if l.watching == nil {
		l.running.Add(1)
		l.watching = time.AfterFunc(l.limit, l.look)
	}
}

// look passes by what takes too long, and refuses what has waited too long.
func (l *lane) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.running.Done()
	l.watching = nil
	now := time.Now()
	l.refuse(func(e *entry) bool { return now.Sub(e.since) >= l.patient }, func() error {
		return fence.Errorf(fence.CodeOverloaded, "the writes that came before took too long")
	})
	l.depart()
	if len(l.queue) > 0 {
		l.watch()
	}
}

// refuse takes entries out of the queue. l.mu is held.
func (l *lane) refuse(which func(*entry) bool, why func() error) {
	l.queue = slices.DeleteFunc(l.queue, func(e *entry) bool {
		if e.taken || !which(e) {
			return e.taken
		}
		e.taken, e.outcome.err = true, why()
		l.bytes -= e.size
		close(e.done)
		return true
	})
}

// waiting is how many writes wait in the queue.
func (l *lane) waiting() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.queue))
}

// close refuses what waits, and waits for what is under way.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.refuse(func(*entry) bool { return true }, errClosed)
	if l.watching != nil && l.watching.Stop() {
		l.running.Done()
	}
	l.mu.Unlock()
	l.running.Wait()
}
