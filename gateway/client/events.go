package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/sse"
)

const (
	// EventGap stands in place of events that are kept no more.
	EventGap fence.EventKind = "gap"

	// silence is how long a stream may say nothing: three of the gateway's heartbeats.
	silence = 45 * time.Second
)

// EventQuery is which events are wanted, and from where on.
type EventQuery struct {
	// Prefix is what the names of their leases begin with.
	Prefix string
	// Kinds are those that are wanted, all if there are none.
	Kinds []fence.EventKind
	// After is the Position of the last event that is known. Defaults to now, or with Oldest to before all that are kept.
	After  string
	Oldest bool
}

// Events tells events as they happen, of leases that the caller may read, until ctx is over. A stream that breaks off is
// taken up behind its last event; where events are kept no more it tells an EventGap. It ends with an error when it is
// refused, when it could not be taken up within Config.MaxTries tries, and when ctx is over.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[fence.Event, error] {
	return func(yield func(fence.Event, error) bool) {
		s := &events{c: c, query: q, last: q.After}
		for {
			more, err := s.follow(ctx, yield)
			if !more {
				return
			}
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				yield(fence.Event{}, err)
				return
			}
			// Told, or cut off: what was told begins anew.
			if !wait(ctx, s.pause) {
				yield(fence.Event{}, context.Cause(ctx))
				return
			}
		}
	}
}

// events is a stream that is taken up again and again.
type events struct {
	c     *Client
	query EventQuery
	last  string        // the position behind which it goes on
	pause time.Duration // before it is taken up
	// opened tells that it was once, limited how often it was refused since because there are too many.
	opened  bool
	limited int
}

// follow tells events until the stream breaks off; more is false when nobody listens any more.
func (s *events) follow(ctx context.Context, yield func(fence.Event, error) bool) (more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.pause = s.c.cfg.MinPause
	body, err := s.open(ctx)
	switch {
	case fence.CodeOf(err) == fence.CodeRateLimited && s.opened && s.limited < s.c.cfg.MaxTries:
		// The gateway may not have noticed yet that the stream before has ended.
		s.limited++
		s.pause = s.c.cfg.MaxPause
		return true, nil
	case err != nil:
		return true, err
	}
	defer body.Close()
	s.opened, s.limited = true, 0
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	scan := sse.NewReader(body, s.c.cfg.MaxAnswer)
	for {
		f, err := scan.Next(func() { quiet.Reset(silence) })
		if err != nil {
			return true, nil
		}
		if f.Retry > 0 {
			s.pause = min(f.Retry, s.c.cfg.MaxPause)
		}
		if f.ID != "" {
			s.last = f.ID
		}
		if f.Data == "" {
			continue
		}
		e, err := eventOf(f)
		if err != nil {
			return true, err
		}
		if !yield(e, nil) {
			return false, nil
		}
	}
}

// open connects, repeating as any call does.
func (s *events) open(ctx context.Context) (body io.ReadCloser, err error) {
	q, header := url.Values{}, http.Header{"Accept": {"text/event-stream"}}
	if s.query.Prefix != "" {
		q.Set("prefix", s.query.Prefix)
	}
	var kinds []string
	for _, k := range s.query.Kinds {
		kinds = append(kinds, string(k))
	}
	if len(kinds) > 0 {
		q.Set("kinds", strings.Join(kinds, ","))
	}
	switch {
	case strings.ContainsAny(s.last, "\r\n\x00"):
		return nil, fence.Errorf(fence.CodeInvalidRequest, "this is no position of an event").In("after")
	case s.last != "":
		header.Set("Last-Event-Id", s.last)
	case s.query.Oldest:
		q.Set("from", "oldest")
	}
	r := &request{what: "events.stream", method: http.MethodGet, path: withQuery("/v1/events", q), header: header, limit: s.c.within, stream: true}
	err = s.c.do(ctx, r, func(resp *http.Response) error {
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			return errors.New("the answer is no stream of events")
		}
		body, resp.Body = resp.Body, http.NoBody
		return nil
	})
	return body, err
}

func eventOf(f sse.Frame) (fence.Event, error) {
	var v struct {
		Kind      fence.EventKind `json:"kind"`
		At        time.Time       `json:"at"`
		Lease     string          `json:"lease"`
		Principal string          `json:"principal"`
		Holder    string          `json:"holder"`
		First     fence.Token     `json:"first_token"`
		Ended     string          `json:"ended"`
		EndedBy   string          `json:"ended_by"`
		Code      fence.Code      `json:"code"`
		Token     fence.Token     `json:"token"`
		Resource  string          `json:"resource"`
	}
	if err := json.Unmarshal([]byte(f.Data), &v); err != nil {
		return fence.Event{}, fence.Wrap(fence.CodeInternal, err, "an event cannot be read")
	}
	return fence.Event{
		Position: f.ID, At: v.At, Kind: v.Kind, Lease: v.Lease, Principal: v.Principal, Holder: v.Holder, First: v.First,
		Why: v.Ended, By: v.EndedBy, Resource: v.Resource, Token: v.Token, Code: v.Code,
	}, nil
}
