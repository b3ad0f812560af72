package leasetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

func testPlaces(s *suite) {
	a, b, c, name := s.gateway(), s.gateway(), s.gateway(), s.name("places")
	a.enter(name, "a", 0)
	first := b.enter(name, "first", 1).Place
	second := c.enter(name, "second", 1).Place
	third := b.enter(name, "third", 1).Place
	if !(first < second && second < third) {
		s.fatalf("places %d, %d, %d", first, second, third)
	}
	if got := b.drop(name, "first"); got != (lease.Dropped{Had: true}) {
		s.fatalf("dropped %+v, want a place and nobody next", got)
	}
	s.stands(a.look(name), "second", "third")
	// A place that another entry gave up is a place, too.
	const far = 1e9
	for who, place := range map[string]int64{"first": first, "fourth": third + far, "before all": 1} {
		e := b.entry(who, 1)
		e.Place = place
		for range 2 {
			if got := b.enterWith(name, e); got.Place != place || got.Followed != (who != "fourth") {
				s.fatalf("%s stands %s, want place %d", who, show(got), place)
			}
		}
	}
	s.stands(a.look(name), "before all", "first", "second", "third", "fourth")
	last := c.enter(name, "last", 1)
	if last.Place <= third+far {
		s.fatalf("the last one stands %s, want it behind %d", show(last), third+far)
	}
	// What stands keeps its place.
	e := c.entry("last", 1)
	e.Place = 1
	if got := c.enterWith(name, e); got.Place != last.Place {
		s.fatalf("it moved from %d to %d", last.Place, got.Place)
	}
	if got := b.stay(name, "third", 1); got.Place != third || !got.Followed {
		s.fatalf("it stands %s, want place %d and followers", show(got), third)
	}
}

func testFollowed(s *suite) {
	a, b, c, name := s.gateway(), s.gateway(), s.gateway(), s.name("followed")
	if got := a.enter(name, "a", 1); got.Followed {
		s.fatalf("it stands %s, want nobody behind it", show(got))
	}
	if got := b.enter(name, "b", 1); got.Followed {
		s.fatalf("it stands %s, want nobody behind it", show(got))
	}
	a.told(lease.Followed, name, "a")
	if got := a.stay(name, "a", 1); !got.Followed || got.Place != 0 {
		s.fatalf("the holder stands %s, want followers and no place", show(got))
	}
	if got := a.extend(name, "a", time.Minute); !got.Followed {
		s.fatalf("the holder stands %s, want followers", show(got))
	}
	c.enter(name, "c", 1)
	b.told(lease.Followed, name, "b")
	if got := b.stay(name, "b", 1); !got.Followed {
		s.fatalf("it stands %s, want followers", show(got))
	}
	if got := c.stay(name, "c", 1); got.Followed || got.Place == 0 {
		s.fatalf("the last one stands %s", show(got))
	}
	if n := c.count(lease.Followed, name, "c"); n != 0 {
		s.fatalf("the last one was told of followers")
	}
	// What follows nobody is followed anew.
	c.drop(name, "c")
	if got := b.stay(name, "b", 1); got.Followed {
		s.fatalf("it stands %s, want nobody behind it", show(got))
	}
}

func testLeave(s *suite) {
	a, b, c, name := s.gateway(), s.gateway(), s.gateway(), s.name("leave")
	a.enter(name, "a", 0)
	b.enter(name, "b", 1)
	c.enter(name, "c", 1)
	for _, had := range []bool{true, false} {
		if got := b.drop(name, "b"); got != (lease.Dropped{Had: had}) {
			s.fatalf("dropped %+v, want had %v and nobody next", got, had)
		}
	}
	s.stands(c.look(name), "c")
	s.press()
	a.drop(name, "a")
	s.reserved(a.look(name), "c")
	// A reservation that is given up goes on at once.
	b.enter(name, "b", 1)
	if got := c.drop(name, "c"); got != (lease.Dropped{Had: true, Next: true}) {
		s.fatalf("dropped %+v, want it had and another next", got)
	}
	s.press()
	b.told(lease.Pushed, name, "b")
	s.held(b.extend(name, "b", time.Minute), "b", 50*time.Second, time.Minute)
	s.release()
	b.drop(name, "b")
	s.free(a.look(name))
}

