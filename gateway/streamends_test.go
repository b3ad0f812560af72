package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/gatewaytest"
	"github.com/fencegate/fencegate/lease"
)

func TestDrainEndsStreams(t *testing.T) {
	a := hurried(t, nil)
	s := a.stream("")
	a.gateway.Leave()
	a.acquire("a")
	s.want("granted a")
	a.gateway.Drain()
	s.ends()
	got := a.want(503, "GET", "/v1/events", "")
	if p := got.problem(t); p.Code != "unavailable" || !p.Retryable || got.Header.Get("Retry-After") == "" {
		t.Error(got.text)
	}
	within(t, "no stream is left", func() bool { return a.gateway.Stats().Streams == 0 })
}

func TestStreamOfASilentLedger(t *testing.T) {
	a := hurried(t, nil)
	a.gateway.HurryStreams(gateway.StreamTimes{Heartbeat: 10 * time.Millisecond})
	s := a.stream("")
	s.block()
	for range 3 {
		if b := s.block(); !b.comment || b.id != "" {
			t.Fatal(b.text)
		}
	}
}

func TestHeadOfAStream(t *testing.T) {
	a := hurried(t, nil)
	got := a.want(200, "HEAD", "/v1/events", "")
	if got.Header.Get("Content-Type") != "text/event-stream" || got.text != "" || a.gateway.Stats().Streams != 0 {
		t.Error(got.Header, got.text)
	}
	a.want(400, "HEAD", "/v1/events?kinds=x", "")
}

// raw opens a connection and sends a request as it stands.
func (a *api) raw(request string) net.Conn {
	a.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		a.t.Fatal(err)
	}
	return conn
}

// A client of HTTP/1.0 gets the same without chunks, and its connection is not used again.
func TestStreamOverHTTP10(t *testing.T) {
	a := hurried(t, nil)
	a.acquire("a")
	conn := a.raw("GET /v1/events?from=oldest HTTP/1.0\r\n\r\n")
	lines := bufio.NewScanner(conn)
	var got []string
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
		got = append(got, lines.Text())
	}
	if text := strings.Join(got, "\n"); strings.Contains(text, "chunked") || !strings.Contains(text, "\n\nretry: 2000\n\nid: 1\nevent: granted") {
		t.Errorf("%s", text)
	}
	a.gateway.Drain()
	for lines.Scan() {
	}
	if lines.Err() != nil {
		t.Error(lines.Err())
	}
}

// grant takes a lease past the gateway.
func (a *api) grant(name string) {
	a.t.Helper()
	if _, err := a.memory.Acquire(a.t.Context(), lease.Request{Name: name, Principal: "p"}); err != nil {
		a.t.Fatal(err)
	}
}

func TestClientThatDoesNotReadIsCutOff(t *testing.T) {
	a := hurried(t, nil)
	a.gateway.HurryStreams(gateway.StreamTimes{Stall: 2 * time.Second})
	a.acquire("first")
	stalled := a.raw("GET /v1/events?from=oldest HTTP/1.1\r\nHost: h\r\n\r\n")
	within(t, "the stream is open", func() bool { return a.gateway.Stats().Streams == 1 })
	live := a.stream("")
	live.block()
	long := strings.Repeat("x", 20_000) // 12 MB are more than the buffers of a connection hold
	for i := range 600 {
		a.grant(fmt.Sprintf("%s%d", long, i))
	}
	a.acquire("last")
	for e := live.next(); e.Lease != "last"; e = live.next() {
	}
	within(t, "whoever does not read is cut off", func() bool { return a.gateway.Stats().Streams == 1 })
	// What was sent is there; the id that came last is where it goes on.
	id := ""
	for lines := bufio.NewScanner(stalled); lines.Scan(); {
		if after, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			id = after
		}
	}
	s := a.stream("", "Last-Event-ID: "+id)
	for e := s.next(); e.Lease != "last"; e = s.next() {
	}
}

