package leasetest

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// step makes one call and compares. It reports false when the sequence has to end: a reservation may have passed.
func (q *sequence) step(name string) bool {
	m := q.leases[name]
	w := rapid.SampledFrom(m.waiters).Draw(q.T, "value")
	what := rapid.SampledFrom([]string{"enter", "enter", "stay", "extend", "extend foreign", "drop", "drop", "drop foreign", "look"}).Draw(q.T, "call")
	// Most reservations are claimed, most leases dropped: otherwise hardly anything is ever handed on.
	if m.holder != nil && rapid.Bool().Draw(q.T, "of the holder") {
		w = m.holder
	}
	at := w.gateway
	if what == "extend foreign" || what == "drop foreign" {
		at = (w.gateway + rapid.IntRange(1, len(q.gateways)-1).Draw(q.T, "from")) % len(q.gateways)
	}
	switch g := q.gateways[at]; what {
	case "enter", "stay":
		return q.enter(g, name, m, w, what == "enter")
	case "extend", "extend foreign":
		return q.extend(g, name, m, w, at != w.gateway)
	case "drop", "drop foreign":
		return q.drop(g, name, m, w, at != w.gateway)
	default:
		got, err := g.Look(q.s.Context(), name, 100)
		q.log("look %s: %s, %v", name, show(got), err)
		return !q.slow() && q.compare(got, err, m, nil, true)
	}
}

func (q *sequence) log(format string, args ...any) {
	q.calls = append(q.calls, fmt.Sprintf(format, args...))
}

func (q *sequence) enter(g *gateway, name string, m *model, w *waiter, takes bool) bool {
	e := lease.Entry{Value: w.value, Holder: w.label, Waiters: rapid.IntRange(0, 2).Draw(q.T, "waiters"), Note: rapid.SampledFrom([]string{"", "n", "3:n"}).Draw(q.T, "note")}
	e.TTL = time.Duration(rapid.IntRange(1, 4).Draw(q.T, "hours")) * time.Hour
	if rapid.Bool().Draw(q.T, "at its place") {
		e.Place = m.places[w]
	}
	call, what := g.Stay, "stay"
	if takes {
		call, what = g.Enter, "enter"
	}
	got, err := call(q.s.Context(), name, e)
	q.log("%s %s %s waiters %d place %d for %v: %s, %v", what, name, w.label, e.Waiters, e.Place, e.TTL, show(got), err)
	if q.slow() {
		return false
	}
	i := m.index(w)
	switch {
	case m.holder == w:
		m.behind = e.Waiters
		if !m.reserved && takes {
			m.behind = max(0, e.Waiters-1)
		}
		if !m.reserved && takes {
			// Whether a repetition is told the place again is left open.
			got.Place = 0
		}
	case i >= 0:
		m.queue[i].waiters, m.queue[i].note = e.Waiters, e.Note
	case !takes:
	case m.holder == nil:
		m.holder, m.name, m.behind, m.remaining = w, w.label, max(0, e.Waiters-1), e.TTL
		if got.Place <= 1 || e.Place != 0 && got.Place != e.Place {
			q.failf("taken, it has place %d", got.Place)
		}
		m.places[w], got.Place = got.Place, 0
	case e.Waiters > 0:
		place := e.Place
		if place == 0 {
			place = got.Place
			if len(m.queue) > 0 && place <= m.queue[len(m.queue)-1].place || place <= 1 {
				q.failf("place %d is not behind the queue", place)
			}
		}
		for _, other := range m.queue {
			if other.place == place {
				return false
			}
		}
		m.places[w] = place
		f, waiters := m.insert(&entry{waiter: w, place: place, waiters: e.Waiters, note: e.Note})
		// One with nobody behind it in its own gateway has nobody whom it concerns.
		if f != nil && f.gateway != w.gateway && waiters > 0 {
			q.followed[signalTo{f.gateway, name, f.value}]++
		}
	}
	return q.compare(got, err, m, w, false)
}