func testNotes(s *suite) {
	a, b, c, name := s.gateway(), s.gateway(), s.gateway(), s.name("notes")
	a.enter(name, "a", 8)
	if got := b.look(name); got.Behind != 7 {
		s.fatalf("it stands %s, want 7 behind it", show(got))
	}
	if got := a.stay(name, "a", 5); got.Behind != 5 {
		s.fatalf("it stands %s, want 5 behind it", show(got))
	}
	notes := []string{"", ":", "3:x", "{\"a\":[1,\"ü\"]}", "'; DROP TABLE x; --", "%s\\n\n\t", "日本", strings.Repeat("n", lease.MaxNote)}
	for round := range 2 {
		for i, note := range notes {
			e := b.entry(fmt.Sprint("noted", i), i+1+round)
			e.Note = note
			if round == 0 {
				b.enterWith(name, e)
			} else if got, err := b.Stay(s.Context(), name, e); err != nil || got.Place == 0 {
				s.fatalf("stay: %s, %v", show(got), err)
			}
		}
		got := c.look(name)
		if len(got.Queue) != len(notes) {
			s.fatalf("%d entries, want %d", len(got.Queue), len(notes))
		}
		for i, q := range got.Queue {
			if q.Note != notes[i] || q.Waiters != i+1+round {
				s.fatalf("note %q of %d, want %q of %d", q.Note, q.Waiters, notes[i], i+1+round)
			}
		}
	}
	for _, n := range []int{0, 1, 3} {
		if got, err := c.Look(s.Context(), name, n); err != nil || len(got.Queue) != n || got.Entries != len(notes) {
			s.fatalf("a look at %d entries: %s, %v", n, show(got), err)
		}
	}
	// The note goes with the value to the lease.
	a.drop(name, "a")
	s.press()
	if got := c.look(name); got.Value != value(s, "noted0") || got.Behind != 2 {
		s.fatalf("it stands %s, want 2 behind noted0", show(got))
	}
}

func testNoteLimit(s *suite) {
	a, b, name := s.gateway(), s.gateway(), s.name("limit")
	e := a.entry("a", 1)
	e.Note = strings.Repeat("n", lease.MaxNote+1)
	refused := func(what string, err error) {
		s.Helper()
		if fence.CodeOf(err) != fence.CodeInvalidRequest {
			s.fatalf("%s with a note of %d bytes: %v, want %s", what, len(e.Note), err, fence.CodeInvalidRequest)
		}
	}
	_, err := a.Enter(s.Context(), name, e)
	refused("enter", err)
	s.free(b.look(name))
	b.enter(name, "b", 0)
	_, err = a.Enter(s.Context(), name, e)
	refused("enter", err)
	s.stands(b.look(name))
	a.enter(name, "a", 1)
	_, err = a.Stay(s.Context(), name, e)
	refused("stay", err)
	if got := b.look(name); len(got.Queue) != 1 || got.Queue[0].Note != "note of a" {
		s.fatalf("it stands %s, want the note as it was", show(got))
	}
}

func testQueueLimit(s *suite) {
	a, b, name := s.gateway(), s.gateway(), s.name("full")
	a.enter(name, "a", 0)
	place := a.enter(name, "stands", 1).Place
	if s.Fill != nil {
		s.Fill(s.T, a.Locker, name, lease.MaxQueue-1)
	} else {
		s.fill(a, name, lease.MaxQueue-1)
	}
	full := func(e lease.Entry) {
		s.Helper()
		if got, err := b.Enter(s.Context(), name, e); fence.CodeOf(err) != fence.CodeRateLimited {
			s.fatalf("the entry beyond the last: %s, %v; want %s", show(got), err, fence.CodeRateLimited)
		}
	}
	e := b.entry("too many", 1)
	full(e)
	e.Place = place - 1
	full(e)
	if got := b.enter(name, "too many", 0); got.Value != value(s, "a") || got.Place != 0 {
		s.fatalf("it stands %s, want it held by a", show(got))
	}
	if got := a.enter(name, "stands", 2); got.Place != place {
		s.fatalf("it stands %s, want its place %d", show(got), place)
	}
	got, err := b.Look(s.Context(), name, 2)
	if err != nil || got.Entries != lease.MaxQueue || len(got.Queue) != 2 {
		s.fatalf("it stands %s, %v; want %d entries", show(got), err, lease.MaxQueue)
	}
	a.drop(name, "stands")
	if got := b.enterWith(name, e); got.Place != place-1 {
		s.fatalf("it stands %s, want place %d once there is room", show(got), place-1)
	}
}

// fill enters so many entries, several at a time.
func (s *suite) fill(g *gateway, name string, entries int) {
	s.Helper()
	const hands = 16
	errs := make([]error, hands)
	var filling sync.WaitGroup
	ctx := context.WithoutCancel(s.Context())
	for hand := range hands {
		filling.Go(func() {
			for i := hand; i < entries && errs[hand] == nil; i += hands {
				_, errs[hand] = g.Enter(ctx, name, g.entry(fmt.Sprint("fills", i), 1))
			}
		})
	}
	filling.Wait()
	for _, err := range errs {
		if err != nil {
			s.fatalf("fill the queue: %v", err)
		}
	}
}
