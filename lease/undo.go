package lease

import (
	"context"
	"errors"

	"github.com/fencegate/fencegate/fence"
)

// undo takes back what an acquire that fails with cause may have left, and returns cause. What is undone outlives
// the caller.
func (a *acquire) undo(ctx context.Context, cause error) error {
	if !a.taken {
		return cause
	}
	switch fence.CodeOf(cause) {
	case fence.CodeGrantEnded:
		a.drop(ctx)
		return cause
	case fence.CodeUnavailable, fence.CodeOverloaded, fence.CodeOutcomeUnknown, fence.CodeInvalidRequest:
		// Repeated, the acquire finds its lease. An invalid repetition must not cost its first copy the lease.
		if !a.generated {
			return cause
		}
	}
	a.abandon(ctx)
	return cause
}

// abandon ends whatever grant the acquire was given, then drops the lease. In the other order a successor could
// take a lease whose grant lives.
func (a *acquire) abandon(ctx context.Context) {
	// Another copy of an acquire that a client can repeat may have been granted; nobody else knows a generated id.
	if a.granted || !a.generated {
		ctx, cancel := a.m.cleanup(ctx)
		defer cancel()
		_, err := a.m.end(ctx, a.cert.Lease, fence.GrantRef{Acquire: a.cert.Acquire}, fence.Ending{Why: fence.EndAbandoned})
		if err != nil && fence.CodeOf(err) != fence.CodeLeaseLost && !a.generated {
			return
		}
	}
	a.drop(ctx)
}

// drop gives the lease back. A lease that cannot be reached waits out its TTL.
func (a *acquire) drop(ctx context.Context) {
	ctx, cancel := a.m.cleanup(ctx)
	defer cancel()
	_, _ = a.m.locker.Drop(ctx, a.cert.Lease, a.cert.Acquire)
}

// coded gives a bare context error, of a locker or ledger that was cut short, its code.
func coded(err error) error {
	if fence.CodeOf(err) == fence.CodeInternal && cut(err) {
		return fence.Wrap(fence.CodeUnavailable, err, "no answer in time")
	}
	return err
}

// unknownIfCut is coded for a call that may have taken effect.
func unknownIfCut(err error) error {
	if fence.CodeOf(err) == fence.CodeInternal && cut(err) {
		return fence.Wrap(fence.CodeOutcomeUnknown, err, "no answer in time")
	}
	return err
}

func cut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// refusal makes an Error that describes the grant it was held against.
func refusal(code fence.Code, g *fence.Grant, format string, args ...any) *fence.Error {
	e := fence.Errorf(code, format, args...)
	e.Lease, e.First, e.Holder, e.Ended, e.EndedBy = g.Lease, g.First(), g.Holder, g.Ended, g.EndedBy
	return e
}
