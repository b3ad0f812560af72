package pgstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// sender stands for the database: it takes a batch, lets the test see it, and answers when it is told to.
type sender struct {
	mu      sync.Mutex
	batches [][]string
	gate    chan struct{} // nil: answers at once
	alone   map[string]bool
}

func (s *sender) send(ctx context.Context, batch []*entry) {
	var names []string
	for _, e := range batch {
		names = append(names, e.resource)
		e.outcome.alone = s.alone[e.resource]
	}
	s.mu.Lock()
	s.batches = append(s.batches, names)
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			for _, e := range batch {
				e.outcome.err = classify(ctx.Err())
			}
		}
	}
}

func (s *sender) sent() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]string(nil), s.batches...)
}

func newLane(t *testing.T, s *sender) *lane {
	l := &lane{send: s.send, limit: time.Hour, patient: time.Hour, writing: make(map[string]bool)}
	t.Cleanup(l.close)
	return l
}

// writing begins a write and waits until the lane has it.
func writing(t *testing.T, l *lane, ctx context.Context, e *entry) <-chan error {
	t.Helper()
	before := l.known()
	done := make(chan error, 1)
	go func() { done <- l.write(ctx, e) }()
	within(t, "the lane has the write", func() bool { return l.known() > before || len(done) > 0 })
	return done
}

// known is how many writes the lane has been given and not answered.
func (l *lane) known() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) + len(l.writing)
}

