package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// stateTimeout bounds the look at a resource whose refusal does not tell its state yet.
const stateTimeout = time.Second

// stated completes a refusal about a resource that was found before anybody looked at the resource (no token, a
// malformed body): every answer tells the mark and the lease, so that nobody has to guess which one to acquire. Where
// the state cannot be read the refusal goes as it is.
func stated[T any](mark func(context.Context, T) (fence.State, error), h func(http.ResponseWriter, *http.Request, T) error) func(http.ResponseWriter, *http.Request, T) error {
	return func(w http.ResponseWriter, r *http.Request, name T) error {
		return lookedUp(r, h(w, r, name), name, mark)
	}
}

// lookedUp is stated for an error that is there.
func lookedUp[T any](r *http.Request, err error, name T, mark func(context.Context, T) (fence.State, error)) error {
	if err == nil {
		return nil
	}
	e, coded := errors.AsType[*fence.Error](err)
	if !coded || e.State != nil || !tellsState(e.Code) {
		return err
	}
	ctx, cancel := detached(r, stateTimeout)
	defer cancel()
	s, stateErr := mark(ctx, name)
	if stateErr != nil {
		return err
	}
	e.State = &s
	return err
}

// tellsState reports whether a refusal may disclose the resource's state, and whether there is one to be had.
func tellsState(c fence.Code) bool {
	switch c {
	case fence.CodeUnauthenticated, fence.CodeForbidden, fence.CodeNotFound, fence.CodeUnavailable, fence.CodeOverloaded, fence.CodeOutcomeUnknown:
		return false
	}
	return true
}
