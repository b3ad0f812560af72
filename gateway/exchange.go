package gateway

import (
	"cmp"
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"
)

// exchange is a request on its way through the gateway, and the context that it is served in. What one layer notes for another stands in
// one place, rather than in a context and a copy of the request for each layer.
//
// Its own fields are for the goroutine of the request; Context, route and trace do not change, so that values may be looked up from others.
type exchange struct {
	context.Context
	route *chi.Context // nil where nothing is routed
	trace string
	// traceLine is the value of X-Trace-Id.
	traceLine [1]string
	caller    Caller // nil before authentication
	noted     Observation
	// bodyRead says that nothing is left of the request's body.
	bodyRead bool
	answer   answer
}

type exchangeKey struct{}

// Value implements context.Context.
func (x *exchange) Value(key any) any {
	switch {
	case key == (exchangeKey{}):
		return x
	case key == chi.RouteCtxKey && x.route != nil:
		return x.route
	}
	return x.Context.Value(key)
}

// exchangeOf returns what is noted about a request. Outside of one it is a value that is thrown away.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.(*exchange); ok {
		return x
	}
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{Context: ctx}
}

// routed serves a request by the router, in an exchange of its own. The router is shown the prefix of the path's family: to be shown more it
// would have to keep what follows, which nobody asks it for.
func (g *Gateway) routed(mux *chi.Mux, families []family) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := g.exchange(w, r)
		x.route = g.routeContext()
		defer g.routeContexts.Put(x.route)
		x.route.Routes = mux
		path := cmp.Or(r.URL.RawPath, r.URL.Path)
		for i := range families {
			if families[i].has(path) {
				x.route.RoutePath = families[i].prefix
				break
			}
		}
		mux.ServeHTTP(&x.answer, r.WithContext(x))
	})
}

func (g *Gateway) routeContext() *chi.Context {
	c, ok := g.routeContexts.Get().(*chi.Context)
	if !ok {
		return chi.NewRouteContext()
	}
	c.Reset()
	return c
}
