package lease

import (
	"context"
	"crypto/rand"
	"math"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fence"
)

const (
	// noteEvery is how often a batch tells the locker how many wait in it, at most.
	noteEvery = 100 * time.Millisecond
	// lookEvery is how often a batch that waits looks how it stands, at least: a signal may have been lost.
	lookEvery = 5 * time.Second
	// lookUnheard is the same while no signals are heard.
	lookUnheard = 250 * time.Millisecond
	// hearing bounds the wait for the first connection that brings signals.
	hearing = time.Second
	// maxHolds bounds how many leases are remembered. To forget one costs its release a commit.
	maxHolds = 100_000
	// suspicion is how long a lease is held for a grant that has ended before it is taken away.
	suspicion = time.Second
	// grain is how coarsely a locker may count how long a lease still runs.
	grain = 5 * time.Millisecond
)

// turns is who has the turn to be granted which lease, in this gateway. It is a queue below the locker's: those that want
// a lease here stand in batches, each of which is one entry of the locker's queue and one hold of the lease. A batch
// takes in whoever comes until another gateway's entry stands behind it (Followed); then a new batch begins, behind that
// one. So the order is that in which they came, in all gateways together, but for the time that a signal takes.
//
// A batch that holds the lease hands it on to its next without asking the locker, as often as the lease runs long enough
// there; the next one's certificate then has the previous grant's first token as its floor. When something came between (the
// grant was ended, or ended elsewhere, or a certificate was void) the batch proves its hold first: it reads the floor, then
// extends the lease under the hold's next value. So a value stands for one grant and those that followed it by such hand-offs
// alone, and whoever drops the value of a grant that has ended drops nobody else's lease.
//
// A batch in which somebody waits has a steward, a goroutine that alone calls the locker for it. A batch whose lease is held,
// with nobody behind, is only remembered, so that a release and the next to come find it.
type turns struct {
	locker Locker
	ledger Ledger
	config Config

	ctx   context.Context // of the stewards
	stop  context.CancelFunc
	tasks sync.WaitGroup
	heard chan struct{} // closed once signals are heard

	mu      sync.Mutex // guards what follows, and all lines and batches
	closed  bool
	hears   bool // Listen was started
	lines   map[string]*line
	holds   map[fence.Digest]*batch // by HoldOf
	waiting int
	watched map[string]*time.Timer
	// suspects are leases that are held for grants that have ended, or for none.
	suspects map[string]bool
	debts    debts
	// expiring bounds how many leases that ran out are looked at at once.
	expiring chan struct{}
}

// line is the batches of one lease, in their order. The first may hold the lease.
type line struct {
	name    string
	batches []*batch
}

func newTurns(locker Locker, ledger Ledger, config Config) *turns {
	t := &turns{
		locker: locker, ledger: ledger, config: config, heard: make(chan struct{}),
		lines: map[string]*line{}, holds: map[fence.Digest]*batch{}, watched: map[string]*time.Timer{}, suspects: map[string]bool{},
		expiring: make(chan struct{}, 8), debts: debts{wake: make(chan struct{}, 1)},
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// close ends the stewards, who give up the stands in the queues. Leases that are held stay.
func (t *turns) close() {
	t.mu.Lock()
	t.closed = true
	for _, timer := range t.watched {
		timer.Stop()
	}
	for _, b := range t.holds {
		b.stopClock()
		b.nudge()
	}
	t.mu.Unlock()
	t.stop()
	t.tasks.Wait()
}

// spawn runs a task that close waits for. t.mu is held.
func (t *turns) spawn(task func()) {
	if !t.closed {
		t.tasks.Go(task)
	}
}

// bounded is a context for one step of a steward.
func (t *turns) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.ctx, t.config.CertifyTimeout)
}

// listen begins to hear signals. Whoever holds a lease is told that others wait elsewhere, so it is not only for those that wait.
func (t *turns) listen() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.hears {
		t.hears = true
		t.spawn(func() {
			// An error means that there never will be signals: the stewards look by themselves.
			_ = t.locker.Listen(t.ctx, t.signal)
		})
	}
}

