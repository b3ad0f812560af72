package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Acquire takes a lease and returns the grant with its ID. While somebody else holds the lease it waits for as long
// as the request says, in the order in which they came to all gateways; then it is CodeLeaseHeld with the holder, the remaining
// time and where it stood. A repetition of an acquire by its AcquireID returns the same grant; with another holder or TTL it is
// CodeInvalidRequest, after the grant has ended CodeGrantEnded. CodeRateLimited when as many wait as may.
//
// When ctx is cancelled while it waits it leaves the queue at once. What begins with getting the lease is finished all the
// same. CodeOutcomeUnknown may leave a grant behind for a client that gave an AcquireID: repeating settles it.
//
// The grant's Remaining can be 0: the ledger was slow, and the lease could not be extended. The grant was made all
// the same; whether its tokens are good is decided where they are spent.
func (m *Manager) Acquire(ctx context.Context, r Request) (*Held, error) {
	r, generated, err := r.complete()
	if err != nil {
		return nil, err
	}
	over := time.Now().Add(r.Wait)
	a := &acquire{
		m: m,
		cert: fence.Certificate{
			Lease:     r.Name,
			Principal: r.Principal,
			Holder:    r.Holder,
			Acquire:   fence.AcquireDigest(r.Principal, r.AcquireID),
			TTL:       r.TTL,
		},
		generated: generated,
		waits:     r.Wait > 0,
		over:      over,
		limit:     over.Add(m.config.CertifyTimeout),
	}
	return a.run(ctx)
}

// acquire is one call of Acquire.
type acquire struct {
	m    *Manager
	cert fence.Certificate
	// generated tells that no client knows the acquire id, so that nobody can repeat the acquire.
	generated bool
	// waits tells that it waits while somebody else holds the lease, until over; limit is when contending for certificates ends.
	waits       bool
	over, limit time.Time
	// newest is the newest grant as it stood before the lease was asked for.
	newest *fence.Grant
	// granted tells that a grant was made, or may have been.
	granted bool
}

func (a *acquire) run(ctx context.Context) (*Held, error) {
	retry, voids := a.m.backoff(), 0
	for {
		if err := a.readFloor(ctx); err != nil {
			return nil, err
		}
		if held, err := a.resume(ctx); held != nil || err != nil {
			return held, err
		}
		t, err := a.m.turns.take(ctx, a)
		if err != nil {
			return nil, err
		}
		if t == nil {
			continue // another copy of this acquire was granted
		}
		for t != nil {
			g, err := a.certify(ctx, t)
			if err == nil {
				return a.deliver(ctx, g, t)
			}
			if !errors.Is(err, fence.ErrVoid) && fence.CodeOf(err) != fence.CodeContention {
				return nil, a.undo(ctx, t, err)
			}
			if errors.Is(err, fence.ErrVoid) {
				a.m.void.Add(1)
			}
			if voids++; voids >= a.m.config.MaxVoid || !time.Now().Before(a.limit) {
				return nil, a.undo(ctx, t, a.contention(voids, err))
			}
			if err := sleep(a.bound(ctx), retry.next()); err != nil {
				return nil, a.undo(ctx, t, a.cancelled(err))
			}
			if t, err = a.prove(ctx, t); err != nil {
				return nil, err
			}
		}
	}
}

// readFloor reads the newest grant, before the lease is taken (I4), and refuses what the ledger would refuse.
func (a *acquire) readFloor(ctx context.Context) (err error) {
	if a.newest, err = a.m.ledger.Newest(ctx, a.cert.Lease); err != nil {
		return fmt.Errorf("read the floor of lease %s: %w", a.cert.Lease, coded(err))
	}
	a.m.turns.notice(a.newest)
	return a.refuse(a.newest)
}

// refuse is what the ledger would answer to a certificate of this acquire, told before a lease is taken for it.
func (a *acquire) refuse(newest *fence.Grant) error {
	switch {
	case newest == nil || newest.Acquire != a.cert.Acquire:
		return nil
	case newest.Ended != "":
		return refusal(fence.CodeGrantEnded, newest, "the grant of this acquire was %s; an acquire id is for one attempt", endedHow(newest))
	case newest.Holder != a.cert.Holder:
		return refusal(fence.CodeInvalidRequest, newest, "the acquire is repeated with holder %q, it was made with %q", a.cert.Holder, newest.Holder).In("holder")
	case newest.TTL != a.cert.TTL:
		return refusal(fence.CodeInvalidRequest, newest, "the acquire is repeated with ttl %v, it was made with %v", a.cert.TTL, newest.TTL).In("ttl")
	}
	return nil
}

// endedHow says in a sentence why a grant ended.
func endedHow(g *fence.Grant) string {
	if g.Ended == fence.EndAdvanced {
		return "ended by a ledger advance"
	}
	return g.Ended
}

