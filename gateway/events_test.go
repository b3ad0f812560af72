package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/gatewaytest"
)

// happen makes each kind of event but those of the ledger's own, six of them; a is the gateway whose Run is running.
func happen(a *api) {
	a.t.Helper()
	old, _ := a.acquire("wallets%3A42", "X-User: worker-a")
	a.memory.Expire("wallets:42")
	a.acquire("wallets%3A42", "X-User: worker-b")
	a.refused(412, "stale-token", "PUT", "/v1/rows/wallets/42", `{"balance":1}`, old, "X-User: worker-a")
	within(a.t, "the refusal is recorded", func() bool { return a.gateway.Stats().RefusalsNoted == 1 })
	a.want(204, "POST", "/v1/leases/wallets%3A42/break", `{"reason":"<stuck>"}`, "X-User: operator")
	_, id := a.acquire("report:a", "X-User: worker-a")
	a.want(204, "DELETE", "/v1/leases/report:a", "", id, "X-User: worker-a")
}

// running serves a gateway whose Run is running.
func running(t *testing.T, change func(*gateway.Config)) *api {
	t.Helper()
	a := hurried(t, change)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.gateway.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return a
}

func TestEventsTranscript(t *testing.T) {
	a := running(t, nil)
	happen(a)
	s := a.stream("?from=oldest")
	var b strings.Builder
	b.WriteString("# everything that is kept\n> GET /v1/events?from=oldest\n< 200 OK\n")
	writeHeader(&b, s.resp.Header)
	for events := 0; events < 7; {
		next := s.block()
		lines(&b, "< ", next.text)
		if next.event != "" {
			events++
		}
	}
	got := b.String()
	for _, m := range masks {
		got = m.what.ReplaceAllString(got, m.with)
	}
	file := filepath.Join("testdata", "events.golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Fatalf("%s differs (rewrite it with -update):\n%s", file, firstDifference(string(want), got))
	}
}

func TestEventsBeginNow(t *testing.T) {
	a := hurried(t, nil)
	a.acquire("before")
	s := a.stream("")
	if b := s.block(); b.retry != "2000" || b.id != "1" || b.event != "" {
		t.Fatal(b.text)
	}
	a.acquire("behind")
	s.want("granted behind")
	now := a.stream("?from=now")
	a.acquire("third")
	now.want("granted third")
	s.want("granted third")
}

func TestEventsOfNothing(t *testing.T) {
	a := hurried(t, nil)
	streams := []*eventStream{a.stream(""), a.stream("?from=oldest")}
	a.acquire("a")
	for _, s := range streams {
		s.want("granted a")
	}
}

