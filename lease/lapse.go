package lease

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// startClock ends the memory of a batch with nobody behind once its tenant's time is over. t.mu is held.
func (b *batch) startClock() {
	switch {
	case b.tenant == nil || b.t.closed:
		return
	case len(b.t.holds) > maxHolds && !b.pushed:
		b.end()
		return
	}
	left := time.Until(b.tenant.deadline) + time.Millisecond
	if b.clock == nil {
		b.clock = time.AfterFunc(left, b.lapse)
	} else {
		b.clock.Reset(left)
	}
}

// lapse is the end of a lease that was not released here. If the locker lets it run for longer than its holder has it,
// which it does once others waited behind him or a renewal came late, it is given back.
func (b *batch) lapse() {
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	who := b.tenant
	switch {
	case b.phase != holding || b.tended || who == nil || b.t.closed:
		return
	case who.renewals > 0:
		return // its end starts the clock
	case time.Now().Before(who.deadline):
		b.startClock()
		return
	}
	b.end()
	b.t.spawn(func() { b.lapsed(who) })
}

// lapsed gives back what is left of a lease, and has the ledger note that it has run out.
func (b *batch) lapsed(who *tenant) {
	select {
	case b.t.expiring <- struct{}{}:
		defer func() { <-b.t.expiring }()
	case <-b.t.ctx.Done():
		return
	}
	ctx, cancel := b.t.bounded()
	defer cancel()
	st, err := b.t.locker.Look(ctx, b.name, 0)
	switch {
	case err != nil, st.Value == b.value && st.Renewed > 0 && st.Tenant == who.acquire:
		return
	case st.Value == b.value && st.Remaining > grain:
		_ = b.t.giveUp(debt{name: b.name, value: b.value})
	case st.Value == b.value:
		_ = sleep(ctx, st.Remaining) // it ends by itself
	}
	if n, ok := b.t.ledger.(ExpiryNoter); ok {
		_, _ = n.NoteExpiry(ctx, b.name, who.first) // else it is told when the next grant is made
	}
}

// ExpiryNoter is a Ledger that records that a lease ran out before anybody else is granted it, and tells whether that is news.
type ExpiryNoter interface {
	NoteExpiry(ctx context.Context, lease string, first fence.Token) (noted bool, err error)
}