// resume returns the grant that this acquire was given before, if it holds its lease still.
func (a *acquire) resume(ctx context.Context) (*Held, error) {
	g := a.newest
	if g == nil || g.Acquire != a.cert.Acquire {
		return nil, nil
	}
	sent := time.Now()
	st, err := a.m.locker.Look(ctx, a.cert.Lease, 0)
	if err != nil {
		return nil, fmt.Errorf("look at lease %s: %w", a.cert.Lease, coded(err))
	}
	if st.Value != g.Hold || st.Reserved {
		return nil, nil
	}
	// Only the ledger knows the id.
	again, err := a.certify(ctx, &turn{value: g.Hold, floor: g.First()})
	switch {
	case errors.Is(err, fence.ErrVoid):
		return nil, nil // granted to somebody else just now: it has to be had anew
	case err != nil:
		return nil, err
	}
	return &Held{Grant: *again, Remaining: max(0, a.m.turns.left(again, st)-time.Since(sent))}, nil
}

// certify asks for the grant, whether the caller still waits or not: half a grant would help nobody.
func (a *acquire) certify(ctx context.Context, t *turn) (*fence.Grant, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.m.config.CertifyTimeout)
	defer cancel()
	c := a.cert
	c.Floor, c.Hold, c.Local, c.Handed = t.floor, t.value, t.local, t.handed
	a.granted = true
	var g *fence.Grant
	err := a.m.settle(ctx, func() (err error) {
		g, err = a.m.ledger.Certify(ctx, c)
		return unknownIfCut(err)
	})
	switch {
	case err == nil:
		return g, nil
	case fence.CodeOf(err) == fence.CodeOutcomeUnknown:
		t.unknown = true
		code, after := fence.CodeUnavailable, "what may have been granted was taken back"
		if !a.generated {
			code, after = fence.CodeOutcomeUnknown, "repeating with the same acquire id settles it"
		}
		e := fence.Wrap(code, err, "the ledger did not say whether it granted lease %s; %s", a.cert.Lease, after)
		e.Lease = a.cert.Lease
		return nil, e
	}
	a.granted = false
	return nil, fmt.Errorf("certify lease %s: %w", a.cert.Lease, err)
}

// bound is the context on which a void certificate is retried: the caller's, unless it can come back for the grant.
func (a *acquire) bound(ctx context.Context) context.Context {
	if a.generated {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// prove reads the floor anew, then proves that the lease is still held: after a void certificate. It returns nil when the
// lease is lost, and the acquire has to wait again.
func (a *acquire) prove(ctx context.Context, t *turn) (*turn, error) {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.m.config.CertifyTimeout)
	defer cancel()
	if err := a.readFloor(detached); err != nil {
		return nil, a.undo(ctx, t, err)
	}
	st, sent, err := t.goOn(detached, a.extension(t))
	switch {
	case err != nil:
		return nil, a.undo(ctx, t, fmt.Errorf("extend lease %s: %w", a.cert.Lease, coded(err)))
	case st.Value != fence.Digest{}:
		floor := firstOf(a.newest)
		t.handed = t.handed && t.floor == floor // else it is somebody else's grant that comes before
		t.value, t.floor, t.local, t.since = st.Value, floor, false, sent
		return t, nil
	case !a.waits:
		t.lost(nil)
		return nil, nil
	}
	return t.lost(&waiter{acquire: a.cert.Acquire, holder: a.cert.Holder, ttl: a.cert.TTL, since: time.Now(), told: make(chan outcome, 1)}).
		await(ctx, a)
}

func (a *acquire) extension(t *turn) Extension {
	return Extension{Value: t.value, TTL: a.cert.TTL, Tenant: a.cert.Acquire, Holder: a.cert.Holder, Waiters: KeepWaiters}
}

// deliver returns the grant, unless nobody is there to take it.
func (a *acquire) deliver(ctx context.Context, g *fence.Grant, t *turn) (*Held, error) {
	if err := ctx.Err(); err != nil && a.generated {
		return nil, a.undo(ctx, t, a.cancelled(err))
	}
	since := t.since
	if time.Since(since) >= a.cert.TTL {
		since = a.prolong(ctx, t)
	}
	t.granted(g, since)
	return &Held{Grant: *g, Remaining: max(0, a.cert.TTL-time.Since(since))}, nil
}

// prolong extends a lease that ran out, or nearly, while the ledger certified it. It returns from when on it runs, which is
// long ago when the lease is lost.
func (a *acquire) prolong(ctx context.Context, t *turn) time.Time {
	ctx, cancel := a.m.cleanup(ctx)
	defer cancel()
	sent := time.Now()
	st, err := a.m.locker.Extend(ctx, a.cert.Lease, a.extension(t))
	if err != nil || st.Value != t.value {
		return t.since
	}
	t.lasts(sent.Add(a.cert.TTL))
	return sent
}

func (a *acquire) contention(voids int, cause error) error {
	e := fence.Wrap(fence.CodeContention, cause, "lease %s was granted to others %d times while this acquire was certified", a.cert.Lease, voids)
	e.Lease = a.cert.Lease
	return e
}

func (a *acquire) cancelled(cause error) error {
	e := fence.Wrap(fence.CodeUnavailable, cause, "the acquire was given up before lease %s was granted", a.cert.Lease)
	e.Lease = a.cert.Lease
	return e
}
