package lease

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// extend makes the lease run long enough for the next.
func (b *batch) extend(ctx context.Context) {
	b.t.mu.Lock()
	x, ok := b.extension()
	b.t.mu.Unlock()
	if !ok {
		return
	}
	sent := time.Now()
	st, err := b.t.locker.Extend(ctx, b.name, x)
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	switch {
	case b.phase == over:
	case err != nil:
		b.wait()
	case st.Value != b.value:
		b.forfeit()
	default:
		b.extended(sent, x, st)
		if !b.busy() && !b.unproved && !b.pushed && len(b.waiters) > 0 && b.waiters[0].ttl <= x.TTL {
			b.hand(sent, true)
		}
	}
}

func (b *batch) extended(sent time.Time, x Extension, st Standing) {
	b.retry = nil
	b.noted, b.notedWaiters = sent, x.Waiters
	b.lasts(sent.Add(x.TTL))
	b.followed = b.followed || st.Followed
}

// extension is what makes the lease run for the next, longer if others wait behind him. t.mu is held.
func (b *batch) extension() (Extension, bool) {
	if len(b.waiters) == 0 {
		return Extension{}, false
	}
	w := b.waiters[0]
	x := Extension{Value: b.value, TTL: w.ttl, Tenant: w.acquire, Holder: w.holder, Waiters: len(b.waiters) - 1}
	if len(b.waiters) > 1 {
		x.TTL = min(x.TTL+slack(w.ttl), MaxTTL)
	}
	return x, true
}

// prove claims a lease that is reserved for the batch, or proves that its hold still stands after something came between. The
// floor is read first (I4).
func (b *batch) prove(ctx context.Context) {
	newest, err := b.t.ledger.Newest(ctx, b.name)
	if err != nil {
		b.failed()
		return
	}
	b.t.mu.Lock()
	// The lease was given up for him, if there is one.
	b.tenant = nil
	x, ok := b.extension()
	b.t.mu.Unlock()
	if !ok {
		return
	}
	st, sent, err := b.goOn(ctx, x)
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	switch {
	case b.phase == over:
		b.t.spawn(func() { b.giveUp(b.t.ctx) })
	case err != nil:
		b.wait()
	case st.Value != b.value && b.phase == holding:
		b.forfeit()
	case st.Value != b.value:
		b.phase, b.pushed = entering, false
	default:
		b.phase, b.pushed = holding, false
		b.extended(sent, x, st)
		b.floor, b.unproved = firstOf(newest), false
		if !b.busy() && len(b.waiters) > 0 && b.waiters[0].ttl <= x.TTL {
			b.hand(sent, false)
		}
	}
}

// goOn extends the lease under the next value of the hold, which is the batch's then, and tells when that was asked. Standing.Value
// is zero if the lease is lost.
func (b *batch) goOn(ctx context.Context, x Extension) (st Standing, sent time.Time, err error) {
	const (
		tries = 3   // the hold has another value than was thought after an answer that was lost, or a drop by another gateway
		most  = 100 // values that went unanswered are remembered
	)
	for range tries {
		b.t.mu.Lock()
		b.count++
		x.Value, x.Next = b.value, withCount(b.value, b.count)
		b.t.mu.Unlock()
		sent = time.Now()
		if st, err = b.t.locker.Extend(ctx, b.name, x); err != nil {
			b.t.mu.Lock()
			b.unanswered = append(b.unanswered[max(0, len(b.unanswered)-most):], x.Next)
			b.cutOff = true
			b.t.mu.Unlock()
			return st, sent, err
		}
		ours := SameHold(st.Value, x.Value)
		// A drop by another gateway reserves the lease for the same next value.
		won := st.Value == x.Next && !st.Reserved
		b.t.mu.Lock()
		// It is known again under which value the hold stands, if it does.
		if b.unanswered = nil; !ours {
			b.t.mu.Unlock()
			break
		}
		b.value, b.count = st.Value, max(b.count, countOf(st.Value))
		// A look may have met the lease under its next value, before this answer came.
		b.pushed = b.pushed && !won
		if won {
			b.until = sent.Add(x.TTL)
		}
		b.t.mu.Unlock()
		if won {
			return st, sent, nil
		}
	}
	st.Value = fence.Digest{}
	return st, sent, nil
}
