package lease

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Kept is a lease that is kept. It must be closed. It is safe for concurrent use.
type Kept struct {
	keeper Keeper
	parent context.Context
	ref    Ref
	ttl    time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc
	tokens *Tokens

	// since is when the lease was acquired, on the keeper's clock; began is the same on Go's, which stands still while
	// the machine sleeps, as workers do.
	since time.Duration
	began time.Time
	// deadline is when the lease may have run out, next when it is to be renewed. Both are of the keeper's clock.
	deadline, next atomic.Int64
	// beat is when the worker last said that it makes progress, counted from began.
	beat atomic.Int64
	lost atomic.Bool

	stop chan struct{} // closed by Close
	done chan struct{} // closed when watch has ended, and the renewal under way with it
	once sync.Once
	err  error // of the release, set by once

	mu      sync.Mutex
	closed  bool        // guarded by mu: no renewal starts any more
	grant   fence.Grant // guarded by mu
	failure error       // guarded by mu: of the newest renewal, nil when it succeeded
	fails   int         // guarded by mu: renewals that failed since the last that succeeded
}

// Context returns the context of the work under the lease. It ends when the lease may have run out or is known to be lost
// (context.Cause is a *LostError), when the Kept is closed (ErrReleased), and with the context it is derived from. Looking
// at it looks at the clock, so that it is over at the first look after the machine slept.
func (k *Kept) Context() context.Context { return k.ctx }

// Err returns nil while the lease is certainly held, else the cause for which its context has ended.
func (k *Kept) Err() error {
	if k.ctx.Err() == nil {
		return nil
	}
	return context.Cause(k.ctx)
}

// Valid reports whether the lease is certainly held.
func (k *Kept) Valid() bool { return k.Err() == nil }

// Remaining is how long the lease is certainly held if it is renewed no more, 0 when it is not.
func (k *Kept) Remaining() time.Duration {
	if k.Err() != nil {
		return 0
	}
	return max(0, time.Duration(k.deadline.Load())-k.keeper.now())
}

// Grant returns the grant with its ID, and the blocks of tokens that are known by now.
func (k *Kept) Grant() fence.Grant {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.grant
	g.Blocks = slices.Clone(g.Blocks)
	return g
}

// Token returns the grant's first token, for work that writes each resource once. Tokens begins behind it.
func (k *Kept) Token() fence.Token {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.grant.Blocks) == 0 {
		return 0
	}
	return k.grant.First()
}

// Tokens returns the grant's other tokens, to be spent in their order, for work that writes a resource more than once.
func (k *Kept) Tokens() *Tokens { return k.tokens }

// Beat tells that the worker makes progress (Keeper.StallAfter).
func (k *Kept) Beat() { k.beat.Store(int64(time.Since(k.began))) }

// Close ends the context, waits for a renewal that is under way, and releases the lease, also when the context has ended
// before. It returns the error of the release, nil when the lease was lost before; a lease that could not be released
// runs out by itself, because it is renewed no more. Closing again returns the same.
func (k *Kept) Close() error {
	k.once.Do(func() {
		k.mu.Lock()
		k.closed = true
		k.mu.Unlock()
		k.look() // a lease that has run out is lost, not released
		k.cancel(ErrReleased)
		close(k.stop)
		k.tokens.Close()
		<-k.done
		if lost := lossOf(k.Err()); lost != nil && (lost.Loss == LossTaken || lost.Loss == LossEnded) {
			return
		}
		k.err = k.release()
	})
	return k.err
}

// look ends the context if the lease may have run out.
func (k *Kept) look() {
	if k.lost.Load() || k.keeper.now() < time.Duration(k.deadline.Load()) {
		return
	}
	k.mu.Lock()
	failure := k.failure
	k.mu.Unlock()
	loss := LossExpired
	if failure != nil {
		loss = LossUnknown
	}
	k.lose(lostAs(k.ref.Name, loss, failure))
}

// lose ends the context for good. The first loss counts, unless the context was over before.
func (k *Kept) lose(lost *LostError) {
	if !k.lost.CompareAndSwap(false, true) {
		return
	}
	k.cancel(lost)
	if context.Cause(k.ctx) == error(lost) {
		k.keeper.Hooks.Lost(k.ref.Name, lost)
	}
}