func TestEventsAreFiltered(t *testing.T) {
	a := running(t, nil)
	a.gateway.HurryStreams(gateway.StreamTimes{Heartbeat: 20 * time.Millisecond})
	happen(a)
	for query, want := range map[string][]string{
		"?from=oldest&prefix=report:":                      {"granted report:a", "released report:a"},
		"?from=oldest&kinds=broken,expired,refused":        {"expired wallets:42", "refused wallets:42", "broken wallets:42"},
		"?from=oldest&kinds=granted&prefix=wallets%3A4":    {"granted wallets:42", "granted wallets:42"},
		"?from=oldest&prefix=wallets%3A4+&kinds=granted":   nil,
		"?after=4&prefix=":                                 {"broken wallets:42", "granted report:a", "released report:a"},
		"?from=oldest&kinds=abandoned":                     nil,
		"?from=oldest&prefix=report:&kinds=released":       {"released report:a"},
		"?from=oldest&prefix=wallets&kinds=refused,broken": {"refused wallets:42", "broken wallets:42"},
	} {
		t.Run(query, func(t *testing.T) {
			a := a.in(t)
			var got []string
			s := a.stream(query)
			for b := s.block(); ; b = s.block() {
				if b.event != "" {
					got = append(got, b.event+" "+b.data.Lease)
				}
				if b.id == "7" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestEventsGoOn(t *testing.T) {
	a := hurried(t, nil)
	for _, name := range []string{"a", "b", "c"} {
		a.acquire(name)
	}
	t.Run("LastEventID", func(t *testing.T) {
		a := a.in(t)
		// As a browser does that connects again.
		s := a.stream("?from=oldest", "Last-Event-ID: 1")
		s.want("granted b", "granted c")
		a.stream("?after=0", "Last-Event-ID: 2").want("granted c")
	})
	t.Run("After", func(t *testing.T) { a.in(t).stream("?after=2").want("granted c") })
	t.Run("FilteredIDs", func(t *testing.T) {
		// What was not for the client is not looked at again when it comes back.
		a := hurried(t, nil)
		a.gateway.HurryStreams(gateway.StreamTimes{Heartbeat: 20 * time.Millisecond})
		a.acquire("a")
		s := a.stream("?from=oldest&prefix=x")
		for b := s.block(); b.id != "1"; b = s.block() {
			if b.event != "" {
				t.Fatal(b.text)
			}
		}
	})
	t.Run("AheadOfThisGateway", func(t *testing.T) {
		// Another gateway has told the client more than this one has looked at: nothing is told twice.
		slow := &slowEvents{Memory: gatewaytest.New()}
		slow.hidden.Store(2)
		a := hurried(t, func(c *gateway.Config) { c.Leases, c.Events = slow.Memory, slow })
		a.memory = slow.Memory
		a.acquire("a")
		a.acquire("b")
		first := a.stream("?from=oldest") // opens the window at the beginning
		s := a.stream("", "Last-Event-ID: 2")
		slow.hidden.Store(0)
		first.want("granted a", "granted b")
		a.acquire("c")
		s.want("granted c")
	})
}

// slowEvents does not show the newest events yet.
type slowEvents struct {
	*gatewaytest.Memory
	hidden atomic.Int64
}

func (s *slowEvents) Events(ctx context.Context, after string, limit int) ([]fence.Event, bool, error) {
	found, gone, err := s.Memory.Events(ctx, after, limit)
	return found[:max(0, len(found)-int(s.hidden.Load()))], gone, err
}

func (s *slowEvents) LastEvent(ctx context.Context) (string, error) {
	if s.hidden.Load() > 0 {
		return "", nil
	}
	return s.Memory.LastEvent(ctx)
}

func TestEventsThatAreGone(t *testing.T) {
	a := hurried(t, nil)
	a.acquire("a")
	a.acquire("b")
	live := a.stream("?from=oldest")
	live.want("granted a", "granted b")
	a.memory.Prune()
	t.Run("NoneLeft", func(t *testing.T) {
		a := a.in(t)
		s := a.stream("?kinds=granted", "Last-Event-ID: 1")
		if e := s.next(); e.Kind != "gap" || e.ID != "2" || e.Lease != "" {
			t.Errorf("%+v", e)
		}
		a.acquire("c")
		s.want("granted c")
	})
	t.Run("NothingMissed", func(t *testing.T) {
		a := a.in(t)
		live.want("granted c")
		a.stream("", "Last-Event-ID: 2").want("granted c")
	})
	t.Run("SomeLeft", func(t *testing.T) {
		a := a.in(t)
		s := a.stream("", "Last-Event-ID: 1")
		if e := s.next(); e.Kind != "gap" || e.ID != "" {
			t.Errorf("%+v", e)
		}
		s.want("granted c")
	})
	t.Run("OldestIsNoGap", func(t *testing.T) { a.in(t).stream("?from=oldest").want("granted c") })
}

// A gateway that is behind when events go learns it, and so do its streams.
func TestEventsThatGoUnderAStream(t *testing.T) {
	slow := &slowEvents{Memory: gatewaytest.New()}
	a := hurried(t, func(c *gateway.Config) { c.Leases, c.Events = slow.Memory, slow })
	a.acquire("a")
	s := a.stream("?from=oldest")
	s.want("granted a")
	slow.hidden.Store(1000)
	a.acquire("b")
	a.acquire("c")
	slow.Prune()
	slow.hidden.Store(0)
	if e := s.next(); e.Kind != "gap" {
		t.Fatalf("%+v", e)
	}
	a.acquire("d")
	s.want("granted d")
}

func TestEventsRefused(t *testing.T) {
	a := serve(t, nil)
	for _, tc := range []struct{ query, field, header string }{
		{"kinds=granted,lost", "kinds", ""},
		{"kinds=", "kinds", ""},
		{"kinds=granted,", "kinds", ""},
		{"kind=granted", "kind", ""},
		{"from=yesterday", "from", ""},
		{"from=oldest&after=1", "from", ""},
		{"prefix=a&prefix=b", "prefix", ""},
		{"after=x", "after", ""},
		{"after=" + strings.Repeat("1", 5000), "after", ""},
		{"after=1%0Adata:x", "after", ""},
		{"", "Last-Event-ID", "Last-Event-ID: x"},
		{"prefix=%zz", "prefix", ""},
	} {
		var headers []string
		if tc.header != "" {
			headers = append(headers, tc.header)
		}
		if p := a.refused(400, "invalid-request", "GET", "/v1/events?"+tc.query, "", headers...); p.Field != tc.field {
			t.Errorf("%s: %+v", tc.query, p)
		}
	}
	a.refused(400, "invalid-request", "GET", "/v1/events", "{}")
	a.refused(400, "invalid-request", "GET", "/v1/events", "", "Last-Event-ID: 1", "Last-Event-ID: 2")
	if n := a.gateway.Stats().Streams; n != 0 {
		t.Errorf("%d streams are left", n)
	}
	without := serve(t, func(c *gateway.Config) { c.Events = nil })
	without.refused(404, "not-found", "GET", "/v1/events", "")
	stranger := serve(t, func(c *gateway.Config) {
		c.Authenticate = func(*http.Request) (gateway.Caller, error) { return nil, errors.New("nobody") }
	})
	stranger.refused(401, "unauthenticated", "GET", "/v1/events", "")
	stranger.refused(401, "unauthenticated", "GET", "/v1/leases", "")
}

func TestEventsWhileTheLedgerIsAway(t *testing.T) {
	broken := &brokenEvents{Memory: gatewaytest.New()}
	a := serve(t, func(c *gateway.Config) { c.Leases, c.Events = broken.Memory, broken })
	broken.away.Store(true)
	a.refused(503, "unavailable", "GET", "/v1/events", "")
	a.refused(503, "unavailable", "GET", "/v1/events?after=1", "")
	a.refused(503, "unavailable", "GET", "/v1/events?from=oldest", "")
	if n := a.gateway.Stats().Streams; n != 0 {
		t.Errorf("%d streams are left", n)
	}
}

// brokenEvents is a ledger that is away at times.
type brokenEvents struct {
	*gatewaytest.Memory
	away atomic.Bool
}

func (b *brokenEvents) Events(ctx context.Context, after string, limit int) ([]fence.Event, bool, error) {
	if b.away.Load() {
		return nil, false, fence.Errorf(fence.CodeUnavailable, "no ledger")
	}
	return b.Memory.Events(ctx, after, limit)
}

func (b *brokenEvents) LastEvent(ctx context.Context) (string, error) {
	if b.away.Load() {
		return "", fence.Errorf(fence.CodeUnavailable, "no ledger")
	}
	return b.Memory.LastEvent(ctx)
}

// Only writes are recorded: whoever asks whether a token is still good is no late writer.
func TestQuestionsAreNoRefusals(t *testing.T) {
	a := running(t, nil)
	old, _ := a.acquire("t:1")
	a.memory.Expire("t:1")
	a.acquire("t:1")
	a.refused(412, "stale-token", "POST", "/v1/leases/t:1/verify", `{"token":1000}`)
	a.refused(412, "stale-token", "GET", "/v1/rows/t/1", "", old)
	a.refused(428, "token-required", "PUT", "/v1/rows/t/1", `{"n":1}`)
	a.refused(412, "stale-token", "DELETE", "/v1/rows/t/1", "", old)
	within(t, "the refusal is recorded", func() bool { return a.gateway.Stats().RefusalsNoted > 0 })
	s := a.stream("?from=oldest&kinds=refused")
	if e := s.next(); e.Code != "stale-token" || e.Token != 1000 || e.Resource != "rows/public.t/1" {
		t.Errorf("%+v", e)
	}
	if n := a.gateway.Stats().RefusalsNoted; n != 1 {
		t.Errorf("%d are recorded", n)
	}
}
