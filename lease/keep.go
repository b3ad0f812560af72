package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Leases gives out leases: a *Manager in this process, or the client of a gateway.
type Leases interface {
	Acquire(ctx context.Context, r Request) (*Held, error)
	Renew(ctx context.Context, ref Ref, ttl time.Duration) (*Held, error)
	More(ctx context.Context, ref Ref) (*Held, error)
	Release(ctx context.Context, ref Ref) error
}

var _ Leases = (*Manager)(nil)

// Keeper acquires leases and keeps them: it renews them while somebody works under them, and ends the work's context
// before the lease can have run out. It is a plain value; one serves a whole program.
//
// What it says of time saves work and gives no safety: a holder that is paused between its last look and its write is
// refused by the fence, not by a Keeper.
type Keeper struct {
	// Leases is required.
	Leases Leases
	// Principal is who acquires. A gateway knows its callers and ignores it. Defaults to "anonymous".
	Principal string
	// Holder is a name for people. Defaults to the principal.
	Holder string
	// TTL is how long a lease outlives a holder that has gone silent. Defaults to 30 s.
	TTL time.Duration
	// Wait is how long to wait for a lease that somebody else holds. Defaults to 0.
	Wait time.Duration
	// MaxHold is the longest that a lease is kept. Then it is renewed no more and the context ends; Close gives it back, or
	// it runs out. Defaults to 0, without a limit.
	MaxHold time.Duration
	// StallAfter ends the context, and the renewals, when Kept.Beat was not called for that long: a worker that makes no
	// progress does not keep others waiting. Defaults to 0, never.
	StallAfter time.Duration
	// ReleaseTimeout bounds the release of a lease, which the end of the caller's context does not stop. Defaults to 5 s.
	ReleaseTimeout time.Duration
	// Hooks are told what becomes of the leases. Defaults to nobody.
	Hooks Hooks

	// now is a clock that counts time asleep. Tests have their own.
	now func() time.Duration
}

// Hooks are told what happens, for metrics; NoHooks does nothing and is there to be embedded. They are called on the
// goroutine to which it happens, several at once, and must not block.
type Hooks interface {
	// Acquired is told of each acquire, how long it took (waiting included), and its error.
	Acquired(lease string, took time.Duration, err error)
	// Renewed is told of each renewal.
	Renewed(lease string, took time.Duration, err error)
	// Lost is told once of each lease that ended before it was closed. The cause is a *LostError.
	Lost(lease string, cause error)
	// Requested is told by a client of each request to its gateway: what was asked ("leases.acquire", "rows.patch", …).
	Requested(what string, took time.Duration, err error)
}

// NoHooks are hooks that do nothing.
type NoHooks struct{}

// Acquired does nothing.
func (NoHooks) Acquired(string, time.Duration, error) {}

// Renewed does nothing.
func (NoHooks) Renewed(string, time.Duration, error) {}

// Lost does nothing.
func (NoHooks) Lost(string, error) {}

// Requested does nothing.
func (NoHooks) Requested(string, time.Duration, error) {}

func (k Keeper) withDefaults() Keeper {
	k.Principal = cmp.Or(k.Principal, "anonymous")
	k.ReleaseTimeout = cmp.Or(k.ReleaseTimeout, 5*time.Second)
	if k.Hooks == nil {
		k.Hooks = NoHooks{}
	}
	if k.now == nil {
		k.now = newClock()
	}
	return k
}

func (k Keeper) validate() error {
	switch {
	case k.Leases == nil:
		return errors.New("lease: a Keeper needs Leases")
	case k.MaxHold < 0, k.StallAfter < 0, k.ReleaseTimeout < 0:
		return errors.New("lease: a Keeper's time is negative")
	}
	return nil
}

// Keep acquires a lease and keeps it with the defaults of a Keeper.
func Keep(ctx context.Context, leases Leases, name string) (*Kept, error) {
	return Keeper{Leases: leases}.Keep(ctx, name)
}

