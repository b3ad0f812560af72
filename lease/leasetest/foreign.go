package leasetest

import (
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

func testForeignDrop(s *suite) {
	a, b, c, name := s.gateway(), s.gateway(), s.gateway(), s.name("foreign drop")
	a.enter(name, "a", 3)
	c.enter(name, "c", 1)
	s.press()
	if got := b.drop(name, "a"); got != (lease.Dropped{Had: true, Next: true}) {
		s.fatalf("dropped %+v, want it had and another next", got)
	}
	reserved := func(what, who string) {
		s.Helper()
		got := b.look(name)
		s.reserved(got, who)
		s.stands(got, "c")
		if got.Behind != 2 {
			s.fatalf("%s: it stands %s, want 2 behind it", what, show(got))
		}
	}
	reserved("dropped", "a+")
	// A reservation can be dropped as a lease can.
	if got := b.drop(name, "a+"); got != (lease.Dropped{Had: true, Next: true}) {
		s.fatalf("dropped %+v, want it had and another next", got)
	}
	s.press()
	reserved("dropped again", "a++")
	if got := b.drop(name, "a+"); got.Had {
		s.fatalf("dropped %+v of a reservation that is over", got)
	}
	s.held2(a.extendFor(name, "a++", "next behind a", time.Minute), "a++", "next behind a", 50*time.Second, time.Minute)
	s.release()
	a.told(lease.Pushed, name, "a+")
	a.told(lease.Pushed, name, "a++")
	// What comes late finds its value gone.
	for _, g := range []*gateway{a, b} {
		for _, late := range []string{"a", "a+"} {
			if got := g.drop(name, late); got.Had {
				s.fatalf("%s dropped %+v", late, got)
			}
			s.held2(g.extend(name, late, time.Hour), "a++", "next behind a", 30*time.Second, time.Minute)
		}
	}
	// Nobody waits behind it any more: it goes to the queue.
	if got := a.stay(name, "a++", 0); got.Behind != 0 {
		s.fatalf("it stands %s, want nobody behind it", show(got))
	}
	s.press()
	if got := b.drop(name, "a++"); got != (lease.Dropped{Had: true, Next: true}) {
		s.fatalf("dropped %+v, want it had and another next", got)
	}
	s.reserved(b.look(name), "c")
	c.told(lease.Pushed, name, "c")
	s.release()
	if n := c.count(lease.Pushed, name, "c"); n != 1 {
		s.fatalf("c was pushed %d times", n)
	}
}

// testNextValue extends a lease under the next value of its hold, and tells how many wait behind it.
func testNextValue(s *suite) {
	a, b, name := s.gateway(), s.gateway(), s.name("next value")
	a.enter(name, "a", 1)
	b.enter(name, "b", 1)
	goOn := func(from, to string, waiters int) lease.Standing {
		return a.extendBy(name, lease.Extension{
			Value: value(s, from), Next: value(s, to), TTL: time.Minute, Tenant: tenant("t"), Holder: "t", Waiters: waiters,
		})
	}
	behind := func(got lease.Standing, who, holder string, behind int) {
		s.Helper()
		s.held2(got, who, holder, 50*time.Second, time.Minute)
		if got.Behind != behind || got.Tenant != tenant("t") {
			s.fatalf("it stands %s, want %d behind it and a tenant", show(got), behind)
		}
	}
	goOn("a", "a+", 4)
	behind(b.look(name), "a+", "a", 4)
	// Repeated, it changes nothing.
	goOn("a", "a+", 4)
	behind(b.look(name), "a+", "a", 4)
	if got := b.drop(name, "a"); got.Had {
		s.fatalf("dropped %+v by a former value", got)
	}
	goOn("a+", "a+++", lease.KeepWaiters)
	behind(b.look(name), "a+++", "a", 4)
	goOn("a+++", "a++++", 0)
	behind(b.look(name), "a++++", "a", 0)
	if got := a.stay(name, "a++++", 0); !got.Followed {
		s.fatalf("it stands %s, want followers", show(got))
	}
	s.press()
	a.drop(name, "a++++")
	got := b.extendBy(name, lease.Extension{
		Value: value(s, "b"), Next: value(s, "b+"), TTL: time.Minute, Tenant: tenant("t"), Holder: "first", Waiters: 2,
	})
	behind(got, "b+", "first", 2)
	s.release()
	// What another gateway thinks does not count.
	got = a.extendBy(name, lease.Extension{Value: value(s, "b+"), TTL: time.Minute, Tenant: tenant("t"), Holder: "x", Waiters: 0})
	behind(got, "b+", "first", 2)
	s.press()
	if got := a.drop(name, "b+"); got != (lease.Dropped{Had: true, Next: true}) {
		s.fatalf("dropped %+v, want it had and another next", got)
	}
	s.reserved(a.look(name), "b++")
	b.told(lease.Pushed, name, "b++")
	b.drop(name, "b++")
	s.release()
	s.free(a.look(name))
}

func testForeignDropGone(s *suite) {
	a, b, c, name := s.gateway(), s.gateway(), s.gateway(), s.name("foreign drop, gone")
	a.enter(name, "a", 3)
	c.enter(name, "c", 1)
	a.leave()
	if got := b.drop(name, "a"); !got.Had || !got.Next {
		s.fatalf("dropped %+v, want it had and another next", got)
	}
	s.eventually("it goes to the queue", func() bool { return c.stay(name, "c", 1).Value == value(s, "c") })
	c.drop(name, "c")
}

func testForeignExtension(s *suite) {
	a, b, name := s.gateway(), s.gateway(), s.name("foreign extension")
	a.enter(name, "a", 2)
	a.extend(name, "a", time.Hour)

	renewed := func(what string, got lease.Standing, by string, least, most time.Duration) {
		s.Helper()
		if got.Tenant != tenant(by) {
			s.fatalf("%s: it stands %s, want %s as the tenant", what, show(got), by)
		}
		s.runs(what+" (renewed)", got.Renewed, least, most)
	}
	// Somebody waits behind it in its own gateway: it runs on as it did.
	got := b.extendFor(name, "a", "tenant", time.Minute)
	s.held(got, "a", 59*time.Minute, time.Hour)
	renewed("a shorter one", got, "tenant", 50*time.Second, time.Minute)
	got = b.look(name)
	s.held(got, "a", 59*time.Minute, time.Hour)
	renewed("looked at", got, "tenant", 50*time.Second, time.Minute)
	got = b.extendFor(name, "a", "another", 2*time.Hour)
	s.held(got, "a", 119*time.Minute, 2*time.Hour)
	renewed("a longer one", got, "another", 119*time.Minute, 2*time.Hour)
	renewed("told to its own gateway", a.stay(name, "a", 1), "another", 119*time.Minute, 2*time.Hour)

	// Its own gateway's is no renewal by another.
	got = a.extendFor(name, "a", "tenant", time.Minute)
	s.held(got, "a", 119*time.Minute, 2*time.Hour)
	if got.Tenant != tenant("tenant") || got.Renewed > 0 {
		s.fatalf("it stands %s, want the tenant of its own gateway's extension, and none by another", show(got))
	}

	// With nobody behind it that is no different.
	a.stay(name, "a", 0)
	got = b.extendFor(name, "a", "tenant", time.Minute)
	s.held(got, "a", 119*time.Minute, 2*time.Hour)
	renewed("with nobody behind it", got, "tenant", 50*time.Second, time.Minute)
	// Under its next value it runs for as long as is asked.
	got = a.extendBy(name, lease.Extension{Value: value(s, "a"), Next: value(s, "a+"), TTL: time.Minute, Tenant: tenant("tenant"), Waiters: lease.KeepWaiters})
	s.held2(got, "a+", "a", 50*time.Second, time.Minute)
	got = b.extendFor(name, "a+", "tenant", 2*time.Minute)
	s.held2(got, "a+", "a", 110*time.Second, 2*time.Minute)

	// Another value extends nothing.
	got = b.extendFor(name, "b", "thief", time.Hour)
	s.held2(got, "a+", "a", 110*time.Second, 2*time.Minute)
	renewed("by another value", got, "tenant", 110*time.Second, 2*time.Minute)

	// A hold that begins knows nothing of the one before.
	a.drop(name, "a+")
	b.enter(name, "b", 0)
	if got := a.look(name); got.Tenant != (fence.Digest{}) || got.Renewed > 0 {
		s.fatalf("it stands %s, want neither tenant nor renewal", show(got))
	}
}

func testRepeated(s *suite) {
	a, b, name := s.gateway(), s.gateway(), s.name("repeated")
	same := func(what string, call func() lease.Standing) lease.Standing {
		s.Helper()
		first := call()
		second := call()
		if first.Value != second.Value || first.Reserved != second.Reserved || first.Holder != second.Holder || first.Tenant != second.Tenant ||
			first.Behind != second.Behind || first.Followed != second.Followed || second.Place != 0 && second.Place != first.Place {
			s.fatalf("%s: it stands %s, then %s", what, show(first), show(second))
		}
		return second
	}
	same("take", func() lease.Standing { return a.enter(name, "a", 1) })
	if got := same("enter", func() lease.Standing { return b.enter(name, "b", 1) }); got.Place == 0 {
		s.fatalf("it stands %s, want a place", show(got))
	}
	same("stay", func() lease.Standing { return b.stay(name, "b", 2) })
	same("extend", func() lease.Standing { return a.extend(name, "a", time.Minute) })
	same("foreign extend", func() lease.Standing { return b.extendFor(name, "a", "tenant", time.Minute) })
	s.stands(a.look(name), "b")
	s.press()
	a.drop(name, "a")
	if got := a.drop(name, "a"); got.Had {
		s.fatalf("dropped %+v again", got)
	}
	same("reserved", func() lease.Standing { return b.enter(name, "b", 1) })
	same("claim", func() lease.Standing { return b.extend(name, "b", time.Minute) })
	s.release()
	same("former holder", func() lease.Standing { return a.extend(name, "a", time.Minute) })
	s.held(a.look(name), "b", 50*time.Second, time.Minute)
	b.drop(name, "b")
	b.drop(name, "b")
	s.free(a.look(name))
}

func testLeftovers(s *suite) {
	if s.Leftovers == nil {
		s.Skip("the backend does not tell what it keeps")
	}
	a, b, c, name := s.gateway(), s.gateway(), s.gateway(), s.name("leftovers")
	clean := func(when string) {
		s.Helper()
		var left []string
		for deadline := time.Now().Add(patience + 2*s.Slack); ; s.pause(50 * time.Millisecond) {
			if left = s.Leftovers(s.T, name); len(left) == 0 {
				return
			}
			if time.Now().After(deadline) {
				s.fatalf("%s: %q is left", when, left)
			}
		}
	}
	a.enter(name, "a", 1)
	if len(s.Leftovers(s.T, name)) == 0 {
		s.fatalf("a lease that is held is nowhere to be found")
	}
	a.drop(name, "a")
	clean("dropped")

	a.enter(name, "a", 1)
	b.enter(name, "b", 1)
	c.enter(name, "c", 1)
	s.press()
	a.drop(name, "a")
	b.extend(name, "b", time.Minute)
	b.drop(name, "b")
	c.drop(name, "c")
	s.release()
	clean("handed on and dropped")

	e := a.entry("a", 1)
	e.TTL = s.brief
	a.enterWith(name, e)
	s.inTimeFor("a", b.enter(name, "b", 1))
	s.eventually("everything ends", func() bool { return a.look(name).Value == (fence.Digest{}) })
	clean("ended")
}

// testRestart cuts off everybody: the holder, one that waits, and their connections for signals.
func testRestart(s *suite) {
	a, b, name := s.gateway(), s.gateway(), s.name("restart")
	a.enter(name, "a", 0)
	e := b.entry("b", 1)
	e.Place = b.enterWith(name, e).Place
	resyncs := func(g *gateway) (n int) {
		for _, signal := range g.heard() {
			if signal.Kind == lease.Resync {
				n++
			}
		}
		return n
	}
	before := resyncs(b)
	s.Restart(s.T)
	s.eventually("those that wait are told", func() bool { return resyncs(b) > before })
	s.eventually("it is dropped", func() bool { _, err := a.Drop(s.Context(), name, value(s, "a")); return err == nil })
	s.eventually("it is handed to the one that waits", func() bool {
		got, err := b.Enter(s.Context(), name, e)
		if err != nil || got.Value != e.Value {
			return false
		}
		got, err = b.Extend(s.Context(), name, lease.Extension{Value: e.Value, TTL: time.Minute, Holder: "b", Waiters: lease.KeepWaiters})
		return err == nil && got.Value == e.Value && !got.Reserved
	})
	b.drop(name, "b")
}