func within(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func to(resource string) *entry { return &entry{resource: resource, size: 10} }

func TestLaneSendsTogetherWhatArrivesMeanwhile(t *testing.T) {
	s := &sender{gate: make(chan struct{})}
	l := newLane(t, s)
	ctx := t.Context()
	dones := []<-chan error{writing(t, l, ctx, to("a"))}
	for _, name := range []string{"b", "c", "b", "a", "d"} {
		dones = append(dones, writing(t, l, ctx, to(name)))
	}
	for range 3 {
		s.gate <- struct{}{}
	}
	for _, done := range dones {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	// At most one write of a resource is in a batch, and none of one that is being written.
	if got := fmt.Sprint(s.sent()); got != "[[a] [b c a d] [b]]" {
		t.Errorf("batches %s", got)
	}
}

func TestLaneKeepsCompanies(t *testing.T) {
	s := &sender{gate: make(chan struct{})}
	l := newLane(t, s)
	dones := []<-chan error{writing(t, l, t.Context(), to("x"))}
	for _, name := range []string{"a", "b1", "c", "b2", "a"} {
		e := to(name[:1] + name)
		e.resource = name
		if name[0] == 'b' {
			e.company = "b"
		}
		dones = append(dones, writing(t, l, t.Context(), e))
	}
	later := to("b1") // of no company, but behind one of the same resource
	dones = append(dones, writing(t, l, t.Context(), later))
	for range 4 {
		s.gate <- struct{}{}
	}
	for _, done := range dones {
		<-done
	}
	if got := fmt.Sprint(s.sent()); got != "[[x] [a c] [b1 b2] [a b1]]" {
		t.Errorf("batches %s", got)
	}
}

func TestLaneLetsGo(t *testing.T) {
	s := &sender{gate: make(chan struct{})}
	l := newLane(t, s)
	lead := writing(t, l, t.Context(), to("a"))
	ctx, cancel := context.WithCancel(t.Context())
	queued := writing(t, l, ctx, to("b"))
	cancel()
	if err := <-queued; fence.CodeOf(err) != fence.CodeUnavailable {
		t.Errorf("given up before it was sent: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	e := to("c")
	sent := writing(t, l, ctx, e)
	s.gate <- struct{}{}
	within(t, "the second batch is sent", func() bool { return len(s.sent()) == 2 })
	cancel()
	if err := <-sent; fence.CodeOf(err) != fence.CodeOutcomeUnknown {
		t.Errorf("given up under way: %v", err)
	}
	s.gate <- struct{}{}
	<-lead
	within(t, "nothing is being written", func() bool { return l.known() == 0 })
	if got := fmt.Sprint(s.sent()); got != "[[a] [c]]" {
		t.Errorf("batches %s", got)
	}
}

// A write that is told to go alone keeps its resource until it leaves; one whose caller has gone does not.
func TestLaneGoingAlone(t *testing.T) {
	s := &sender{gate: make(chan struct{}), alone: map[string]bool{"a": true, "g": true}}
	l := newLane(t, s)
	e := to("a")
	first := writing(t, l, t.Context(), e)
	s.gate <- struct{}{}
	<-first
	second := writing(t, l, t.Context(), to("a"))
	other := writing(t, l, t.Context(), to("b"))
	s.gate <- struct{}{}
	<-other
	if len(second) > 0 || len(s.sent()) != 2 {
		t.Fatalf("batches %v", s.sent())
	}
	l.leave(e)
	s.gate <- struct{}{}
	<-second
	l.leave(to("a"))

	hold := writing(t, l, t.Context(), to("h"))
	ctx, cancel := context.WithCancel(t.Context())
	gone := writing(t, l, ctx, to("g"))
	s.gate <- struct{}{}
	<-hold
	within(t, "the batch of g is sent", func() bool { return len(s.sent()) == 5 })
	cancel()
	<-gone
	s.gate <- struct{}{}
	within(t, "nothing is being written", func() bool { return l.known() == 0 })
}

func TestLaneIsBounded(t *testing.T) {
	s := &sender{gate: make(chan struct{})}
	l := newLane(t, s)
	lead := writing(t, l, t.Context(), to("a"))
	big := to("b")
	big.size = queueBytes
	huge := writing(t, l, t.Context(), big)
	if err := l.write(t.Context(), to("c")); fence.CodeOf(err) != fence.CodeOverloaded {
		t.Errorf("beyond the bytes: %v", err)
	}
	s.gate <- struct{}{}
	s.gate <- struct{}{}
	<-huge
	<-lead
	lead = writing(t, l, t.Context(), to("a"))
	l.mu.Lock()
	for i := range queueLimit {
		l.queue = append(l.queue, &entry{resource: fmt.Sprint(i), values: t.Context(), done: make(chan struct{})})
	}
	l.mu.Unlock()
	if err := l.write(t.Context(), to("c")); fence.CodeOf(err) != fence.CodeOverloaded {
		t.Errorf("beyond the number: %v", err)
	}
	close(s.gate)
	<-lead
	within(t, "the queue is empty", func() bool { return l.known() == 0 })
	for _, batch := range s.sent() {
		if len(batch) > batchLimit {
			t.Errorf("a batch of %d", len(batch))
		}
	}
}

// A batch that takes long is passed by, what waits too long is refused, and order of a resource is kept all the while.
func TestLanePassesBy(t *testing.T) {
	s := &sender{gate: make(chan struct{})}
	l := newLane(t, s)
	l.limit, l.patient = 20*time.Millisecond, 150*time.Millisecond
	stuck := writing(t, l, t.Context(), to("a"))
	behind := writing(t, l, t.Context(), to("a"))
	passes := writing(t, l, t.Context(), to("b"))
	within(t, "the second flight", func() bool { return len(s.sent()) == 2 })
	if err := <-behind; fence.CodeOf(err) != fence.CodeOverloaded {
		t.Errorf("behind a write that is stuck: %v", err)
	}
	s.gate <- struct{}{}
	s.gate <- struct{}{}
	<-passes
	<-stuck
	if got := fmt.Sprint(s.sent()); got != "[[a] [b]]" {
		t.Errorf("batches %s", got)
	}
}

func TestLaneCloses(t *testing.T) {
	s := &sender{gate: make(chan struct{})}
	l := newLane(t, s)
	lead := writing(t, l, t.Context(), to("a"))
	queued := writing(t, l, t.Context(), to("b"))
	closed := make(chan struct{})
	go func() { l.close(); close(closed) }()
	if err := <-queued; fence.CodeOf(err) != fence.CodeUnavailable {
		t.Errorf("queued when it was closed: %v", err)
	}
	<-closed
	if err := l.write(t.Context(), to("c")); fence.CodeOf(err) != fence.CodeUnavailable {
		t.Errorf("after it was closed: %v", err)
	}
	s.gate <- struct{}{}
	<-lead
}

// Many callers, few resources: each write is sent once, no two of a resource at a time, and nothing is left behind.
func TestLaneUnderLoad(t *testing.T) {
	var (
		busy  sync.Map
		wrong atomic.Int64
		sent  atomic.Int64
	)
	l := &lane{limit: 2 * time.Millisecond, patient: 10 * time.Second, writing: make(map[string]bool)}
	enter := func(e *entry) {
		if _, twice := busy.LoadOrStore(e.resource, true); twice {
			wrong.Add(1)
		}
	}
	l.send = func(_ context.Context, batch []*entry) {
		for _, e := range batch {
			enter(e)
		}
		time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond) // some are passed by
		for _, e := range batch {
			sent.Add(1)
			e.outcome.alone = rand.IntN(10) == 0
			busy.Delete(e.resource)
		}
	}
	var (
		callers sync.WaitGroup
		given   atomic.Int64
	)
	for range 32 {
		callers.Go(func() {
			for range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(60))*time.Millisecond)
				e := to(fmt.Sprint(rand.IntN(12)))
				switch err := l.write(ctx, e); {
				case err == nil && e.outcome.alone:
					enter(e)
					busy.Delete(e.resource)
					l.leave(e)
				case fence.CodeOf(err) == fence.CodeUnavailable:
					given.Add(1)
				}
				cancel()
			}
		})
	}
	callers.Wait()
	l.close()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d writes of a resource that was being written", n)
	}
	if n := sent.Load() + given.Load(); n != 32*60 {
		t.Errorf("%d writes were sent or given up, of %d", n, 32*60)
	}
	if len(l.queue)+len(l.writing)+len(l.flights) > 0 {
		t.Errorf("%d in the queue, %d resources, %d flights are left", len(l.queue), len(l.writing), len(l.flights))
	}
}

