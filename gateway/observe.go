package gateway

import (
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Observation is what became of one request of the API. Its fields have few values, so that they can label metrics.
type Observation struct {
	// API is leases, events, rows, objects, commit, uploads, marks or openapi, and Op what was asked of it (get, patch, acquire, …). Both are empty for
	// a path or method that there is not.
	API, Op string
	// Code is fence.CodeAccepted, fence.CodeReplayed or a refusal; empty when the client left before its answer.
	Code fence.Code
	// Duration is the time from the request's header to the end of the answer.
	Duration time.Duration
}

// observed tells Config.Observe what became of each request of a family.
func (g *Gateway) observed(api string, next http.Handler) http.Handler {
	if g.cfg.Observe == nil || api == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o, start := &exchangeOf(r.Context()).noted, time.Now()
		o.API = api
		// Also when the handler panics, which is how an answer is cut off.
		defer func() {
			o.Duration = time.Since(start)
			g.cfg.Observe(r.Context(), *o)
		}()
		next.ServeHTTP(w, r)
	})
}

// noteAnswer remembers the code of an answer that is no refusal.
func (x *exchange) noteAnswer() {
	x.noted.Code = fence.CodeAccepted
	if x.answer.replayed {
		x.noted.Code = fence.CodeReplayed
	}
}
