package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// kind is what a request does, and so what it means that there is no answer.
type kind int

const (
	// reads changes nothing.
	reads kind = iota
	// repeatable changes a lease; doing it twice does no harm.
	repeatable
	// fenced writes under a token; the gateway tells a repetition.
	fenced
	// once does harm when it is repeated.
	once
)

// request is one call of the API, which may take several tries.
type request struct {
	what         string // for hooks
	kind         kind
	method, path string // the path is escaped, and may have a query
	header       http.Header
	body         func() []byte // of a try; nil for none
	upload       *upload       // in place of body
	limit        func() time.Duration
	token        fence.Token   // of a fenced write
	tokens       []fence.Token // of a commit's writes
	lease        string        // whose name completes an error
	// stream says that the answer's body outlives the call: limit bounds the wait for its header, the caller's context the
	// rest.
	stream bool
	// tries bounds them below Config.MaxTries; 0 does not.
	tries int
	// sent tells that the gateway may have got a try.
	sent bool
}

// reply takes a successful answer. Its errors mean that the answer is none, unless they are *fence.Errors.
type reply func(*http.Response) error

// do tries a request until it is settled.
func (c *Client) do(ctx context.Context, r *request, take reply) error {
	var unknown *fence.Error // that of a try before
	for try := 1; ; try++ {
		began := time.Now()
		e, sent := c.try(ctx, r, take)
		r.sent = r.sent || sent
		if e == nil {
			c.cfg.Hooks.Requested(r.what, time.Since(began), nil)
			return nil
		}
		c.cfg.Hooks.Requested(r.what, time.Since(began), e)
		if e.Lease == "" {
			e.Lease = r.lease
		}
		if e.Code == fence.CodeOutcomeUnknown {
			unknown = e
		}
		pause, again := c.again(ctx, r, e, sent, try)
		if !again || !wait(ctx, pause) {
			return r.conclude(e, unknown)
		}
	}
}

// again tells whether a try is followed by another, and after which pause.
func (c *Client) again(ctx context.Context, r *request, e *fence.Error, sent bool, try int) (time.Duration, bool) {
	pause := min(c.cfg.MinPause<<min(try-1, 16), c.cfg.MaxPause)
	pause = max(pause/2+rand.N(pause/2+1), e.Remaining)
	deadline, bounded := ctx.Deadline()
	switch {
	case try >= c.cfg.MaxTries, try == r.tries, ctx.Err() != nil, pause > c.cfg.MaxPause, bounded && time.Until(deadline) < pause,
		r.upload != nil && !r.upload.again(),
		r.kind == once && sent:
		return 0, false
	}
	switch e.Code {
	case fence.CodeContention, fence.CodeOverloaded, fence.CodeUnavailable, fence.CodeStoreUnavailable, fence.CodeOutcomeUnknown:
		return pause, true
	}
	return 0, false
}

// conclude returns the last answer, unless it leaves open what became of a try that was not answered.
func (r *request) conclude(last, unknown *fence.Error) error {
	if unknown == nil || last.Code == fence.CodeOutcomeUnknown || r.settles(last) {
		return last
	}
	e := fence.Wrap(fence.CodeOutcomeUnknown, last, "a try got no answer, and the one behind it does not settle what became of it")
	e.Lease, e.Token, e.State = last.Lease, last.Token, last.State
	return e
}

// settles reports whether a refusal tells that no earlier try of the request was carried out.
func (r *request) settles(e *fence.Error) bool {
	if r.kind == fenced {
		// A write that was accepted left its token as the mark, and would have been told as replayed; unless the mark has
		// passed it since. It may come yet, if what stopped this try passes.
		token := r.token
		if e.Write > 0 && e.Write <= len(r.tokens) {
			token = r.tokens[e.Write-1]
		}
		return !e.Code.Retryable() && e.State != nil && e.State.Mark <= token
	}
	switch e.Code {
	case fence.CodeLeaseHeld, fence.CodeLeaseLost, fence.CodeGrantEnded, fence.CodeInvalidRequest:
		return true
	}
	return r.kind == reads
}

// try sends the request once. sent tells that the gateway may have got it.
func (c *Client) try(ctx context.Context, r *request, take reply) (e *fence.Error, sent bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(r.limit(), func() { cancel(context.DeadlineExceeded) })
	defer func() {
		if timer.Stop(); e != nil || !r.stream {
			cancel(nil)
		}
	}()
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := c.request(traced, r)
	if err != nil {
		return fence.Wrap(fence.CodeInvalidRequest, err, "the request cannot be made"), false
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return r.noAnswer(ctx, err, connected.Load()), connected.Load()
	}
	defer func() { resp.Body.Close() }() // take may have taken it away
	if resp.StatusCode < 300 {
		err := take(resp)
		var final *fence.Error
		if err == nil || errors.As(err, &final) {
			return final, true
		}
		return r.noAnswer(ctx, err, true), true
	}
	return c.refusal(r, resp), true
}

// request makes the HTTP request of a try.
func (c *Client) request(ctx context.Context, r *request) (*http.Request, error) {
	var body io.Reader
	switch {
	case r.upload != nil:
		part, err := r.upload.next()
		if err != nil {
			return nil, err
		}
		body = part
	case r.body != nil:
		body = bytes.NewReader(r.body())
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, body)
	if err != nil {
		return nil, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	if r.upload != nil {
		r.upload.describe(req)
	} else if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.cfg.AuthToken != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.AuthToken)
	}
	// Go's transport would unpack a body that it takes for its own compression.
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "fencegate-go")
	return req, nil
}

// noAnswer is the error of a try that got no answer that can be read.
func (r *request) noAnswer(ctx context.Context, err error, sent bool) *fence.Error {
	// It names the URL, which the caller knows.
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if r.upload != nil {
		if own := r.upload.failure(); own != nil {
			return fence.Wrap(fence.CodeInvalidRequest, own, "the body broke off; nothing was published")
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	switch {
	case !sent:
		return fence.Wrap(fence.CodeUnavailable, err, "the gateway cannot be reached")
	case r.kind == reads:
		return fence.Wrap(fence.CodeUnavailable, err, "the gateway did not answer")
	}
	e := fence.Wrap(fence.CodeOutcomeUnknown, err, "the gateway did not answer: it is not known whether this was carried out")
	e.Token = r.token
	return e
}

// wait reports whether it was not cut short.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// within is the limit of a try of a call that moves no object.
func (c *Client) within() time.Duration { return c.cfg.Timeout }
