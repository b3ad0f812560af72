package lease

import (
	"github.com/fencegate/fencegate/fence"
)

// maxSuspects bounds how many leases are suspected at once.
const maxSuspects = 1000

// suspect takes a lease away that is still held, after a while, for a grant that has ended: the locker could not be told, or the
// ledger was advanced. Its successor need not wait out the TTL. So it does with a lease that is held for no grant: who took it
// has gone, or does not know that he has it, when it takes him longer than any certificate does.
//
// It is safe: a grant that comes after one that has ended has another value, and so has one that is proved. I4 does not rest
// on the locker keeping anything.
func (t *turns) suspect(newest *fence.Grant, name string, st Standing) {
	after := suspicion
	switch {
	case (st.Value == fence.Digest{}), st.Reserved:
		return
	case newest != nil && newest.Hold == st.Value && newest.Ended == "":
		return
	case newest == nil || newest.Hold != st.Value:
		after += t.config.CertifyTimeout
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.suspects[name] || t.closed || len(t.suspects) >= maxSuspects {
		return
	}
	t.suspects[name] = true
	t.spawn(func() {
		_ = sleep(t.ctx, after)
		t.mu.Lock()
		delete(t.suspects, name)
		t.mu.Unlock()
		ctx, cancel := t.bounded()
		defer cancel()
		if again, err := t.locker.Look(ctx, name, 0); err != nil || again.Value != st.Value || again.Reserved {
			return
		}
		g, err := t.ledger.Newest(ctx, name)
		if err == nil && (g == nil || g.Hold != st.Value || g.Ended != "") {
			_ = t.giveUp(debt{name: name, value: st.Value})
		}
	})
}
