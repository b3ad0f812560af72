package lease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// take gets the turn for an acquire that has read its floor, waiting for it if the acquire does. Without an error it
// returns nil when another copy of the acquire was granted meanwhile.
func (t *turns) take(ctx context.Context, a *acquire) (*turn, error) {
	t.listen()
	if a.waits {
		t.hear(ctx, a.over)
		t.ask(ctx, a.cert.Lease)
	}
	w := &waiter{acquire: a.cert.Acquire, holder: a.cert.Holder, ttl: a.cert.TTL, since: time.Now(), told: make(chan outcome, 1)}
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, closing(a.cert.Lease)
	}
	if a.waits {
		if n := t.queued(a.cert.Lease); n >= t.config.MaxQueue || t.waiting >= t.config.MaxWaiting {
			t.mu.Unlock()
			return nil, full(a.cert.Lease, n)
		}
		if b := t.open(a.cert.Lease); b != nil {
			b.join(w)
			t.mu.Unlock()
			return w.await(ctx, a)
		}
	}
	b := t.begin(a.cert.Lease, 0)
	b.inline = true
	b.join(w)
	e := b.entry()
	t.mu.Unlock()
	if !a.waits {
		e.Waiters, e.Note = 0, ""
	}
	sent := time.Now()
	st, err := t.locker.Enter(ctx, a.cert.Lease, e)
	t.suspect(a.newest, a.cert.Lease, st)
	return t.taken(ctx, a, b, w, e, sent, st, err)
}

