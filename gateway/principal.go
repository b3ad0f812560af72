package gateway

import (
	"context"
	"net/http"

	"github.com/fencegate/fencegate/fence"
)

// callerOf returns the authenticated caller, nil before authentication.
func callerOf(ctx context.Context) Caller { return exchangeOf(ctx).caller }

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
		switch {
		case err != nil && isCoded(err):
			return err
		case err != nil:
			return fence.Wrap(fence.CodeUnauthenticated, err, "the credentials are missing or not valid")
		case caller == nil || caller.Principal() == "":
			return fence.Errorf(fence.CodeUnauthenticated, "the credentials name nobody")
		}
		exchangeOf(r.Context()).caller = caller
		next.ServeHTTP(w, r)
		return nil
	})
}
