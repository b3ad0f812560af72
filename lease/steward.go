package lease

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// steward does what the batch needs done in the locker while somebody waits in it, one thing at a time.
func (b *batch) steward() {
	for {
		b.t.mu.Lock()
		step, until, done := b.plan(time.Now())
		if done {
			b.tended = false
		}
		b.t.mu.Unlock()
		switch {
		case step != nil:
			ctx, cancel := b.t.bounded()
			step(ctx)
			cancel()
			continue
		case done:
			return
		}
		b.rest(until)
	}
}

// rest waits until a moment, or until it is nudged.
func (b *batch) rest(until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.wake:
	}
}

// plan says what to do now, else until when there is nothing to do, or that there is nothing left to do.
func (b *batch) plan(now time.Time) (step func(context.Context), until time.Time, done bool) {
	switch {
	case b.phase == over:
		return nil, now, true
	case b.t.closed && b.busy():
		// The lease runs out by itself, unless its holder renews it elsewhere.
		for len(b.waiters) > 0 {
			b.tell(outcome{err: closing(b.name)})
		}
		return nil, now, true
	case b.t.closed, len(b.waiters) == 0 && !b.busy():
		b.fail(closing(b.name))
		return b.giveUp, now, false
	case now.Before(b.pause):
		return nil, b.pause, false
	case b.cutOff && b.turn == nil:
		return b.look, now, false
	case b.pushed && b.turn == nil:
		return b.prove, now, false
	case b.phase == entering:
		return b.enter, now, false
	}
	due, noting := b.noteDue()
	if noting && !now.Before(due) || len(b.waiters) > 0 && !now.Before(b.lookAt) {
		return b.look, now, false
	}
	until = b.lookAt
	if noting {
		until = earlier(due, until)
	}
	switch {
	case b.phase == queued:
		return nil, until, false
	case len(b.waiters) == 0 && noting:
		return nil, due, false
	case len(b.waiters) == 0:
		b.startClock()
		return nil, now, true
	case b.turn != nil:
		return nil, until, false
	case b.tenant != nil && b.tenant.renewals > 0:
		return nil, until, false
	case b.tenant != nil && now.Before(b.tenant.deadline):
		return nil, earlier(until, b.tenant.deadline), false
	case b.tenant != nil:
		return b.expire, now, false
	case b.unproved:
		return b.prove, now, false
	case b.handOn(now):
		return nil, until, false
	}
	return b.extend, now, false
}