// hear waits until signals are heard, as far as they can be: a push to a gateway that does not listen is lost.
func (t *turns) hear(ctx context.Context, over time.Time) {
	select {
	case <-t.heard:
		return
	default:
	}
	wait := time.NewTimer(min(hearing, time.Until(over)/2))
	defer wait.Stop()
	select {
	case <-t.heard:
	case <-wait.C:
	case <-ctx.Done():
	}
}

func (t *turns) isHeard() bool {
	select {
	case <-t.heard:
		return true
	default:
		return false
	}
}

// signal is what the locker calls.
func (t *turns) signal(s Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch s.Kind {
	case Resync:
		if !t.isHeard() {
			close(t.heard)
		}
		for _, b := range t.holds {
			b.lookAt = time.Time{}
			b.nudge()
		}
	case Followed:
		if b := t.holds[HoldOf(s.Value)]; b != nil {
			b.followed = true
		}
	case Pushed:
		b := t.holds[HoldOf(s.Value)]
		if b == nil {
			// Nobody waits here any more, or never did: an old copy of the locker's data has come back.
			t.owe(debt{name: s.Name, value: s.Value})
			return
		}
		// One that comes late is of a reservation that was claimed since.
		if n := countOf(s.Value); n > countOf(b.value) || n == countOf(b.value) && b.phase != holding {
			b.reserved(s.Value)
			b.tend()
		}
	}
}

// drop gives up a value in the locker, on a context of its own.
func (t *turns) drop(name string, value fence.Digest) error {
	ctx, cancel := context.WithTimeout(context.Background(), t.config.CleanupTimeout)
	defer cancel()
	d, err := t.locker.Drop(ctx, name, value)
	if err == nil && d.Next {
		t.mu.Lock()
		t.watch(name, Window)
		t.mu.Unlock()
	}
	return err
}

// watch looks at a lease that was handed on, once it must have been claimed: whoever hands on a lease sees to it that it
// does not end with somebody who has gone. t.mu is held.
func (t *turns) watch(name string, after time.Duration) {
	if t.closed {
		return
	}
	after += time.Millisecond + mathrand.N(10*time.Millisecond)
	if timer := t.watched[name]; timer != nil {
		timer.Reset(after)
		return
	}
	t.watched[name] = time.AfterFunc(after, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.watched, name)
		t.spawn(func() {
			ctx, cancel := t.bounded()
			defer cancel()
			if st, err := t.locker.Look(ctx, name, 0); err == nil && st.Reserved {
				t.mu.Lock()
				t.watch(name, st.Remaining)
				t.mu.Unlock()
			}
		})
	})
}

// begin makes a batch at the end of its line. t.mu is held.
func (t *turns) begin(name string, place int64) *batch {
	b := &batch{t: t, name: name, place: place, wake: make(chan struct{}, 1)}
	rand.Read(b.value[:countAt])
	l := t.lines[name]
	if l == nil {
		l = &line{name: name}
		t.lines[name] = l
	}
	l.batches = append(l.batches, b)
	t.holds[HoldOf(b.value)] = b
	return b
}

// open returns the batch that takes in whoever comes now, nil when there is none. t.mu is held.
func (t *turns) open(name string) *batch {
	l := t.lines[name]
	if l == nil {
		return nil
	}
	last := l.batches[len(l.batches)-1]
	switch {
	case last.followed || last.phase == over:
		return nil
	case last.phase == holding && len(last.waiters) == 0 && !time.Now().Before(last.until):
		// It is remembered, and its lease is gone.
		last.end()
		return nil
	}
	return last
}

// queued is how many wait here for a lease. t.mu is held.
func (t *turns) queued(name string) int {
	n := 0
	if l := t.lines[name]; l != nil {
		for _, b := range l.batches {
			n += len(b.waiters)
		}
	}
	return n
}

// later is when a batch looks again how it stands.
func (t *turns) later(sent time.Time, st Standing) time.Time {
	most := lookEvery
	if !t.isHeard() {
		most = lookUnheard
	}
	wait := st.Remaining
	if (st.Value == fence.Digest{}) {
		wait = lookUnheard
	}
	if wait > most || wait > math.MaxInt64/2 {
		wait = most
	}
	return sent.Add(wait + time.Millisecond + mathrand.N(10*time.Millisecond))
}