// A panic in a caller's goroutine, which an HTTP server recovers, leaves nothing behind.
func TestLaneOutlivesAPanic(t *testing.T) {
	panics := true
	l := &lane{limit: 10 * time.Millisecond, patient: 300 * time.Millisecond, writing: make(map[string]bool)}
	l.send = func(context.Context, []*entry) {
		if panics {
			panic("a tracer")
		}
	}
	for i := range laneFlights {
		if i > 0 {
			time.Sleep(2 * l.limit)
		}
		func() {
			defer func() { _ = recover() }()
			_ = l.write(t.Context(), &entry{resource: string(rune('a' + i))})
		}()
	}
	panics = false
	if err := l.write(t.Context(), &entry{resource: "z"}); err != nil {
		t.Errorf("another resource: %v", err)
	}
	if err := l.write(t.Context(), &entry{resource: "a"}); err != nil {
		t.Errorf("the same resource: %v", err)
	}
	l.close()
}

// A write does not overtake one of the same resource that waits, though what that waits for has taken too long.
func TestLaneKeepsTheOrderOfAResource(t *testing.T) {
	gate, sent := make(chan struct{}), make(chan fence.Token, 10)
	l := &lane{limit: 100 * time.Millisecond, patient: time.Hour, writing: make(map[string]bool)}
	l.send = func(_ context.Context, batch []*entry) {
		for _, e := range batch {
			if e.resource == "slow" {
				<-gate
			}
			sent <- fence.Token(e.write.token)
		}
	}
	write := func(resource string, token int64) {
		_ = l.write(context.Background(), &entry{resource: resource, write: writeArgs{token: token}})
	}
	go write("slow", 0)
	within(t, "slow is under way", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.flights) == 1 })
	// The watch begins with the first that waits, so it looks later than the flight is old.
	time.Sleep(60 * time.Millisecond)
	go write("r", 1)
	within(t, "r waits", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.queue) == 1 })
	time.Sleep(60 * time.Millisecond)
	write("r", 2)
	if first := <-sent; first != 1 {
		t.Errorf("write %d went first", first)
	}
	close(gate)
	l.close()
}
