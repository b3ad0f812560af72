package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Renew lets the lease run for ttl from now; 0 means the grant's own TTL. It never takes a lease that was lost, and
// it asks the ledger before and after: a locker on the losing side of a split would renew the lease of a grant that
// was superseded elsewhere. CodeLeaseLost when the grant is not the newest, has ended, or does not hold its lease.
func (m *Manager) Renew(ctx context.Context, ref Ref, ttl time.Duration) (*Held, error) {
	if err := ref.check(); err != nil {
		return nil, err
	}
	if ttl != 0 {
		if err := checkTTL(ttl); err != nil {
			return nil, err
		}
	}
	g, err := m.held(ctx, ref)
	if err != nil {
		return nil, err
	}
	if ttl == 0 {
		ttl = g.TTL
	}
	r, ok := m.turns.renew(g, ttl)
	if !ok {
		return nil, expired(g)
	}
	sent := time.Now()
	st, err := m.locker.Extend(ctx, ref.Name, Extension{Value: g.Hold, TTL: r.ttl, Tenant: g.Acquire, Holder: g.Holder, Waiters: KeepWaiters})
	ours := err == nil && st.Value == g.Hold
	r.done(sent, ours)
	if err != nil {
		return nil, fmt.Errorf("extend lease %s: %w", ref.Name, coded(err))
	}
	if !ours {
		return nil, expired(g)
	}
	after, err := m.held(ctx, ref)
	if err != nil {
		if fence.CodeOf(err) == fence.CodeLeaseLost {
			m.undoRenewal(ctx, g)
		}
		return nil, err
	}
	renewed := held(after, ref, ttl-time.Since(sent))
	renewed.TTL = ttl
	return renewed, nil
}

// More adds a block of tokens to a grant whose lease still runs, else it is CodeLeaseLost.
func (m *Manager) More(ctx context.Context, ref Ref) (*Held, error) {
	if err := ref.check(); err != nil {
		return nil, err
	}
	g, err := m.held(ctx, ref)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	standing, err := m.locker.Look(ctx, ref.Name, 0)
	if err != nil {
		return nil, fmt.Errorf("look at lease %s: %w", ref.Name, coded(err))
	}
	if standing.Value != g.Hold || standing.Reserved {
		return nil, expired(g)
	}
	g, err = m.ledger.More(ctx, ref.Name, ref.grant())
	if err != nil {
		return nil, m.lost(ctx, ref.Name, fmt.Errorf("add tokens to lease %s: %w", ref.Name, unknownIfCut(err)))
	}
	return held(g, ref, m.turns.left(g, standing)-time.Since(sent)), nil
}

// Release ends the grant, so that its tokens are void when it returns, and gives the lease back. It is finished even
// when ctx is cancelled. Releasing again is no error while the grant is the newest of its lease; then it is
// CodeLeaseLost. CodeUnavailable when the grant has ended but the locker could not be told, CodeOutcomeUnknown when the
// ledger did not say in time what became of it.
func (m *Manager) Release(ctx context.Context, ref Ref) error {
	if err := ref.check(); err != nil {
		return err
	}
	if h := m.turns.release(ref); h != nil {
		ctx, cancel := m.cleanup(ctx)
		defer cancel()
		became := maybeSealed
		select {
		case became = <-h.done:
		case <-ctx.Done():
		}
		if became == sealed {
			return nil
		}
		err := m.finish(ctx, ref.Name, ref.grant(), fence.Ending{Why: fence.EndReleased})
		if became == maybeSealed && fence.CodeOf(err) == fence.CodeLeaseLost {
			return fence.Wrap(fence.CodeOutcomeUnknown, err, "the grant of lease %s is void; whether by this release or before it is not known", ref.Name)
		}
		return err
	}
	return m.finish(ctx, ref.Name, ref.grant(), fence.Ending{Why: fence.EndReleased})
}

