package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Front is what another front of the gateway shares with its HTTP API: traces, limits, counts, the log, events, and how requests are let go.
type Front struct{ g *Gateway }

// Front returns what another front shares.
func (g *Gateway) Front() Front { return Front{g} }

// Around gives each request a trace id, which TraceID returns, and its body the deadline of a body that is no object's.
func (f Front) Around(next http.Handler) http.Handler { return f.g.traced(f.g.bounded(next)) }

// TraceID names the trace that the context of a request belongs to.
func (Front) TraceID(ctx context.Context) string { return traceID(ctx) }

// Admit refuses a request of a class that is one too many of its principal's.
func (f Front) Admit(ctx context.Context, class, principal string) error {
	return f.g.withinClass(ctx, class, principal)
}

// AdmitGrant refuses an acquire that is one too many of its principal's.
func (f Front) AdmitGrant(ctx context.Context, principal string) error {
	if err := f.g.withinClass(ctx, ClassLeases, principal); err != nil {
		return err
	}
	return f.g.pace.check(principal, time.Now())
}

// Transfer counts the body of an object that is on its way, until the returned function is called.
func (f Front) Transfer() (done func()) { return f.g.transfer() }

// Observe tells Config.Observe what became of a request.
func (f Front) Observe(ctx context.Context, o Observation) {
	if f.g.cfg.Observe != nil {
		f.g.cfg.Observe(ctx, o)
	}
}

// Refusal is a request that is refused, with a status of the front's own.
type Refusal struct {
	Caller Caller // nil before authentication
	Verb   Verb
	Status int
	Err    error
}

// Refused logs a refusal, keeps a write that was refused for its token among the events, and reads a bounded part of the request's body. It
// returns the error without what its code must not disclose.
func (f Front) Refused(w http.ResponseWriter, r *http.Request, refusal Refusal) *fence.Error {
	x := exchangeOf(r.Context())
	x.caller = refusal.Caller
	e := refusalOf(refusal.Err)
	p := newProblem(e, x.trace)
	p.Status = refusal.Status
	f.g.logRefusal(r.WithContext(x), p, refusal.Err)
	if refusal.Verb == VerbWrite {
		f.g.refusals.note(principalOf(x), refusal.Err)
	}
	f.g.drain(w, r)
	return e
}

// CutOff logs that the answer with a body ended before the body: the client left, or cause is what the store said.
func (f Front) CutOff(ctx context.Context, name fence.ObjectName, cause error) {
	if cause == nil || ctx.Err() != nil {
		f.g.cfg.Log.InfoContext(ctx, "client left", "resource", "objects/"+name.Bucket+"/"+name.Key, "trace_id", traceID(ctx))
		return
	}
	f.g.cfg.Log.ErrorContext(ctx, "body cut off", "resource", "objects/"+name.Bucket+"/"+name.Key, "trace_id", traceID(ctx), "cause", cause)
}

// Settled returns the error of a write so that it keeps I7: one without a code is of an unknown outcome.
func Settled(err error) error { return settled(err) }

// SetLease tells in a header which lease protects a resource.
func SetLease(h http.Header, lease string) {
	if lease != "" {
		h.Set(headerLease, escapeName(lease))
	}
}

// RetryAfter is the value of the header, in whole seconds.
func RetryAfter(e *fence.Error) int64 { return retryAfter(e.Remaining) }
