package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/fencegate/fencegate/fence"
)

// What a refusal quotes of a request may be as long as the request.
const (
	maxDetail = 1000
	maxField  = 200
)

// problem is the body of a refusal (RFC 9457).
type problem struct {
	Type        string       `json:"type"`
	Title       string       `json:"title"`
	Status      int          `json:"status"`
	Detail      string       `json:"detail,omitempty"`
	Code        fence.Code   `json:"code"`
	Resource    string       `json:"resource,omitempty"`
	Token       fence.Token  `json:"token,omitempty"`
	Mark        *fence.Token `json:"mark,omitempty"`
	Lease       string       `json:"lease,omitempty"`
	First       fence.Token  `json:"first_token,omitempty"`
	Holder      string       `json:"holder,omitempty"`
	Ended       string       `json:"ended,omitempty"`
	EndedBy     string       `json:"ended_by,omitempty"`
	RemainingMS *int64       `json:"remaining_ms,omitempty"`
	Position    int          `json:"queue_position,omitempty"`
	Waiting     int          `json:"queue_length,omitempty"`
	Field       string       `json:"field,omitempty"`
	Constraint  string       `json:"constraint,omitempty"`
	Write       *int         `json:"write,omitempty"` // of a commit, counted from 0
	Retryable   bool         `json:"retryable"`
	TraceID     string       `json:"trace_id"`
}

// fail answers an error and logs it, the only place that does either.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	ctx := r.Context()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		g.cfg.Log.InfoContext(ctx, "client left", "trace_id", traceID(ctx))
		panic(http.ErrAbortHandler)
	}
	e := refusalOf(err)
	if e.Token == 0 {
		if t, terr := tokenOf(r.Header); terr == nil {
			e.Token = t
		}
	}
	p := newProblem(e, traceID(ctx))
	exchangeOf(ctx).noted.Code = e.Code
	g.logRefusal(r, p, err)
	g.drain(w, r)
	h := w.Header()
	if e.State != nil {
		setState(h, *e.State)
	}
	if p.Retryable {
		h.Set("Retry-After", strconv.FormatInt(retryAfter(e.Remaining), 10))
	}
	if e.Code == fence.CodeUnauthenticated {
		h.Set("WWW-Authenticate", "Bearer")
	}
	respond(w, p.Status, "application/problem+json", p)
}

// refusalOf returns a copy of the coded error in err, without what its code must not disclose.
func refusalOf(err error) *fence.Error {
	coded, ok := errors.AsType[*fence.Error](err)
	if !ok {
		return fence.Wrap(fence.CodeInternal, err, "the gateway failed; its log has the cause under this trace id")
	}
	e := *coded
	if e.Code == fence.CodeForbidden || e.Code == fence.CodeUnauthenticated {
		e.State, e.Lease, e.First, e.Holder, e.Remaining = nil, "", 0, "", 0
		e.Ended, e.EndedBy, e.Queue, e.Waiting = "", "", 0, 0
	}
	return &e
}

func newProblem(e *fence.Error, trace string) problem {
	out := outcomeOf(e.Code)
	p := problem{
		Code: publicCode(e.Code), Title: out.title, Status: out.status, Detail: clip(e.Message, maxDetail),
		Token: e.Token, Lease: e.Lease, First: e.First, Holder: e.Holder,
		Ended: e.Ended, EndedBy: e.EndedBy, Position: e.Queue, Waiting: e.Waiting,
		Field: clip(e.Field, maxField), Constraint: e.Constraint,
		Retryable: e.Code.Retryable(), TraceID: trace,
	}
	p.Type = "urn:fencegate:" + string(p.Code)
	if e.Write > 0 {
		index := e.Write - 1
		p.Write = &index
	}
	if s := e.State; s != nil {
		p.Resource, p.Mark = s.Resource, &s.Mark
		if p.Lease == "" {
			p.Lease = s.Lease
		}
	}
	if e.Code == fence.CodeLeaseHeld {
		ms := millis(e.Remaining)
		p.RemainingMS = &ms
	}
	return p
}

// publicCode is the code as a client sees it: which of the servers is down shows in the status only.
func publicCode(c fence.Code) fence.Code {
	switch {
	case c == fence.CodeStoreUnavailable:
		return fence.CodeUnavailable
	case outcomes[c].status == 0:
		return fence.CodeInternal
	}
	return c
}

// clip cuts a text to at most so many bytes of whole characters and an ellipsis.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// retryAfter is in whole seconds, rounded up: a client that comes back early comes in vain.
func retryAfter(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}

func millis(d time.Duration) int64 { return max(0, d.Milliseconds()) }