// Break ends somebody else's grant and removes its lease, for a reason that is kept with the grant as is the principal by
// that breaks it. A grant that has ended already keeps its reason. CodeNotFound when the lease was never granted. A lease that
// turns out to be held for no grant at all is taken away once no certificate can be under way for it: after CertifyTimeout and a second.
func (m *Manager) Break(ctx context.Context, name, by, reason string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := checkReason(reason); err != nil {
		return err
	}
	why := fence.EndBroken
	if reason != "" {
		why += ": " + reason
	}
	err := m.finish(ctx, name, fence.GrantRef{Newest: true}, fence.Ending{Why: why, By: by})
	m.suspect(ctx, name)
	if fence.CodeOf(err) == fence.CodeLeaseLost {
		return notHeld(name)
	}
	return err
}

// suspect sees to it that a lease does not stay held for no grant.
func (m *Manager) suspect(ctx context.Context, name string) {
	ctx, cancel := m.cleanup(ctx)
	defer cancel()
	if st, err := m.locker.Look(ctx, name, 0); err == nil {
		if newest, err := m.ledger.Newest(ctx, name); err == nil {
			m.turns.suspect(newest, name, st)
		}
	}
}

func (m *Manager) finish(ctx context.Context, name string, by fence.GrantRef, e fence.Ending) error {
	ctx, cancel := m.cleanup(ctx)
	defer cancel()
	g, err := m.end(ctx, name, by, e)
	if err != nil {
		return m.lost(ctx, name, fmt.Errorf("end the grant of lease %s: %w", name, err))
	}
	if err := m.turns.freed(g); err != nil {
		e := fence.Wrap(fence.CodeUnavailable, err,
			"the grant of lease %s has ended, but the lease could not be given back and runs until it expires; repeating completes it", name)
		e.Lease, e.First, e.Holder = name, g.First(), g.Holder
		return e
	}
	return nil
}

// undoRenewal removes the lease of a grant that was found superseded or ended, as far as the locker can be reached, unless
// it is somebody else's by now under the same hold.
func (m *Manager) undoRenewal(ctx context.Context, g *fence.Grant) {
	ctx, cancel := m.cleanup(ctx)
	defer cancel()
	if newest, err := m.ledger.Newest(ctx, g.Lease); err == nil && newest != nil && (newest.Hold != g.Hold || newest.Acquire == g.Acquire) {
		_ = m.turns.freed(g)
	}
}

func (m *Manager) held(ctx context.Context, ref Ref) (*fence.Grant, error) {
	g, err := m.ledger.Held(ctx, ref.Name, ref.grant())
	if err != nil {
		return nil, m.lost(ctx, ref.Name, fmt.Errorf("find the grant of lease %s: %w", ref.Name, coded(err)))
	}
	return g, nil
}

// lost tells, with a lease that is lost, whose the newest grant is by now.
func (m *Manager) lost(ctx context.Context, name string, err error) error {
	if fence.CodeOf(err) != fence.CodeLeaseLost {
		return err
	}
	if g, newestErr := m.ledger.Newest(ctx, name); newestErr == nil && g != nil {
		e := refusal(fence.CodeLeaseLost, g, "%s", lostHow(g))
		e.Err = err
		return e
	}
	return err
}

// lostHow says who has the lease now, or how its last grant ended, which may be the caller's.
func lostHow(g *fence.Grant) string {
	switch {
	case g.Ended == "":
		return fmt.Sprintf("lease %s was granted to %s", g.Lease, g.Holder)
	case g.EndedBy != "":
		return fmt.Sprintf("the grant of lease %s, of %s, was %s (by %s)", g.Lease, g.Holder, endedHow(g), g.EndedBy)
	}
	return fmt.Sprintf("the grant of lease %s, of %s, was %s", g.Lease, g.Holder, endedHow(g))
}

func held(g *fence.Grant, ref Ref, left time.Duration) *Held {
	h := &Held{Grant: *g, Remaining: max(0, left)}
	h.ID = ref.ID
	return h
}

func expired(g *fence.Grant) error {
	return refusal(fence.CodeLeaseLost, g, "lease %s has expired or passed on; acquire it again", g.Lease)
}

func notHeld(name string) error {
	e := fence.Errorf(fence.CodeNotFound, "nobody holds lease %s", name)
	e.Lease = name
	return e
}