// Keep acquires a lease and keeps it until Close. Its errors are those of Acquire, or a *LostError when the lease was lost
// as soon as it was had. The Kept's context is derived from ctx: when that is over the lease is renewed no more.
func (k Keeper) Keep(ctx context.Context, name string) (*Kept, error) {
	k = k.withDefaults()
	if err := k.validate(); err != nil {
		return nil, err
	}
	began, sent := time.Now(), k.now()
	h, err := k.Leases.Acquire(ctx, Request{Name: name, Principal: k.Principal, Holder: k.Holder, TTL: k.TTL, Wait: k.Wait})
	k.Hooks.Acquired(name, time.Since(began), err)
	if err != nil {
		return nil, err
	}
	kept := k.hold(ctx, h)
	kept.anchor(sent, h)
	// An acquire that waited does not tell when the lease began to run, and a repeated one may find a lease that has run
	// for long.
	return kept.start(ctx, kept.next.Load() <= int64(k.now()))
}

// Adopt keeps a lease that was acquired otherwise: by Acquire, or by another process that handed on the grant's name and
// ID (nothing else need be known). It is renewed before Adopt returns; a lease that cannot be is released. Tokens knows
// nothing of those that others have spent.
func (k Keeper) Adopt(ctx context.Context, h *Held) (*Kept, error) {
	k = k.withDefaults()
	if err := k.validate(); err != nil {
		return nil, err
	}
	return k.hold(ctx, h).start(ctx, true)
}

// hold makes a Kept that has no deadline yet.
func (k Keeper) hold(ctx context.Context, h *Held) *Kept {
	kept := &Kept{
		keeper: k,
		parent: ctx,
		ref:    Ref{Name: h.Lease, Principal: cmp.Or(h.Principal, k.Principal), ID: h.ID},
		ttl:    cmp.Or(k.TTL, h.TTL, DefaultTTL),
		stop:   make(chan struct{}),
		done:   make(chan struct{}),
		since:  k.now(),
		began:  time.Now(),
		grant:  h.Grant,
	}
	inner, cancel := context.WithCancelCause(ctx)
	kept.ctx, kept.cancel = &keptContext{inner, kept}, cancel
	kept.deadline.Store(int64(kept.since + kept.ttl)) // it runs no longer than that
	kept.tokens = newTokens(k.Leases, kept.ref, kept.Err, inner.Done())
	return kept
}

// start begins to keep the lease, once it is proven to run where that is asked for.
func (k *Kept) start(ctx context.Context, prove bool) (*Kept, error) {
	err := context.Cause(ctx)
	if err == nil && prove {
		err = k.prove(ctx)
	}
	if err == nil {
		err = k.Err()
	}
	if err != nil {
		close(k.done)
		// It runs out by itself if it cannot be released.
		_ = k.Close()
		return nil, err
	}
	k.tokens.add(k.grant.Blocks)
	k.tokens.skip(k.Token())
	go k.watch()
	return k, nil
}

// prove renews the lease, for as long as it can be running.
func (k *Kept) prove(ctx context.Context) error {
	k.deadline.Store(int64(k.since + k.ttl))
	for {
		r := k.renew(ctx, k.keeper.now())
		k.note(r)
		if r.err == nil || k.Err() != nil {
			return nil // start looks
		}
		if !k.pause(ctx, time.Duration(min(k.next.Load(), k.deadline.Load()))-k.keeper.now()) {
			return fmt.Errorf("keep lease %s: %w", k.ref.Name, context.Cause(ctx))
		}
	}
}

// pause reports whether it was not cut short.
func (k *Kept) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// release gives the lease back, repeating for as long as it may take.
func (k *Kept) release() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.parent), k.keeper.ReleaseTimeout)
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		err := k.keeper.Leases.Release(ctx, k.ref)
		code := fence.CodeOf(err)
		switch {
		case err == nil, code == fence.CodeLeaseLost:
			return nil
		case !code.Retryable() || !k.pause(ctx, wait):
			return fmt.Errorf("release lease %s, which now runs out by itself: %w", k.ref.Name, err)
		}
	}
}