// A stream that is further behind than what the gateway keeps reads by itself, and misses nothing.
func TestStreamBehindTheWindow(t *testing.T) {
	a := hurried(t, nil)
	a.gateway.HurryStreams(gateway.StreamTimes{Window: 10})
	live := a.stream("")
	live.block()
	const events = 1000
	for i := range events {
		a.grant(fmt.Sprint(i))
	}
	s := a.stream("?from=oldest")
	for want := range events {
		if e := s.next(); e.ID != fmt.Sprint(want+1) {
			t.Fatalf("got event %s, want %d", e.ID, want+1)
		}
		if e := live.next(); e.ID != fmt.Sprint(want+1) {
			t.Fatalf("the live stream got event %s, want %d", e.ID, want+1)
		}
	}
	a.acquire("more")
	s.want("granted more")
}

// The write timeout of a server bounds answers, not streams.
func TestStreamOutlastsTheServersTimeouts(t *testing.T) {
	mem := gatewaytest.New()
	g, err := gateway.New(gateway.Config{Leases: mem, Rows: mem, Objects: mem, Readiness: mem, Events: mem})
	if err != nil {
		t.Fatal(err)
	}
	g.HurryStreams(gateway.StreamTimes{Poll: 5 * time.Millisecond})
	server := httptest.NewUnstartedServer(g)
	server.Config.WriteTimeout, server.Config.ReadTimeout = 50*time.Millisecond, 50*time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	a := &api{t: t, url: server.URL, client: server.Client(), gateway: g, memory: mem}
	s := a.stream("")
	s.block()
	time.Sleep(150 * time.Millisecond)
	a.acquire("a")
	s.want("granted a")
}

// One goroutine looks for events, and nobody does without streams.
func TestOnePollerForAllStreams(t *testing.T) {
	counted := &countedEvents{Memory: gatewaytest.New()}
	a := serve(t, func(c *gateway.Config) { c.Leases, c.Events = counted.Memory, counted })
	a.gateway.HurryStreams(gateway.StreamTimes{Poll: 10 * time.Millisecond})
	a.memory = counted.Memory
	asked := func() int64 {
		before := counted.asked.Load()
		for i := range 20 {
			a.grant(fmt.Sprintf("l%d-%d", before, i))
			time.Sleep(10 * time.Millisecond)
		}
		return counted.asked.Load() - before
	}
	streams := make([]*eventStream, 10)
	for i := range streams {
		streams[i] = a.stream("")
		streams[i].block()
	}
	if n := asked(); n == 0 || n > 60 {
		t.Errorf("%d questions for %d streams in the time of 20 looks", n, len(streams))
	}
	for _, s := range streams {
		s.leave()
	}
	within(t, "no stream is left", func() bool { return a.gateway.Stats().Streams == 0 })
	if n := asked(); n > 1 {
		t.Errorf("%d questions without streams", n)
	}
}

type countedEvents struct {
	*gatewaytest.Memory
	asked atomic.Int64
}

func (c *countedEvents) Events(ctx context.Context, after string, limit int) ([]fence.Event, bool, error) {
	c.asked.Add(1)
	return c.Memory.Events(ctx, after, limit)
}

// A ledger that comes back goes on where it was.
func TestStreamOutlastsTheLedger(t *testing.T) {
	broken := &brokenEvents{Memory: gatewaytest.New()}
	a := hurried(t, func(c *gateway.Config) { c.Leases, c.Events = broken.Memory, broken })
	a.memory = broken.Memory
	a.gateway.HurryStreams(gateway.StreamTimes{Heartbeat: 10 * time.Millisecond})
	s := a.stream("")
	s.block()
	broken.away.Store(true)
	within(t, "the gateway notices", func() bool { return strings.Contains(a.log.String(), "events cannot be read") })
	for range 3 {
		if b := s.block(); !b.comment {
			t.Fatal(b.text)
		}
	}
	a.grant("a")
	broken.away.Store(false)
	s.want("granted a")
	if n := strings.Count(a.log.String(), "events cannot be read"); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
}

// The deadlines of a stream must not be those of the next request.
func TestConnectionOfAStreamIsNotUsedAgain(t *testing.T) {
	a := hurried(t, nil)
	if !a.stream("").resp.Close {
		t.Error("the connection is kept")
	}
}
