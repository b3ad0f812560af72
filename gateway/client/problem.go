package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// maxProblem is longer than any refusal of a gateway.
const maxProblem = 256 << 10

// problem is the body of a refusal.
type problem struct {
	Detail      string       `json:"detail"`
	Code        fence.Code   `json:"code"`
	Resource    string       `json:"resource"`
	Token       fence.Token  `json:"token"`
	Mark        *fence.Token `json:"mark"`
	Lease       string       `json:"lease"`
	First       fence.Token  `json:"first_token"`
	Holder      string       `json:"holder"`
	Ended       string       `json:"ended"`
	EndedBy     string       `json:"ended_by"`
	RemainingMS *int64       `json:"remaining_ms"`
	Position    int          `json:"queue_position"`
	Waiting     int          `json:"queue_length"`
	Field       string       `json:"field"`
	Constraint  string       `json:"constraint"`
	Write       *int         `json:"write"`
	TraceID     string       `json:"trace_id"`
}

// refusal makes the error of an answer that is no success.
func (c *Client) refusal(r *request, resp *http.Response) *fence.Error {
	var p problem
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "application/problem+json" {
		return foreign(r, resp, "")
	}
	if r.method == http.MethodHead {
		return foreign(r, resp, " to a HEAD, which has no body to tell why")
	}
	if err := decode(io.LimitReader(resp.Body, maxProblem), &p); err != nil || p.Code == "" {
		return foreign(r, resp, ", and what it says cannot be read")
	}
	e := &fence.Error{
		Code: p.Code, Message: p.Detail, Token: p.Token, Lease: p.Lease, First: p.First, Holder: p.Holder,
		Ended: p.Ended, EndedBy: p.EndedBy, Queue: p.Position, Waiting: p.Waiting, Field: p.Field, Constraint: p.Constraint,
		Remaining: retryAfter(resp.Header),
	}
	if p.RemainingMS != nil {
		e.Remaining = time.Duration(*p.RemainingMS) * time.Millisecond
	}
	if p.Write != nil {
		e.Write = *p.Write + 1
	}
	if p.Mark != nil {
		e.State = &fence.State{Resource: p.Resource, Lease: p.Lease, Mark: *p.Mark}
	}
	if e.Code == fence.CodeUnavailable && resp.StatusCode == http.StatusBadGateway {
		e.Code = fence.CodeStoreUnavailable
	}
	if e.Code == fence.CodeInternal {
		e.Message += " (trace " + p.TraceID + ")"
	}
	return e
}

// foreign is the error of an answer that no gateway gave: of a proxy before it, or of something else altogether. A proxy
// may have passed the request on before it failed.
func foreign(r *request, resp *http.Response, why string) *fence.Error {
	text := fmt.Sprintf("the answer is status %d%s, and not a gateway's", resp.StatusCode, why)
	after := retryAfter(resp.Header)
	e := &fence.Error{Code: fence.CodeInternal, Message: text, Remaining: after, Token: r.token}
	switch status := resp.StatusCode; {
	case status >= 500 || status == http.StatusRequestTimeout:
		e.Code = fence.CodeUnavailable
		if r.kind != reads {
			e.Code = fence.CodeOutcomeUnknown
		}
	case status == http.StatusUnauthorized:
		e.Code = fence.CodeUnauthenticated
	case status == http.StatusForbidden:
		e.Code = fence.CodeForbidden
	case status == http.StatusRequestEntityTooLarge:
		e.Code = fence.CodeTooLarge
	case status == http.StatusTooManyRequests:
		e.Code = fence.CodeRateLimited
	}
	return e
}

func retryAfter(h http.Header) time.Duration {
	n, err := strconv.ParseUint(h.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// answer reads a JSON answer of at most MaxAnswer bytes into v.
func (c *Client) answer(resp *http.Response, v any) error {
	data, err := c.readAll(resp)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("the answer is not a gateway's: %w", err)
	}
	return nil
}

// readAll reads an answer. One that is too long is there all the same: it is not asked for again.
func (c *Client) readAll(resp *http.Response) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(resp.Body, c.cfg.MaxAnswer+1))
	if err == nil && int64(len(data)) > c.cfg.MaxAnswer {
		return nil, fence.Errorf(fence.CodeTooLarge, "the answer is longer than %d bytes", c.cfg.MaxAnswer)
	}
	return data, err
}

func decode(body io.Reader, v any) error { return json.NewDecoder(body).Decode(v) }

// state reads what every answer about a resource tells in its header.
func state(h http.Header) (fence.State, error) {
	var s fence.State
	if mark := h.Get(headerToken); mark != "0" {
		var err error
		if s.Mark, err = fence.ParseToken(mark); err != nil {
			return s, errors.New("the answer has no mark, and is not a gateway's")
		}
	}
	name, err := url.PathUnescape(h.Get(headerLease))
	s.Lease = name
	return s, err
}
