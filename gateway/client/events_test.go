package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/lease"
)

// listen collects events until one satisfies done, or the stream ends.
func listen(ctx context.Context, c *client.Client, q client.EventQuery, done func(fence.Event) bool) (got []fence.Event, err error) {
	for e, err := range c.Events(ctx, q) {
		if err != nil {
			return got, err
		}
		if got = append(got, e); done(e) {
			return got, nil
		}
	}
	return got, errors.New("the stream ended without an error")
}

func lastOf(name string) func(fence.Event) bool {
	return func(e fence.Event) bool { return e.Lease == name }
}

func told(events []fence.Event) string {
	var parts []string
	for _, e := range events {
		parts = append(parts, string(e.Kind)+" "+e.Lease)
	}
	return strings.Join(parts, ", ")
}

func TestEvents(t *testing.T) {
	r := serve(t, nil)
	h := r.acquire("wallets:1")
	_ = r.Release(t.Context(), ref(h))
	r.acquire("wallets:1")
	_ = r.Break(t.Context(), "wallets:1", "stuck")
	r.acquire("other")
	r.acquire("wallets:last")
	got, err := listen(t.Context(), r.Client, client.EventQuery{Oldest: true, Prefix: "wallets:"}, lastOf("wallets:last"))
	if err != nil || told(got) != "granted wallets:1, released wallets:1, granted wallets:1, broken wallets:1, granted wallets:last" {
		t.Fatalf("told %s, %v", told(got), err)
	}
	if b := got[3]; b.Why != "broken: stuck" || b.By != "anonymous" || b.First != 2000 || b.At.IsZero() || b.Position == "" || b.Principal != "anonymous" {
		t.Errorf("broken: %+v", b)
	}
	got, err = listen(t.Context(), r.Client, client.EventQuery{After: got[1].Position, Kinds: []fence.EventKind{fence.EventGranted, fence.EventExpired}}, lastOf("wallets:last"))
	if err != nil || told(got) != "granted wallets:1, granted other, granted wallets:last" {
		t.Errorf("behind an event: %s, %v", told(got), err)
	}
}

func TestEventsAreTakenUpAgain(t *testing.T) {
	r := serve(t, nil)
	for i := range 30 {
		r.acquire(fmt.Sprintf("job:%02d", i))
	}
	var cuts atomic.Int32
	r.put(func(w http.ResponseWriter, req *http.Request, n int, next http.Handler) {
		if cuts.Add(1) > 6 {
			next.ServeHTTP(w, req)
			return
		}
		next.ServeHTTP(&cutter{ResponseWriter: w, left: 500 * n}, req)
	})
	got, err := listen(t.Context(), r.Client, client.EventQuery{Oldest: true}, lastOf("job:29"))
	if err != nil || len(got) != 30 || cuts.Load() < 3 {
		t.Fatalf("told %s, %v, cut %d times", told(got), err, cuts.Load())
	}
	for i, e := range got {
		if e.Lease != fmt.Sprintf("job:%02d", i) {
			t.Fatalf("told %s", told(got))
		}
	}
}

// cutter breaks a connection off after some bytes.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(b []byte) (int, error) {
	if c.left -= len(b); c.left < 0 {
		_, _ = c.ResponseWriter.Write(b[:max(0, len(b)+c.left)])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		hang()
	}
	return c.ResponseWriter.Write(b)
}

func (c *cutter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func TestEventsEnd(t *testing.T) {
	never := func(fence.Event) bool { return false }
	t.Run("Refused", func(t *testing.T) {
		r := serve(t, nil)
		_, err := listen(t.Context(), r.Client, client.EventQuery{Kinds: []fence.EventKind{"nonsense"}}, never)
		wantCode(t, err, fence.CodeInvalidRequest)
		_, err = listen(t.Context(), r.Client, client.EventQuery{After: "a\nb"}, never)
		wantCode(t, err, fence.CodeInvalidRequest)
	})
	t.Run("Cancelled", func(t *testing.T) {
		r := serve(t, nil)
		r.acquire("job")
		ctx, cancel := context.WithCancel(t.Context())
		_, err := listen(ctx, r.Client, client.EventQuery{Oldest: true}, func(fence.Event) bool { cancel(); return false })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("TheGatewayHasGone", func(t *testing.T) {
		r := serve(t, nil)
		r.acquire("job")
		_, err := listen(t.Context(), r.Client, client.EventQuery{Oldest: true}, func(fence.Event) bool {
			r.put(func(http.ResponseWriter, *http.Request, int, http.Handler) { hang() })
			r.server.CloseClientConnections()
			return false
		})
		if wantCode(t, err, fence.CodeUnavailable); r.asked() != 5 {
			t.Errorf("%d requests", r.asked())
		}
	})
	t.Run("TooManyForAMoment", func(t *testing.T) {
		r := serve(t, nil)
		r.acquire("job")
		events := 0
		_, err := listen(t.Context(), r.Client, client.EventQuery{Oldest: true}, func(fence.Event) bool {
			if events++; events == 1 {
				r.put(refusing(2, 429, fence.CodeRateLimited))
				r.server.CloseClientConnections()
				go func() { _, _ = r.memory.Acquire(context.Background(), lease.Request{Name: "next", Principal: "x"}) }()
			}
			return events == 2
		})
		if err != nil || r.asked() != 3 {
			t.Errorf("%v, %d requests", err, r.asked())
		}
	})
	t.Run("NoStream", func(t *testing.T) {
		r := serve(t, nil)
		r.put(answering(99, 200, "text/html", "<html>"))
		_, err := listen(t.Context(), r.Client, client.EventQuery{}, never)
		wantCode(t, err, fence.CodeUnavailable)
	})
	t.Run("TheListenerLeaves", func(t *testing.T) {
		r := serve(t, nil)
		r.acquire("job")
		if _, err := listen(t.Context(), r.Client, client.EventQuery{Oldest: true}, func(fence.Event) bool { return true }); err != nil {
			t.Error(err)
		}
	})
}

func TestEventStreamsOfOthers(t *testing.T) {
	const stream = ":\r\nretry: 1\r\n\r\nid: 7\nevent: granted\ndata: {\"kind\":\"granted\",\ndata: \"lease\":\"a\"}\n\n" +
		"nonsense\nid\n\ndata: {\"kind\":\"gap\"}\n\nid: 9\ndata:{\"kind\":\"released\",\"lease\":\"a\"}\n\nid: 10\ndata: {\"kind\":\"cut"
	r := serve(t, nil)
	var ids []string
	r.put(func(w http.ResponseWriter, req *http.Request, n int, _ http.Handler) {
		ids = append(ids, req.Header.Get("Last-Event-Id"))
		body := stream
		switch n {
		case 2:
			body = "data: " + strings.Repeat("x", 2000) + "\n\n"
		case 3:
			body = "data: {]\n\n"
		}
		answering(9, 200, "text/event-stream", body)(w, req, 1, nil)
	})
	c := r.client(func(c *client.Config) { c.MaxAnswer = 1000 })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	got, err := listen(ctx, c, client.EventQuery{}, func(fence.Event) bool { return false })
	if wantCode(t, err, fence.CodeInternal); told(got) != "granted a, gap , released a" || got[0].Position != "7" || got[1].Kind != client.EventGap {
		t.Errorf("told %+v, %v", got, err)
	}
	if fmt.Sprint(ids) != "[ 9 9]" {
		t.Errorf("taken up behind %q", ids)
	}
}
