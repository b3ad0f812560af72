package lease

import (
	"time"

	"github.com/fencegate/fencegate/fence"
)

// release hands the lease of a grant on to the next that waits here, if one does: his grant seals the released one, so that
// one commit does for both. It returns nil when the release has to end the grant itself.
func (t *turns) release(ref Ref) *handover {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.tenancy(ref)
	if b == nil || len(b.waiters) == 0 || b.pushed || b.unproved || t.closed {
		return nil
	}
	b.leaving = &handover{first: b.tenant.first, done: make(chan handed, 1)}
	h := b.leaving
	b.vacate()
	if !b.handOn(time.Now()) {
		b.tend()
	}
	return h
}

// tenancy finds the batch whose lease was granted under this id. t.mu is held.
func (t *turns) tenancy(ref Ref) *batch {
	l := t.lines[ref.Name]
	if l == nil {
		return nil
	}
	id := fence.IDDigest(ref.ID)
	for _, b := range l.batches {
		if b.phase == holding && b.tenant != nil && b.tenant.id == id && b.tenant.principal == ref.Principal {
			return b
		}
	}
	return nil
}

// notice ends a tenancy whose grant the ledger shows to have ended: elsewhere, where this gateway could not be told, or by
// an advance.
func (t *turns) notice(g *fence.Grant) {
	if g == nil || g.Ended == "" {
		return
	}
	t.mu.Lock()
	b := t.holds[HoldOf(g.Hold)]
	known := b != nil && b.tenant != nil && b.tenant.first == g.First()
	t.mu.Unlock()
	if known {
		_ = t.freed(g)
	}
}

// freed gives back the lease of a grant that has ended or was superseded: to the next that waits here, else to the locker.
func (t *turns) freed(g *fence.Grant) error {
	t.mu.Lock()
	b := t.holds[HoldOf(g.Hold)]
	switch {
	case b == nil:
		t.mu.Unlock()
		return t.giveUp(debt{name: g.Lease, value: g.Hold})
	case b.tenant != nil && b.tenant.first == g.First():
		b.vacate()
		b.unproved = true
	case b.busy():
		// The same hold is another's by now, or the grant was made just now.
		if b.turn != nil {
			b.turn.ended = max(b.turn.ended, g.First())
		}
		t.mu.Unlock()
		return nil
	}
	return b.leaveOrTend()
}

// left is how long a grant's lease, as it stands, runs for the one who has the grant. For others who wait behind him it runs
// longer.
func (t *turns) left(g *fence.Grant, st Standing) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.holds[HoldOf(g.Hold)]; b != nil && b.tenant != nil && b.tenant.first == g.First() {
		return min(st.Remaining, time.Until(b.tenant.deadline))
	}
	if st.Tenant == g.Acquire && st.Renewed > 0 {
		return min(st.Remaining, st.Renewed)
	}
	return max(0, st.Remaining-slack(g.TTL))
}

// underway is a renewal of a grant, of which this gateway may know.
type underway struct {
	t   *turns
	b   *batch
	who *tenant
	// ttl is what the lease is extended by: longer than asked if others wait behind.
	ttl, asked time.Duration
}

// renew begins a renewal. It is false when the lease was handed on here already.
func (t *turns) renew(g *fence.Grant, ttl time.Duration) (underway, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := underway{t: t, ttl: ttl, asked: ttl}
	b := t.holds[HoldOf(g.Hold)]
	switch {
	case b == nil:
		return r, true
	case b.tenant == nil || b.tenant.first != g.First():
		return r, b.turn == nil && b.tenant == nil && len(b.waiters) == 0
	}
	r.b, r.who = b, b.tenant
	r.who.renewals++
	if len(b.waiters) > 0 {
		r.ttl += slack(ttl)
	}
	return r, true
}

// done ends the renewal that was sent at a moment.
func (r underway) done(sent time.Time, ok bool) {
	if r.b == nil {
		return
	}
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	r.who.renewals--
	if r.b.phase == over || r.b.tenant != r.who {
		return
	}
	if ok {
		r.who.deadline = sent.Add(r.asked)
		r.b.lasts(sent.Add(r.ttl))
	}
	if len(r.b.waiters) > 0 {
		r.b.tend()
	} else if !r.b.tended {
		r.b.startClock()
	}
}
