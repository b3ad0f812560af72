package lease

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fencegate/fencegate/fence"
)

const (
	// renewedAt is the part of the TTL after which a lease is renewed, marginOf the part by which the local deadline comes
	// before the end: clocks may run at rates that differ by that, and a worker needs a moment to stop.
	renewedAt = 3
	marginOf  = 20
	// One renewal may take a part of the TTL, so that a service that hangs leaves time for another try.
	triedFor    = 5
	longestTry  = 10 * time.Second
	longestWait = 30 * time.Second
	// glance is how long the clock is not looked at: Go's timers are late after the machine slept.
	glance = time.Second
)

// renewal is what came of one.
type renewal struct {
	sent time.Duration
	held *Held
	err  error
}

// watch renews the lease and looks at the clock until the context has ended.
func (k *Kept) watch() {
	defer close(k.done)
	var underWay chan renewal
	timer := time.NewTimer(0)
	defer timer.Stop()
	for k.goOn() {
		now := k.keeper.now()
		if underWay == nil && now >= time.Duration(k.next.Load()) {
			underWay = k.beginRenewal()
		}
		timer.Reset(k.untilNext(now, underWay != nil))
		select {
		case r := <-underWay:
			underWay = nil
			k.note(r)
		case <-timer.C:
		case <-k.ctx.Done():
		case <-k.stop:
		}
	}
	if underWay != nil {
		k.note(<-underWay)
	}
}

// goOn reports whether the lease is to be kept on, and ends the context if it is not.
func (k *Kept) goOn() bool {
	if k.Err() != nil {
		return false
	}
	c := k.keeper
	switch {
	case c.MaxHold > 0 && c.now()-k.since >= c.MaxHold:
		k.lose(lostAs(k.ref.Name, LossMaxHold, nil))
	case c.StallAfter > 0 && k.silent() >= c.StallAfter:
		k.lose(lostAs(k.ref.Name, LossStalled, nil))
	default:
		return true
	}
	return false
}

func (k *Kept) silent() time.Duration { return time.Since(k.began) - time.Duration(k.beat.Load()) }

// untilNext is how long there is nothing to do but wait.
func (k *Kept) untilNext(now time.Duration, renewing bool) time.Duration {
	d := min(glance, time.Duration(k.deadline.Load())-now)
	if !renewing {
		d = min(d, time.Duration(k.next.Load())-now)
	}
	if k.keeper.MaxHold > 0 {
		d = min(d, k.keeper.MaxHold-(now-k.since))
	}
	if k.keeper.StallAfter > 0 {
		d = min(d, k.keeper.StallAfter-k.silent())
	}
	return max(d, time.Millisecond)
}

// beginRenewal starts one on a goroutine that watch waits for; nil once the Kept is being closed.
func (k *Kept) beginRenewal() chan renewal {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	done := make(chan renewal, 1)
	// Read here: the anchor must not be later than the request.
	sent := k.keeper.now()
	go func() { done <- k.renew(context.WithoutCancel(k.parent), sent) }()
	return done
}

// renew asks once. sent is a reading of the clock from before.
func (k *Kept) renew(ctx context.Context, sent time.Duration) renewal {
	left := time.Duration(k.deadline.Load()) - sent
	ctx, cancel := context.WithTimeout(ctx, max(time.Millisecond, min(k.ttl/triedFor, longestTry, left)))
	defer cancel()
	began := time.Now()
	h, err := k.keeper.Leases.Renew(ctx, k.ref, k.ttl)
	k.keeper.Hooks.Renewed(k.ref.Name, time.Since(began), err)
	return renewal{sent, h, err}
}

// note draws the conclusions of a renewal.
func (k *Kept) note(r renewal) {
	k.mu.Lock()
	k.failure = r.err
	if r.err == nil {
		k.fails = 0
		if len(r.held.Blocks) > 0 {
			k.grant = r.held.Grant
			k.grant.ID, k.grant.Principal = k.ref.ID, k.ref.Principal
		}
	} else {
		k.fails++
	}
	fails, first := k.fails, fence.Token(0)
	if len(k.grant.Blocks) > 0 {
		first = k.grant.First()
	}
	k.mu.Unlock()
	now := k.keeper.now()
	switch {
	case r.err == nil:
		k.anchor(r.sent, r.held)
		k.tokens.add(r.held.Blocks)
		// A service that is so slow that no lease is young when it is renewed is not asked without a pause.
		k.next.Store(max(k.next.Load(), int64(now+k.ttl/marginOf)))
	case fence.CodeOf(r.err) == fence.CodeLeaseLost:
		k.lose(lostBy(k.ref.Name, first, r.err))
	default:
		k.next.Store(int64(now + k.backOff(fails, r.err)))
	}
}

// anchor sets the deadline of a lease that was acquired or renewed by a request sent at that time: the service extended it
// later than that. A lease that runs for less than it should, as that of a repeated acquire can, is renewed sooner.
func (k *Kept) anchor(sent time.Duration, h *Held) {
	runs := min(k.ttl, max(0, h.Remaining))
	k.deadline.Store(int64(sent + runs - k.ttl/marginOf))
	k.next.Store(int64(sent + runs - k.ttl + k.ttl/renewedAt))
}

// backOff is the pause behind a renewal that failed. It doubles up to a tenth of the TTL, so that there are some tries
// left before the end whatever the service asks for.
func (k *Kept) backOff(fails int, err error) time.Duration {
	most := min(k.ttl/10, longestWait)
	pause := min(most, k.ttl/60<<min(fails-1, 4))
	var e *fence.Error
	if errors.As(err, &e) && e.Remaining > pause {
		pause = min(most, e.Remaining)
	}
	pause = cmp.Or(pause, time.Millisecond)
	return pause/2 + rand.N(pause/2+1)
}
