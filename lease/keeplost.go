package lease

import (
	"errors"
	"fmt"

	"github.com/fencegate/fencegate/fence"
)

// ErrReleased is the cause with which the context of a Kept ends that was closed in time.
var ErrReleased = errors.New("the lease was released")

// Loss is why a lease that was kept is kept no more.
type Loss string

// The ways in which a lease ends before it is closed.
const (
	// LossExpired is a lease that ran out, or may have, without a renewal that failed: the process or the machine was
	// paused, or the locker lost the lease.
	LossExpired Loss = "expired"
	// LossTaken is a lease that was granted to somebody else since.
	LossTaken Loss = "taken"
	// LossEnded is a grant that was released or broken.
	LossEnded Loss = "ended"
	// LossUnknown is a lease that could not be renewed before it may have run out: the service did not answer.
	LossUnknown Loss = "unknown"
	// LossMaxHold and LossStalled are the Keeper's own doing: the longest hold was reached, or the worker made no progress.
	LossMaxHold Loss = "max-hold"
	LossStalled Loss = "stalled"
)

// LostError is the cause with which the context of a Kept ends when its lease is lost, or as good as lost. It wraps a
// *fence.Error of CodeLeaseLost, and that the error of the renewal that failed last, if any.
type LostError struct {
	Lease string
	Loss  Loss
	// Holder is who was granted the lease since, where that is known.
	Holder string
	// Why is why the grant ended, and By the principal that broke it (LossEnded).
	Why, By string
	// Err is the refusal of a renewal, or stands for it.
	Err error
}

func (e *LostError) Error() string {
	text := "lease " + e.Lease
	switch e.Loss {
	case LossExpired:
		return text + " has run out, or may have"
	case LossTaken:
		if e.Holder == "" {
			return text + " was granted to somebody else"
		}
		return text + " was granted to " + e.Holder
	case LossEnded:
		text += " has ended"
		if e.Why != "" {
			text += ": " + e.Why
		}
		if e.By != "" {
			text += " (by " + e.By + ")"
		}
		return text
	case LossMaxHold:
		return text + " was held for as long as it may be"
	case LossStalled:
		return text + " is kept no longer for a worker that makes no progress"
	case LossUnknown:
	}
	text += " could not be renewed before it may have run out"
	if cause := errors.Unwrap(e.Err); cause != nil {
		text += ": " + cause.Error()
	}
	return text
}

func (e *LostError) Unwrap() error { return e.Err }

// lostBy makes the loss of a refusal to renew the grant that begins with first.
func lostBy(name string, first fence.Token, refusal error) *LostError {
	lost := &LostError{Lease: name, Loss: LossExpired, Err: refusal}
	var e *fence.Error
	switch {
	case !errors.As(refusal, &e):
	case e.First != 0 && first != 0 && e.First != first:
		lost.Loss, lost.Holder = LossTaken, e.Holder
	case e.Ended != "":
		lost.Loss, lost.Why, lost.By = LossEnded, e.Ended, e.EndedBy
	}
	return lost
}

// lostAs makes a loss that no refusal told of.
func lostAs(name string, loss Loss, cause error) *LostError {
	return &LostError{Lease: name, Loss: loss, Err: fence.Wrap(fence.CodeLeaseLost, cause, "lease %s is kept no more (%s)", name, loss)}
}

// lossOf returns the loss in err, nil if there is none.
func lossOf(err error) *LostError {
	var lost *LostError
	errors.As(err, &lost)
	return lost
}

// unlessHeld adds a loss to the error of work that was done under a lease.
func unlessHeld(err, loss error) error {
	switch {
	case loss == nil:
		return err
	case err == nil:
		return loss
	case lossOf(err) != nil:
		return err
	}
	return fmt.Errorf("%w: %w", loss, err)
}