// noteDue tells when the locker has to be told how many wait, if it has: at once that somebody waits at all, since a lease that is
// given up through another gateway would pass him by.
func (b *batch) noteDue() (time.Time, bool) {
	if b.notedWaiters == 0 && len(b.waiters) > 0 {
		return time.Time{}, true
	}
	return b.noted.Add(noteEvery), b.notedWaiters != len(b.waiters)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// giveUp gives back what the batch has in the locker.
func (b *batch) giveUp(context.Context) {
	b.t.mu.Lock()
	d := b.debt()
	b.t.mu.Unlock()
	_ = b.t.giveUp(d)
}

// enter takes the lease, or a stand in its queue. The floor is read first (I4).
func (b *batch) enter(ctx context.Context) {
	newest, err := b.t.ledger.Newest(ctx, b.name)
	if err != nil {
		b.failed()
		return
	}
	b.t.mu.Lock()
	e := b.entry()
	b.t.mu.Unlock()
	sent := time.Now()
	st, err := b.t.locker.Enter(ctx, b.name, e)
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	switch {
	case b.phase == over:
		b.t.spawn(func() { b.giveUp(b.t.ctx) })
	case fence.CodeOf(err) == fence.CodeRateLimited:
		b.fail(err)
	case err != nil:
		b.doubt = true
		b.wait()
	default:
		b.entered(e, sent, st, firstOf(newest))
	}
}

// entered is what an entry has led to. t.mu is held.
func (b *batch) entered(e Entry, sent time.Time, st Standing, floor fence.Token) {
	b.heard(e, sent, st)
	b.doubt = false
	switch {
	case st.Value == b.value && st.Reserved:
		b.phase, b.pushed = queued, true
	case st.Value == b.value:
		b.notedWaiters = max(0, e.Waiters-1)
		b.phase, b.floor, b.unproved, b.until = holding, floor, false, sent.Add(st.Remaining)
		// Of a lease that it had taken before, its answer lost, less is left. Lockers count in milliseconds at worst.
		if missing := e.TTL - st.Remaining; missing < grain && len(b.waiters) > 0 && b.waiters[0].ttl <= e.TTL {
			b.hand(sent.Add(-max(0, missing)), false)
		}
	case st.Place > 0:
		b.phase, b.lookAt = queued, b.t.later(sent, st)
	default:
		b.wait()
	}
}

// heard keeps what any answer about the entry says.
func (b *batch) heard(e Entry, sent time.Time, st Standing) {
	b.noted, b.notedWaiters, b.retry = sent, e.Waiters, nil
	b.lookAt = sent.Add(lookEvery)
	b.followed = b.followed || st.Followed
	if st.Place > 0 {
		b.place = st.Place
	}
}

// look tells the locker how many wait and learns how the batch stands.
func (b *batch) look(ctx context.Context) {
	b.t.mu.Lock()
	e := b.entry()
	late := !time.Now().Before(b.lookAt)
	b.t.mu.Unlock()
	sent := time.Now()
	st, err := b.t.locker.Stay(ctx, b.name, e)
	b.t.mu.Lock()
	switch {
	case b.phase == over:
	case err != nil:
		b.wait()
	default:
		b.stands(e, sent, st)
	}
	b.t.mu.Unlock()
	if late && err == nil {
		b.checkHolder(ctx, st)
	}
}

// checkHolder looks, now and then, whether the grant for which the lease is held has ended without the locker being told.
func (b *batch) checkHolder(ctx context.Context, st Standing) {
	if newest, err := b.t.ledger.Newest(ctx, b.name); err == nil {
		b.t.notice(newest)
		b.t.suspect(newest, b.name, st)
	}
}

// stands is what a look has led to. It reports whether the lease is still held. t.mu is held.
func (b *batch) stands(e Entry, sent time.Time, st Standing) bool {
	b.heard(e, sent, st)
	b.cutOff = false
	switch {
	case e.Value != b.value:
		// The answer was overtaken.
	case SameHold(st.Value, b.value) && (st.Value != b.value || st.Reserved || b.phase != holding):
		// Also a claim or a proof whose answer was lost.
		b.reserved(st.Value)
	case st.Value == b.value:
		b.until = sent.Add(st.Remaining)
		return true
	case b.phase == holding:
		b.forfeit()
	case st.Place > 0:
		b.phase, b.lookAt = queued, b.t.later(sent, st)
	default:
		// Passed over, or forgotten by the locker.
		b.phase = entering
	}
	return false
}

// forfeit ends a batch whose lease is lost. t.mu is held.
func (b *batch) forfeit() {
	if len(b.waiters) > 0 {
		b.lose()
	} else {
		b.end()
	}
}

// expire ends a tenancy whose time is over, unless it was renewed through another gateway.
func (b *batch) expire(ctx context.Context) {
	b.t.mu.Lock()
	e, who := b.entry(), b.tenant
	b.t.mu.Unlock()
	sent := time.Now()
	st, err := b.t.locker.Stay(ctx, b.name, e)
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	switch {
	case b.phase == over:
	case err != nil:
		b.wait()
	case !b.stands(e, sent, st) || who == nil || b.tenant != who || who.renewals > 0:
	case st.Renewed > 0 && st.Tenant == who.acquire:
		who.deadline = sent.Add(st.Renewed)
	default:
		b.vacate()
	}
}

// wait pauses after an error. A release does not wait for it. t.mu is held.
func (b *batch) wait() {
	b.leaving.settle(notHanded)
	b.leaving = nil
	if b.retry == nil {
		b.retry = &backoff{pause: b.t.config.PollMin, most: b.t.config.PollMax}
	}
	b.pause = time.Now().Add(b.retry.next())
}

func (b *batch) failed() {
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	b.wait()
}

func firstOf(g *fence.Grant) fence.Token {
	if g == nil {
		return 0
	}
	return g.First()
}

func closing(name string) error {
	e := fence.Errorf(fence.CodeUnavailable, "this gateway stops; lease %s may be had from another", name)
	e.Lease = name
	return e
}
