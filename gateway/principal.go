package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/fencegate/fencegate/fence"
)

type principalKey struct{}

// principalOf returns the authenticated caller, empty before authentication.
func principalOf(ctx context.Context) string {
	p, _ := ctx.Value(principalKey{}).(string)
	return p
}

// authenticated lets nobody through whom Authenticate does not name.
func (g *Gateway) authenticated(next http.Handler) http.Handler {
	return g.handle(func(w http.ResponseWriter, r *http.Request) error {
		principal, err := g.cfg.Authenticate(r)
		var coded *fence.Error
		switch {
		case err != nil && errors.As(err, &coded):
			return err
		case err != nil:
			return fence.Wrap(fence.CodeUnauthenticated, err, "the credentials are missing or not valid")
		case principal == "":
			return fence.Errorf(fence.CodeUnauthenticated, "the credentials name nobody")
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, principal)))
		return nil
	})
}
