package gateway

import (
	"context"
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

type observationKey struct{}

// observationOf returns what is noted about a request. Requests that nobody observes get a value that is thrown away.
func observationOf(ctx context.Context) *Observation {
	if o, ok := ctx.Value(observationKey{}).(*Observation); ok {
		return o
	}
	return &Observation{}
}

// observed tells Config.Observe what became of each request of a family.
func (g *Gateway) observed(api string, next http.Handler) http.Handler {
	if g.cfg.Observe == nil || api == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o, start := &Observation{API: api}, time.Now()
		// Also when the handler panics, which is how an answer is cut off.
		defer func() {
			o.Duration = time.Since(start)
			g.cfg.Observe(r.Context(), *o)
		}()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), observationKey{}, o)))
	})
}

// noteAnswer remembers the code of an answer that is no refusal.
func noteAnswer(w http.ResponseWriter, r *http.Request) {
	code := fence.CodeAccepted
	if w.Header().Get(headerReplayed) != "" {
		code = fence.CodeReplayed
	}
	observationOf(r.Context()).Code = code
}