func (q *sequence) extend(g *gateway, name string, m *model, w *waiter, foreign bool) bool {
	x := lease.Extension{Value: w.value, Holder: rapid.SampledFrom([]string{"x", "y"}).Draw(q.T, "holder")}
	x.Tenant = tenant(x.Holder)
	x.TTL = time.Duration(rapid.IntRange(1, 4).Draw(q.T, "hours")) * time.Hour
	x.Waiters = rapid.IntRange(lease.KeepWaiters, 2).Draw(q.T, "waiters")
	if !foreign && rapid.Bool().Draw(q.T, "under the next value") {
		x.Next = lease.NextValue(w.value)
	}
	got, err := g.Extend(q.s.Context(), name, x)
	q.log("extend %s %s foreign %v for %v: %s, %v", name, w.label, foreign, x.TTL, show(got), err)
	if q.slow() {
		return false
	}
	if m.holder == w {
		if m.reserved || x.Next != (fence.Digest{}) {
			m.remaining = 0
		}
		if m.reserved {
			m.reserved, m.name = false, x.Holder
		}
		m.tenant, m.renewed = x.Tenant, 0
		if foreign {
			m.renewed = x.TTL
		}
		m.remaining = max(m.remaining, x.TTL)
		if !foreign && x.Waiters >= 0 {
			m.behind = x.Waiters
		}
		if (x.Next != fence.Digest{}) {
			w.value = x.Next
		}
	}
	return q.compare(got, err, m, w, false)
}

func (q *sequence) drop(g *gateway, name string, m *model, w *waiter, foreign bool) bool {
	at := time.Now()
	got, err := g.Drop(q.s.Context(), name, w.value)
	q.log("drop %s %s foreign %v: %+v, %v", name, w.label, foreign, got, err)
	if q.slow() {
		return false
	}
	var want lease.Dropped
	var next *waiter
	i := m.index(w)
	switch {
	case m.holder == w && foreign && m.behind > 0:
		next, want.Had = w, true
		w.value = lease.NextValue(w.value)
		m.reserved, m.name, m.tenant, m.renewed = true, "", fence.Digest{}, 0
	case m.holder == w:
		next, want.Had = m.handOn(), true
	case i >= 0:
		want.Had = true
		m.queue = append(m.queue[:i:i], m.queue[i+1:]...)
	}
	if next != nil {
		want.Next = true
		q.pushed[signalTo{next.gateway, name, next.value}]++
		q.reservedNow(at)
	}
	if err != nil || got != want {
		q.failf("dropped %+v, %v; want %+v", got, err, want)
	}
	return true
}

// compare holds what a call told to the model. The value that was asked about is w's, if any.
func (q *sequence) compare(got lease.Standing, err error, m *model, w *waiter, whole bool) bool {
	if err != nil {
		q.failf("%v", err)
	}
	want := lease.Standing{Reserved: m.reserved, Behind: m.behind, Holder: m.name, Tenant: m.tenant}
	if m.holder != nil {
		want.Value = m.holder.value
	}
	if i := m.index(w); i >= 0 {
		want.Place, want.Followed = m.queue[i].place, i < len(m.queue)-1
	} else if w != nil && m.holder == w {
		want.Followed = len(m.queue) > 0
	}
	if m.reserved {
		// Of a reservation only the value counts.
		got.Holder, got.Tenant, want.Holder, want.Tenant = "", fence.Digest{}, "", fence.Digest{}
	} else if m.holder != nil {
		q.about("remaining", got.Remaining, m.remaining)
		q.about("renewed", got.Renewed, m.renewed)
	}
	if got.Value != want.Value || got.Reserved != want.Reserved || got.Behind != want.Behind || got.Holder != want.Holder || got.Tenant != want.Tenant ||
		got.Place != want.Place || got.Followed != want.Followed {
		q.failf("it stands %s, want %s", show(got), show(want))
	}
	if whole {
		q.compareQueue(got, m)
	}
	return true
}

func (q *sequence) compareQueue(got lease.Standing, m *model) {
	if got.Entries != len(m.queue) || len(got.Queue) != len(m.queue) {
		q.failf("%d entries, %d of them told; want %d", got.Entries, len(got.Queue), len(m.queue))
	}
	for i, e := range m.queue {
		if got.Queue[i] != (lease.Queued{Value: e.value, Waiters: e.waiters, Note: e.note}) {
			q.failf("entry %d of the queue is %+v, want %s with %d waiters, note %q", i, got.Queue[i], e.label, e.waiters, e.note)
		}
	}
}

// about compares times that are whole hours in the model.
func (q *sequence) about(what string, got, want time.Duration) {
	if got > want+q.s.Slack || want > 0 && got < want-5*time.Minute {
		q.failf("%s is %v, want %v", what, got, want)
	}
}
