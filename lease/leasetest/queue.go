package leasetest

import (
	"fmt"
	"time"

	"github.com/fencegate/fencegate/lease"
)

func testOrder(s *suite) {
	holder, waiting, name := s.gateway(), s.gateways(3), s.name("order")
	const entries = 7
	holder.enter(name, "h", 0)
	var order []string
	last := int64(1)
	for i := range entries {
		who := fmt.Sprint("w", i)
		got := waiting[i%3].enter(name, who, 1)
		s.held(got, "h", 50*time.Second, time.Minute)
		if got.Place <= last || got.Followed {
			s.fatalf("%s stands %s, want a place behind %d", who, show(got), last)
		}
		last, order = got.Place, append(order, who)
	}
	s.stands(holder.look(name), order...)
	s.press()
	holder.drop(name, "h")
	for i, who := range order {
		g := waiting[i%3]
		g.told(lease.Pushed, name, who)
		s.held(g.extend(name, who, time.Minute), who, 50*time.Second, time.Minute)
		s.release()
		s.stands(holder.look(name), order[i+1:]...)
		s.press()
		if got := g.drop(name, who); got != (lease.Dropped{Had: true, Next: i < entries-1}) {
			s.fatalf("%s dropped %+v", who, got)
		}
	}
	s.release()
	s.free(holder.look(name))
	for i, who := range order {
		for n, g := range waiting {
			if pushed := g.count(lease.Pushed, name, who); n == i%3 && pushed != 1 || n != i%3 && pushed != 0 {
				s.fatalf("%s was pushed %d times to gateway %d", who, pushed, n)
			}
		}
	}
}

func testPush(s *suite) {
	a, b, c, name := s.gateway(), s.gateway(), s.gateway(), s.name("push")
	a.enter(name, "a", 0)
	b.enter(name, "b", 2)
	c.enter(name, "c", 1)
	s.press()
	if got := a.drop(name, "a"); got != (lease.Dropped{Had: true, Next: true}) {
		s.fatalf("dropped %+v, want it had and another next", got)
	}
	got := a.look(name)
	s.reserved(got, "b")
	s.stands(got, "c")
	if got.Behind != 2 {
		s.fatalf("it stands %s, want 2 behind it", show(got))
	}
	for what, got := range map[string]lease.Standing{"stay": b.stay(name, "b", 2), "enter": b.enter(name, "b", 2)} {
		s.reserved(got, "b")
		if got.Place != 0 || !got.Followed {
			s.fatalf("%s: it stands %s, want no place and followers", what, show(got))
		}
	}
	if got := c.enter(name, "c", 1); got.Value != value(s, "b") || got.Place == 0 || got.Followed {
		s.fatalf("it stands %s, want a place behind the reservation", show(got))
	}
	b.told(lease.Pushed, name, "b")
	s.held(b.extend(name, "b", time.Minute), "b", 50*time.Second, time.Minute)
	s.release()
	if c.count(lease.Pushed, name, "c") > 0 || a.count(lease.Pushed, name, "a") > 0 {
		s.fatalf("somebody else was pushed")
	}
}

func testClaim(s *suite) {
	a, b, c, name := s.gateway(), s.gateway(), s.gateway(), s.name("claim")
	a.enter(name, "a", 0)
	b.enter(name, "b", 1)
	c.enter(name, "c", 1)
	s.press()
	a.drop(name, "a")
	// Another value claims nothing, wherever it stands.
	s.reserved(c.extend(name, "c", time.Hour), "b")
	s.reserved(a.extend(name, "a", time.Hour), "b")
	got := b.extendFor(name, "b", "first behind b", time.Hour)
	s.held2(got, "b", "first behind b", 59*time.Minute, time.Hour)
	s.release()
	if !got.Followed || got.Tenant != tenant("first behind b") {
		s.fatalf("it stands %s, want followers and a tenant", show(got))
	}
	s.pause(lease.Window + 50*time.Millisecond + s.Slack)
	got = c.stay(name, "c", 1)
	s.held2(got, "b", "first behind b", 59*time.Minute, time.Hour)
	if got.Place == 0 {
		s.fatalf("it stands %s, want it in the queue still", show(got))
	}
}

// held2 is held where the name of the holder is another than that of the value.
func (s *suite) held2(got lease.Standing, who, holder string, least, most time.Duration) {
	s.Helper()
	if got.Holder != holder {
		s.fatalf("it stands %s, want it held by %q", show(got), holder)
	}
	got.Holder = who
	s.held(got, who, least, most)
}

