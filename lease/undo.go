package lease

import (
	"context"
	"errors"

	"github.com/fencegate/fencegate/fence"
)

// undo takes back what an acquire that fails with cause may have been granted, passes its turn on, and returns cause. What is
// undone outlives the caller. First the grant ends: in the other order a successor could have a lease while the grant lives.
func (a *acquire) undo(ctx context.Context, t *turn, cause error) error {
	if a.granted && a.takesBack(cause) {
		ctx, cancel := a.m.cleanup(ctx)
		defer cancel()
		// By its hold, too: a copy of this acquire may have been given the grant with a lease of its own.
		by := fence.GrantRef{Acquire: a.cert.Acquire, Hold: t.value}
		_, _ = a.m.end(ctx, a.cert.Lease, by, fence.Ending{Why: fence.EndAbandoned})
	}
	t.pass()
	return cause
}

// takesBack tells whether a grant that may have been made ends with the acquire. Repeated by a client that knows its acquire
// id it is found; nobody else knows one that was generated.
func (a *acquire) takesBack(cause error) bool {
	switch fence.CodeOf(cause) {
	case fence.CodeUnavailable, fence.CodeOverloaded, fence.CodeOutcomeUnknown, fence.CodeInvalidRequest:
		return a.generated
	}
	return true
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
