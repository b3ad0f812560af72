package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Acquire takes a lease and returns the grant with its ID. While somebody else holds the lease it waits for as long
// as the request says, then it is CodeLeaseHeld with the holder and the remaining time. A repetition of an acquire by
// its AcquireID returns the same grant; with another holder or TTL it is CodeInvalidRequest, after the grant has
// ended CodeGrantEnded.
//
// What begins with taking the lease is finished even when ctx is cancelled. CodeUnavailable may leave a lease behind,
// and CodeOutcomeUnknown a grant, for a client that gave an AcquireID: repeating settles it.
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
	// over is when waiting for a holder ends, limit when contending for certificates ends.
	over, limit time.Time
	// taken tells that the lease was ours, or may have been: giving up has something to undo.
	taken bool
	// granted tells that a grant was made, or may have been.
	granted bool
	// waits tells that it is counted among those that wait.
	waits bool
}

// taking is the locker's answer to a take, and when it was asked.
type taking struct {
	Holding
	sent time.Time
	// newest is the newest grant as it stood before the lease was asked for.
	newest *fence.Grant
}

func (a *acquire) run(ctx context.Context) (*Held, error) {
	defer a.uncount()
	poll, retry := a.m.backoff(), a.m.backoff()
	for voids := 0; ; {
		t, err := a.take(ctx)
		if err != nil {
			return nil, a.undo(ctx, err)
		}
		if t.Value != a.cert.Acquire {
			if a.dropEnded(ctx, t) {
				continue
			}
			if err := a.await(ctx, t.Holding, poll); err != nil {
				return nil, a.undo(ctx, err)
			}
			continue
		}
		g, err := a.certify(ctx)
		if err == nil {
			return a.deliver(ctx, g, t)
		}
		if !errors.Is(err, fence.ErrVoid) && fence.CodeOf(err) != fence.CodeContention {
			return nil, a.undo(ctx, err)
		}
		if errors.Is(err, fence.ErrVoid) {
			a.m.void.Add(1)
		}
		if voids++; voids >= a.m.config.MaxVoid || !time.Now().Before(a.limit) {
			return nil, a.undo(ctx, a.contention(voids, err))
		}
		if err := sleep(a.bound(ctx), retry.next()); err != nil {
			return nil, a.undo(ctx, a.cancelled(err))
		}
	}
}

// take reads the floor and takes the lease, in this order (I4). After a void certificate the take is the proof that
// the lease is still ours.
func (a *acquire) take(ctx context.Context) (taking, error) {
	if a.taken {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), a.m.config.CertifyTimeout)
		defer cancel()
	}
	newest, err := a.m.ledger.Newest(ctx, a.cert.Lease)
	if err != nil {
		return taking{}, fmt.Errorf("read the floor of lease %s: %w", a.cert.Lease, coded(err))
	}
	if err := a.refuse(newest); err != nil {
		return taking{}, err
	}
	a.cert.Floor = 0
	if newest != nil {
		a.cert.Floor = newest.First()
	}
	sent := time.Now()
	h, err := a.m.locker.Take(ctx, a.cert.Lease, Holding{Value: a.cert.Acquire, Holder: a.cert.Holder, Remaining: a.cert.TTL})
	if err != nil {
		// The take may have arrived.
		a.taken = true
		return taking{}, fmt.Errorf("take lease %s: %w", a.cert.Lease, coded(err))
	}
	a.taken = a.taken || h.Value == a.cert.Acquire
	return taking{h, sent, newest}, nil
}

// refuse is what the ledger would answer to a certificate of this acquire, told before a lease is taken for it.
func (a *acquire) refuse(newest *fence.Grant) error {
	switch {
	case newest == nil || newest.Acquire != a.cert.Acquire:
		return nil
	case newest.Ended != "":
		a.taken = true
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

// dropEnded removes a lease that is held by an acquire whose grant has ended, and reports whether it did: the locker could
// not be told of the end, or the ledger was advanced. Its successor need not wait out the TTL.
//
// It is safe because that acquire can be granted nothing while its ended grant is the newest: nobody loses a lease
// that he could use. Should the acquire id be used again, after another grant, between the look at the ledger and the
// drop, a lease goes early, as if the locker had lost it. I4 does not rest on the locker keeping anything: this acquire
// starts again from a new floor, then takes the lease.
func (a *acquire) dropEnded(ctx context.Context, t taking) bool {
	if t.newest == nil || t.newest.Ended == "" || t.newest.Acquire != t.Value {
		return false
	}
	dropped, err := a.m.locker.Drop(ctx, a.cert.Lease, t.Value)
	return err == nil && dropped
}

// await pauses before the next look at a lease that somebody else holds.
func (a *acquire) await(ctx context.Context, h Holding, poll *backoff) error {
	left := time.Until(a.over)
	if left <= 0 {
		return &fence.Error{
			Code:      fence.CodeLeaseHeld,
			Message:   fmt.Sprintf("lease %s is held by %s for another %v", a.cert.Lease, h.Holder, h.Remaining.Round(time.Millisecond)),
			Lease:     a.cert.Lease,
			First:     a.cert.Floor,
			Holder:    h.Holder,
			Remaining: h.Remaining,
		}
	}
	if !a.waits {
		a.waits = true
		a.m.waiting.Add(1)
	}
	if err := sleep(ctx, min(left, max(h.Remaining, time.Millisecond), poll.next())); err != nil {
		return a.cancelled(err)
	}
	return nil
}

// certify asks for the grant, whether the caller still waits or not: half a grant would help nobody.
func (a *acquire) certify(ctx context.Context) (*fence.Grant, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.m.config.CertifyTimeout)
	defer cancel()
	a.granted = true
	var g *fence.Grant
	err := a.m.settle(ctx, func() (err error) {
		g, err = a.m.ledger.Certify(ctx, a.cert)
		return unknownIfCut(err)
	})
	switch {
	case err == nil:
		return g, nil
	case fence.CodeOf(err) == fence.CodeOutcomeUnknown:
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

// deliver returns the grant, unless nobody is there to take it.
func (a *acquire) deliver(ctx context.Context, g *fence.Grant, t taking) (*Held, error) {
	if err := ctx.Err(); err != nil && a.generated {
		return nil, a.undo(ctx, a.cancelled(err))
	}
	left := t.Remaining - time.Since(t.sent)
	if left <= 0 {
		left = a.prolong(ctx)
	}
	return &Held{Grant: *g, Remaining: left}, nil
}

// prolong extends a lease that ran out, or nearly, while the ledger certified it. It returns 0 when the lease is lost.
func (a *acquire) prolong(ctx context.Context) time.Duration {
	ctx, cancel := a.m.cleanup(ctx)
	defer cancel()
	sent := time.Now()
	ours, err := a.m.locker.Extend(ctx, a.cert.Lease, a.cert.Acquire, a.cert.TTL)
	if err != nil || !ours {
		return 0
	}
	return max(0, a.cert.TTL-time.Since(sent))
}

func (a *acquire) uncount() {
	if a.waits {
		a.m.waiting.Add(-1)
	}
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