// ask learns how the hold of a lease stands behind which nobody waits here yet. What came between may not have been told, and
// whoever joins it comes before everybody that stands behind it elsewhere.
func (t *turns) ask(ctx context.Context, name string) {
	t.mu.Lock()
	b := t.open(name)
	if b == nil || b.phase != holding || len(b.waiters) > 0 {
		t.mu.Unlock()
		return
	}
	e := b.entry()
	t.mu.Unlock()
	sent := time.Now()
	st, err := t.locker.Stay(ctx, name, e)
	if err != nil {
		return // the next call will say so
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if b.phase == holding && len(b.waiters) == 0 {
		b.stands(e, sent, st)
	}
}

// taken is what an inline entry has led to.
func (t *turns) taken(ctx context.Context, a *acquire, b *batch, w *waiter, e Entry, sent time.Time, st Standing, err error) (*turn, error) {
	t.mu.Lock()
	b.inline = false
	switch {
	case t.closed:
		b.leave(w)
		b.doubt = b.doubt || err != nil
		b.fail(closing(b.name))
		d := b.debt()
		t.mu.Unlock()
		_ = t.giveUp(d)
		return nil, closing(b.name)
	case err != nil && ctx.Err() != nil && len(b.waiters) > 1:
		// Others have joined, and go on with the same value.
		b.doubt = true
		b.leave(w)
		b.tend()
		t.mu.Unlock()
		return nil, a.cancelled(ctx.Err())
	case err != nil:
		err = fmt.Errorf("take lease %s: %w", b.name, coded(err))
		b.leave(w)
		b.fail(err)
		// It may have arrived, or still do.
		if fence.CodeOf(err) != fence.CodeRateLimited {
			t.owe(debt{name: b.name, value: b.value, unconfirmed: true})
		}
		t.mu.Unlock()
		return nil, err
	case !a.waits && (st.Value != b.value || st.Reserved):
		b.leave(w)
		// Others may have joined meanwhile: they wait.
		if len(b.waiters) > 0 {
			b.tend()
		} else {
			b.end()
		}
		t.mu.Unlock()
		return nil, a.heldBy(st, 0, 0)
	}
	b.entered(e, sent, st, firstOf(a.newest))
	b.noted = time.Time{}
	if b.phase == holding {
		t.supersede(b)
	}
	// Whoever has the lease now was noted as one that waits for it.
	if len(b.waiters) > 0 || b.notedWaiters > 0 {
		b.tend()
	}
	t.mu.Unlock()
	return w.await(ctx, a)
}

// supersede ends what is remembered of holds that the new one shows to be over. t.mu is held.
func (t *turns) supersede(b *batch) {
	for _, o := range slices.Clone(t.lines[b.name].batches) {
		if o == b {
			return
		}
		if o.phase == holding {
			o.forfeit()
		}
	}
}

// await waits for the outcome.
func (w *waiter) await(ctx context.Context, a *acquire) (*turn, error) {
	t := a.m.turns
	over := time.NewTimer(time.Until(a.over))
	defer over.Stop()
	if !a.waits {
		o := <-w.told // it was told already
		return o.turn, o.err
	}
	var late <-chan time.Time = over.C
	for {
		select {
		case o := <-w.told:
			return o.turn, o.err
		case <-late:
			if value, at, waiting, left := t.withdraw(w); left {
				return nil, a.tooLate(ctx, value, at, waiting)
			}
			late = nil // it is told
		case <-ctx.Done():
			if _, _, _, left := t.withdraw(w); left {
				return nil, a.cancelled(ctx.Err())
			}
			o := <-w.told
			switch {
			case o.turn != nil && a.generated:
				return nil, a.undo(ctx, o.turn, a.cancelled(ctx.Err()))
			case o.turn != nil:
				o.turn.pass()
				fallthrough
			case o.err == nil:
				return nil, a.cancelled(ctx.Err())
			}
			return nil, o.err
		}
	}
}

// withdraw takes a waiter out of its batch, and tells the batch's value, where it stood in it, counted from 0, and among how
// many here.
func (t *turns) withdraw(w *waiter) (value fence.Digest, at, waiting int, left bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	value = w.batch.value
	at = slices.Index(w.batch.waiters, w)
	waiting = t.queued(w.batch.name)
	return value, at, waiting, w.batch.leave(w)
}

// tooLate is the answer to who has waited as long as he would.
func (a *acquire) tooLate(ctx context.Context, value fence.Digest, at, here int) error {
	const seen = 200 // entries; those behind count as one each
	st, err := a.m.locker.Look(ctx, a.cert.Lease, seen)
	if err != nil {
		return a.heldBy(Standing{}, at+1, max(here, at+1))
	}
	if newest, err := a.m.ledger.Newest(ctx, a.cert.Lease); err == nil {
		a.newest = newest
		a.m.turns.suspect(newest, a.cert.Lease, st)
	}
	ahead, waiting, passed := 0, st.Behind, SameHold(st.Value, value)
	if !passed {
		ahead = st.Behind
	}
	for _, q := range st.Queue {
		if passed = passed || SameHold(q.Value, value); !passed {
			ahead += q.Waiters
		}
		waiting += q.Waiters
	}
	rest := max(0, st.Entries-len(st.Queue))
	if waiting += rest; !passed {
		ahead += rest
	}
	return a.heldBy(st, ahead+at+1, max(waiting, ahead+at+1))
}

// heldBy refuses an acquire because somebody else holds the lease.
func (a *acquire) heldBy(st Standing, position, waiting int) error {
	e := &fence.Error{
		Code: fence.CodeLeaseHeld, Lease: a.cert.Lease, Holder: st.Holder, Remaining: st.Remaining, Queue: position, Waiting: waiting,
	}
	if g := a.newest; g != nil {
		e.First = g.First()
		if g.Hold == st.Value && g.Ended == "" {
			e.Holder = g.Holder
		}
	}
	switch {
	case (st.Value == fence.Digest{}):
		e.Message = fmt.Sprintf("lease %s was not free in time", a.cert.Lease)
	default:
		e.Message = fmt.Sprintf("lease %s is held by %s for another %v", a.cert.Lease, e.Holder, st.Remaining.Round(time.Millisecond))
	}
	return e
}

func full(name string, n int) error {
	e := fence.Errorf(fence.CodeRateLimited, "as many as may wait for lease %s here do so already (%d)", name, n)
	e.Lease, e.Waiting = name, n
	return e
}

// granted makes the turn a tenancy that began at since. Releases that waited for it are done, and other copies of the
// same acquire learn of the grant.
func (t *turn) granted(g *fence.Grant, since time.Time) {
	b := t.batch
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	if t.leaving != nil && t.leaving.first != t.floor {
		// Somebody else was granted the lease before: the released grant was lost.
		t.leaving.settle(notHanded)
	} else {
		t.leaving.settle(sealed)
	}
	if b.phase == over || b.turn != t {
		return
	}
	b.turn = nil
	if t.ended == g.First() {
		// Somebody has ended it already.
		b.unproved = true
		d, over := b.leaveOrTendLocked()
		if over {
			b.t.owe(d)
		}
		return
	}
	b.tenant = &tenant{
		id: fence.IDDigest(g.ID), principal: g.Principal, acquire: g.Acquire, holder: g.Holder, first: g.First(), deadline: since.Add(g.TTL),
	}
	for _, o := range b.t.lines[b.name].batches {
		for i := 0; i < len(o.waiters); {
			w := o.waiters[i]
			if w.acquire != g.Acquire {
				i++
				continue
			}
			o.leave(w)
			w.told <- outcome{}
		}
	}
	if len(b.waiters) > 0 || b.pushed {
		b.tend()
	} else if !b.tended {
		b.startClock()
	}
}

// pass gives the turn on: to the next, or back to the locker.
func (t *turn) pass() {
	b := t.batch
	b.t.mu.Lock()
	if t.unknown {
		t.leaving.settle(maybeSealed)
	} else {
		t.leaving.settle(notHanded)
	}
	if b.phase == over || b.turn != t {
		b.t.mu.Unlock()
		return
	}
	b.turn, b.unproved = nil, true
	b.leaveOrTend()
}

// leaveOrTend hands a lease that nobody has on to the next, or gives it back. t.mu is held; it is not afterwards.
func (b *batch) leaveOrTend() error {
	d, left := b.leaveOrTendLocked()
	b.t.mu.Unlock()
	if !left {
		return nil
	}
	return b.t.giveUp(d)
}

// leaveOrTendLocked is the part of it for which t.mu is held: what is to be given up if nobody is next.
func (b *batch) leaveOrTendLocked() (d debt, left bool) {
	if len(b.waiters) > 0 {
		b.tend()
		return debt{}, false
	}
	b.end()
	return b.debt(), true
}

// lasts says until when the lease runs at least.
func (t *turn) lasts(until time.Time) {
	t.t.mu.Lock()
	defer t.t.mu.Unlock()
	t.batch.lasts(until)
}

// lost ends a batch whose lease was lost while it was certified. w, if there is one, waits on, before all others in it.
func (t *turn) lost(w *waiter) *waiter {
	b := t.batch
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	t.leaving.settle(notHanded)
	t.leaving = nil
	n := b
	for n.phase == over && n.next != nil {
		n = n.next
	}
	switch {
	case w != nil && b.t.closed:
		w.batch = b
		w.told <- outcome{err: closing(b.name)}
	case w == nil && n == b && n.phase != over:
		n.forfeit()
	case w == nil:
	case n.phase == over || n.phase == holding && n != b:
		n = b.t.begin(b.name, max(1, b.place))
		n.join(w)
	default:
		w.batch = n
		n.waiters = slices.Insert(n.waiters, 0, w)
		b.t.waiting++
		if n == b {
			n.turn = nil
			n.lose()
		} else {
			n.tend()
		}
	}
	return w
}
