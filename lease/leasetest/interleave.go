package leasetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

const (
	// interleavingTime is when no further sequence is begun.
	interleavingTime = time.Second
	mostCalls        = 40
)

// testInterleavings compares random calls by three gateways on two leases with a model of them. Leases run for hours,
// and a sequence ends when a reservation may have passed: the model knows no time.
func testInterleavings(s *suite) {
	gateways := s.gateways(3)
	began, sequences, failed := time.Now(), 0, false
	rapid.Check(s.T, func(t *rapid.T) {
		// A failure is tried again, to be made shorter.
		if !failed && time.Since(began) > interleavingTime {
			return
		}
		sequences++
		q := &sequence{T: t, s: s, gateways: gateways, leases: map[string]*model{}}
		defer func() {
			if t.Failed() {
				failed = true
			}
		}()
		for n := range 2 {
			q.leases[s.name(fmt.Sprintf("any/%d/%d", sequences, n))] = &model{places: map[*waiter]int64{}}
		}
		q.run()
	})
	s.Logf("%d sequences in %v", sequences, time.Since(began).Round(time.Millisecond))
}

// waiter is a value of a gateway.
type waiter struct {
	value   fence.Digest
	gateway int
	label   string
}

// GoString keeps what rapid prints short.
func (w *waiter) GoString() string { return w.label }

// model is a lease as the contract has it.
type model struct {
	waiters []*waiter // all that the sequence uses

	holder    *waiter // nil when nobody holds it
	reserved  bool
	name      string // the holder's
	behind    int
	remaining time.Duration
	tenant    fence.Digest
	renewed   time.Duration

	queue  []*entry
	places map[*waiter]int64 // where a waiter stood last
}

// entry stands in a model's queue, which is in the order of places.
type entry struct {
	*waiter
	place   int64
	waiters int
	note    string
}

func (m *model) index(w *waiter) int {
	return slices.IndexFunc(m.queue, func(e *entry) bool { return e.waiter == w })
}

// handOn gives the lease to the first of the queue, and tells to whom.
func (m *model) handOn() *waiter {
	*m = model{waiters: m.waiters, queue: m.queue, places: m.places}
	if len(m.queue) == 0 {
		return nil
	}
	first := m.queue[0]
	m.queue = m.queue[1:]
	m.holder, m.reserved, m.behind = first.waiter, true, first.waiters
	return m.holder
}

// insert puts an entry in its place, and tells behind whom that is the first to stand, with how many waiters.
func (m *model) insert(e *entry) (followed *waiter, waiters int) {
	at := len(m.queue)
	for at > 0 && m.queue[at-1].place > e.place {
		at--
	}
	switch {
	case len(m.queue) == 0:
		followed, waiters = m.holder, m.behind
	case at == len(m.queue):
		followed, waiters = m.queue[at-1].waiter, m.queue[at-1].waiters
	}
	m.queue = slices.Insert(m.queue, at, e)
	return followed, waiters
}

// sequence is one run of calls.
type sequence struct {
	*rapid.T
	s        *suite
	gateways []*gateway
	leases   map[string]*model
	calls    []string
	// handed is when the oldest reservation that is not claimed was made.
	handed time.Time
	// pushed and followed are what has to be told.
	pushed, followed map[signalTo]int
}

type signalTo struct {
	gateway int
	name    string
	value   fence.Digest
}

func (q *sequence) run() {
	q.pushed, q.followed = map[signalTo]int{}, map[signalTo]int{}
	names := slices.Sorted(maps.Keys(q.leases))
	for _, name := range names {
		for g := range q.gateways {
			for v := range 2 {
				label := fmt.Sprintf("%c%d", 'a'+g, v)
				w := &waiter{value: fence.DigestOf(name, label), gateway: g, label: label}
				q.leases[name].waiters = append(q.leases[name].waiters, w)
			}
		}
	}
	defer q.clear()
	for range rapid.IntRange(1, mostCalls).Draw(q.T, "calls") {
		if !q.step(rapid.SampledFrom(names).Draw(q.T, "lease")) {
			return
		}
	}
	q.signals()
}

// clear drops what is left, so that no reservation goes round in the server.
func (q *sequence) clear() {
	for name, m := range q.leases {
		for _, w := range slices.Backward(m.waiters) {
			q.gateways[w.gateway].Drop(q.s.Context(), name, w.value)
		}
	}
}

// slow tells whether a reservation may have passed.
func (q *sequence) slow() bool {
	for _, m := range q.leases {
		if m.reserved {
			return time.Since(q.handed) > lease.Window*3/4
		}
	}
	q.handed = time.Time{}
	return false
}

func (q *sequence) reservedNow(at time.Time) {
	if q.handed.IsZero() {
		q.handed = at
	}
}

func (q *sequence) failf(format string, args ...any) {
	q.Helper()
	q.Fatalf("%s\nafter these calls:\n%s", fmt.Sprintf(format, args...), strings.Join(q.calls, "\n"))
}

// signals waits for what had to be told, and finds no push that had not.
func (q *sequence) signals() {
	told := func(kind lease.SignalKind) map[signalTo]int {
		got := map[signalTo]int{}
		for n, g := range q.gateways {
			for _, signal := range g.heard() {
				if _, ours := q.leases[signal.Name]; ours && signal.Kind == kind {
					got[signalTo{n, signal.Name, signal.Value}]++
				}
			}
		}
		return got
	}
	covers := func(got, want map[signalTo]int) bool {
		for to := range want {
			if got[to] == 0 {
				return false
			}
		}
		return true
	}
	for deadline := time.Now().Add(patience); ; q.s.pause(time.Millisecond) {
		pushed, followed := told(lease.Pushed), told(lease.Followed)
		if maps.Equal(pushed, q.pushed) && covers(followed, q.followed) {
			return
		}
		if time.Now().After(deadline) {
			q.failf("signals: pushed %v, want %v; followed %v, want at least %v", pushed, q.pushed, followed, q.followed)
		}
	}
}
