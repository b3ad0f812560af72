package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/fencegate/fencegate/fence"
)

type callerKey struct{}

// callerOf returns the authenticated caller, nil before authentication.
func callerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// principalOf returns the caller's name, empty before authentication.
func principalOf(ctx context.Context) string {
	if c := callerOf(ctx); c != nil {
		return c.Principal()
	}
	return ""
}

// authenticated lets nobody through whom Authenticate does not name.
func (g *Gateway) authenticated(next http.Handler) http.Handler {
	return g.handle(func(w http.ResponseWriter, r *http.Request) error {
		caller, err := g.cfg.Authenticate(r)
		var coded *fence.Error
		switch {
		case err != nil && errors.As(err, &coded):
			return err
		case err != nil:
			return fence.Wrap(fence.CodeUnauthenticated, err, "the credentials are missing or not valid")
		case caller == nil || caller.Principal() == "":
			return fence.Errorf(fence.CodeUnauthenticated, "the credentials name nobody")
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
		return nil
	})
}
