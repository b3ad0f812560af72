package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fence"
)

const (
	// defaultPoll is the time between two looks for new events, and defaultPause that after a look that failed.
	defaultPoll  = 250 * time.Millisecond
	defaultPause = 2 * time.Second
	// reconnect is what clients are told to wait before they connect again.
	reconnect = 2 * time.Second
	// streamChunk is about how many bytes are sent at once.
	streamChunk = 64 << 10
)

// streamTimes are what a stream goes by.
type streamTimes struct {
	// heartbeat is the longest silence, and recheck the time between two looks at the caller's credentials.
	heartbeat, recheck time.Duration
	// stall is how long a client may take to read what is sent at once.
	stall time.Duration
}

func defaultStreamTimes() streamTimes {
	return streamTimes{heartbeat: 15 * time.Second, recheck: 10 * time.Second, stall: 10 * time.Second}
}

// AccessChanged makes each stream of events look at once whether its caller still may read it.
func (g *Gateway) AccessChanged() { g.accessChanged.ring() }

// streamEvents sends events until the client leaves or may not read them any more, or the gateway drains.
func (g *Gateway) streamEvents(w http.ResponseWriter, r *http.Request) error {
	q, err := readEventQuery(r)
	if err != nil {
		return err
	}
	h := w.Header()
	if r.Method == http.MethodHead {
		setStreamHeader(h)
		w.WriteHeader(http.StatusOK)
		return nil
	}
	if g.draining.Err() != nil {
		return stopping(g.draining.Err())
	}
	giveBack, err := g.places.take(principalOf(r.Context()))
	if err != nil {
		return err
	}
	defer giveBack()
	window, leave := g.feed.join()
	defer leave()
	ctx, cancel := g.untilDrained(r)
	defer cancel()
	s := &stream{
		g: g, w: w, r: r, rc: http.NewResponseController(w), caller: callerOf(r.Context()), query: q, window: window, cursor: q.after, told: q.after,
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	setStreamHeader(h)
	w.WriteHeader(http.StatusOK)
	s.run(ctx)
	return nil
}

func setStreamHeader(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	// Neither a cache nor a proxy that compresses or collects answers may keep events back.
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
	// The deadlines of a stream are not for another request.
	h.Set("Connection", "close")
}

// stream is one client's. It has no buffer of its own: what it has not sent yet stands in the window, or in the ledger.
type stream struct {
	g      *Gateway
	w      http.ResponseWriter
	r      *http.Request
	rc     *http.ResponseController
	caller Caller
	query  eventQuery
	window *window

	// cursor is the position of the last event that was looked at, told the last one that the client knows.
	cursor, told string
	out          bytes.Buffer
	// broken says that the client has not taken what was sent.
	broken bool
}

// begin finds where the stream begins. A position that the ledger does not know, and a ledger that does not answer, are told
// while they still can be.
func (s *stream) begin(ctx context.Context) (err error) {
	if s.query.after == "" && !s.query.oldest {
		s.cursor, err = s.g.feed.last(ctx)
	} else if _, known, _ := s.window.after(s.cursor); !known {
		_, _, err = s.g.feed.read(ctx, s.cursor)
	}
	var e *fence.Error
	switch {
	case err != nil && s.g.draining.Err() != nil:
		return stopping(err)
	case errors.As(err, &e) && e.Code == fence.CodeInvalidRequest:
		e.Field = s.query.field()
	}
	return err
}

func stopping(cause error) error {
	return fence.Wrap(fence.CodeUnavailable, cause, "this gateway is stopping: connect to another")
}

func (s *stream) run(ctx context.Context) {
	_ = s.rc.SetReadDeadline(time.Time{})
	fmt.Fprintf(&s.out, "retry: %d\n", reconnect.Milliseconds())
	s.tellCursor()
	s.out.WriteString("\n")
	times := s.g.times
	heartbeat, recheck := time.NewTicker(times.heartbeat), time.NewTicker(times.recheck)
	defer heartbeat.Stop()
	defer recheck.Stop()
	changed := s.g.accessChanged.wait()
	for s.send() && ctx.Err() == nil {
		more, grown := s.next(ctx)
		if s.broken {
			return
		}
		if more {
			// A stream that has much to catch up with looks at its rights too.
			select {
			case <-changed:
				changed = s.g.accessChanged.wait()
			case <-recheck.C:
			default:
				continue
			}
			if !s.stillAllowed() {
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-grown:
		case <-heartbeat.C:
			s.out.WriteString(":\n")
			s.tellCursor()
			s.out.WriteString("\n")
		case <-changed:
			changed = s.g.accessChanged.wait()
			if !s.stillAllowed() {
				return
			}
		case <-recheck.C:
			if !s.stillAllowed() {
				return
			}
		}
	}
}

// next puts what comes next into the buffer, and reports whether there was anything; else grown is closed when there may be.
func (s *stream) next(ctx context.Context) (more bool, grown <-chan struct{}) {
	found, known, grown := s.window.after(s.cursor)
	gone := false
	if !known {
		var err error
		if found, gone, err = s.g.feed.read(ctx, s.cursor); err == nil && gone {
			err = s.skipGap(ctx, len(found) == 0)
		}
		if err != nil {
			// The window complains of a ledger that is away.
			return false, s.later(ctx)
		}
	}
	for _, e := range found {
		s.cursor = e.Position
		if !s.query.wants(e) {
			continue
		}
		if v, ok := show(e, s.caller); ok {
			s.put(v)
		}
		if s.out.Len() > streamChunk && !s.send() {
			return false, grown
		}
	}
	return len(found) > 0 || gone, grown
}

// skipGap tells that events are missing. If none is left behind them, the stream goes on from now.
func (s *stream) skipGap(ctx context.Context, empty bool) error {
	v := eventView{Kind: kindGap}
	if empty {
		last, err := s.g.feed.last(ctx)
		if err != nil {
			return err
		}
		s.cursor, v.ID = last, last
	}
	s.put(v)
	return nil
}

// later is closed after a while, or when the stream ends.
func (s *stream) later(ctx context.Context) <-chan struct{} {
	ctx, cancel := context.WithTimeout(ctx, s.g.feed.pause)
	context.AfterFunc(ctx, cancel)
	return ctx.Done()
}

// put writes an event in the form of the WHATWG's HTML standard. JSON has no line breaks.
func (s *stream) put(v eventView) {
	if v.ID != "" {
		fmt.Fprintf(&s.out, "id: %s\n", v.ID)
		s.told = v.ID
	}
	fmt.Fprintf(&s.out, "event: %s\ndata: ", v.Kind)
	enc := json.NewEncoder(&s.out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // a struct of strings and numbers
	}
	s.out.WriteString("\n")
}

// tellCursor names the place without an event: who connects again there need not look again at what was not for him.
func (s *stream) tellCursor() {
	if s.cursor != s.told && s.cursor != "" {
		fmt.Fprintf(&s.out, "id: %s\n", s.cursor)
		s.told = s.cursor
	}
}

// send sends what is in the buffer, and reports whether the client takes it.
func (s *stream) send() bool {
	if s.out.Len() == 0 || s.broken {
		return !s.broken
	}
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.g.times.stall))
	_, err := s.w.Write(s.out.Bytes())
	s.out.Reset()
	if err == nil {
		err = s.rc.Flush()
	}
	s.broken = err != nil
	return !s.broken
}

// stillAllowed looks again who the caller is. It may have other rights now, or none.
func (s *stream) stillAllowed() bool {
	caller, err := s.g.cfg.Authenticate(s.r)
	if err != nil || caller == nil || caller.Principal() != s.caller.Principal() {
		s.g.cfg.Log.InfoContext(s.r.Context(), "stream of events ended: its caller is not let in any more",
			"principal", s.caller.Principal(), "trace_id", traceID(s.r.Context()))
		return false
	}
	s.caller = caller
	return true
}