func testUnclaimed(s *suite) {
	a, b, c, name := s.gateway(), s.gateway(), s.gateway(), s.name("unclaimed")
	a.enter(name, "a", 0)
	place := b.enter(name, "b", 1).Place
	c.enter(name, "c", 1)
	a.enter(name, "d", 1)
	began := time.Now()
	a.drop(name, "a")
	s.eventually("it goes on to the next", func() bool { return c.stay(name, "c", 1).Value == value(s, "c") })
	// A clock may go in steps, of 10 ms or, on a busy machine, some more.
	if took := time.Since(began); took < lease.Window*9/10 {
		s.fatalf("the reservation passed after %v already", took)
	}
	s.press()
	c.told(lease.Pushed, name, "c")
	// Too late: it is somebody else's, and the queue is as it was.
	if got := b.extend(name, "b", time.Minute); got.Value != value(s, "c") || got.Place != 0 {
		s.fatalf("it stands %s, want it reserved for c", show(got))
	}
	s.held(c.extend(name, "c", time.Minute), "c", 50*time.Second, time.Minute)
	s.release()
	e := b.entry("b", 1)
	e.Place = place
	if got := b.enterWith(name, e); got.Place != place || !got.Followed {
		s.fatalf("it stands %s, want its old place %d before d", show(got), place)
	}
	s.stands(c.look(name), "b", "d")
}

func testIdleGateway(s *suite) {
	a, idle, c, name := s.gateway(), s.gateway(), s.gateway(), s.name("idle")
	const entries = 16
	a.enter(name, "a", 0)
	for i := range entries {
		idle.enter(name, fmt.Sprint("idle", i), 1)
	}
	c.enter(name, "c", 1)
	began := time.Now()
	a.drop(name, "a")
	s.eventually("it goes on to a gateway that claims", func() bool { return c.stay(name, "c", 1).Value == value(s, "c") })
	if took := time.Since(began); took > entries/2*(lease.Window+s.Slack) {
		s.fatalf("%d entries of a gateway that claims nothing cost %v, want %v", entries, took, lease.Window)
	}
	c.drop(name, "c")
}

func testGone(s *suite) {
	a, gone, c, name := s.gateway(), s.gateway(), s.gateway(), s.name("gone")
	a.enter(name, "a", 0)
	gone.enter(name, "gone", 1)
	gone.enter(name, "gone too", 1)
	c.enter(name, "c", 1)
	gone.leave()
	a.drop(name, "a")
	s.eventually("it goes to a gateway that is there", func() bool { return c.stay(name, "c", 1).Value == value(s, "c") })
	c.told(lease.Pushed, name, "c")
	c.drop(name, "c")
	s.eventually("the gone are forgotten", func() bool { return a.look(name).Entries == 0 })
}

func testQueueAfterExpiry(s *suite) {
	a, b, c, name := s.gateway(), s.gateway(), s.gateway(), s.name("ends")
	e := a.entry("a", 0)
	e.TTL = s.brief
	a.enterWith(name, e)
	b.enter(name, "b", 1)
	s.inTimeFor("a", c.enter(name, "c", 1))
	// It is c that looks, and b that is served.
	var got lease.Standing
	s.eventually("it is handed on", func() bool {
		s.press()
		got = c.stay(name, "c", 1)
		return got.Value != value(s, "a")
	})
	s.reserved(got, "b")
	b.told(lease.Pushed, name, "b")
	s.held(b.extend(name, "b", time.Minute), "b", 50*time.Second, time.Minute)
	s.release()
	s.held(a.extend(name, "a", time.Minute), "b", 50*time.Second, time.Minute)
}

func testBarging(s *suite) {
	a, b, c, name := s.gateway(), s.gateway(), s.gateway(), s.name("barge")
	e := a.entry("a", 0)
	e.TTL = s.brief
	a.enterWith(name, e)
	s.inTimeFor("a", b.enter(name, "b", 1))
	for _, waiters := range []int{0, 1} {
		who := fmt.Sprint("c", waiters)
		var got lease.Standing
		s.eventually("the lease of a ends", func() bool {
			s.press()
			got = c.enter(name, who, waiters)
			return got.Value != value(s, "a")
		})
		if got.Value != value(s, "b") || (got.Place != 0) != (waiters > 0) {
			s.fatalf("with %d waiters it stands %s, want b before it", waiters, show(got))
		}
	}
	b.told(lease.Pushed, name, "b")
	s.held(b.extend(name, "b", time.Minute), "b", 50*time.Second, time.Minute)
	s.release()
	s.stands(a.look(name), "c1")
}
