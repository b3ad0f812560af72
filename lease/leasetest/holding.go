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

func testNobody(s *suite) {
	g, name := s.gateway(), s.name("nobody")
	s.free(g.look(name))
	s.free(g.extend(name, "a", time.Minute))
	s.free(g.stay(name, "a", 1))
	if got := g.drop(name, "a"); got != (lease.Dropped{}) {
		s.fatalf("dropped %+v of nothing", got)
	}
	s.free(g.look(name))
}

func testExclusive(s *suite) {
	a, b, name := s.gateway(), s.gateway(), s.name("exclusive")
	taken := a.enter(name, "a", 0)
	s.held(taken, "a", 50*time.Second, time.Minute)
	if taken.Place <= 1 || taken.Followed {
		s.fatalf("it stands %s, want a place and no followers", show(taken))
	}
	for _, g := range []*gateway{a, b} {
		refused := g.enter(name, "b", 0)
		s.held(refused, "a", 50*time.Second, time.Minute)
		if refused.Place != 0 {
			s.fatalf("what does not wait has place %d", refused.Place)
		}
	}
	s.held(b.look(name), "a", 50*time.Second, time.Minute)
	s.stands(b.look(name))
}

func testTakenAgain(s *suite) {
	g, name := s.gateway(), s.name("again")
	g.enter(name, "a", 0)
	e := g.entry("a", 1)
	e.TTL = time.Hour
	s.held(g.enterWith(name, e), "a", 50*time.Second, time.Minute)
	s.held(g.look(name), "a", 50*time.Second, time.Minute)
}

func testExpires(s *suite) {
	a, b, name := s.gateway(), s.gateway(), s.name("expires")
	const ttl = 150 * time.Millisecond
	e := a.entry("a", 0)
	e.TTL = ttl
	began := time.Now()
	a.enterWith(name, e)
	s.eventually("it expires", func() bool { return b.enter(name, "b", 0).Value == value(s, "b") })
	// A locker may count in whole milliseconds.
	if took := time.Since(began); took < ttl-5*time.Millisecond {
		s.fatalf("expired after %v, before its ttl of %v", took, ttl)
	}
	s.held(a.extend(name, "a", time.Hour), "b", 50*time.Second, time.Minute)
	if got := a.drop(name, "a"); got.Had {
		s.fatalf("the former holder dropped %+v", got)
	}
	s.held(b.look(name), "b", 50*time.Second, time.Minute)
}

func testExtend(s *suite) {
	a, b, name := s.gateway(), s.gateway(), s.name("extend")
	a.enter(name, "a", 0)
	for _, g := range []*gateway{a, b} {
		s.held(g.extend(name, "b", time.Hour), "a", 50*time.Second, time.Minute)
	}
	if got := b.look(name); got.Tenant != (fence.Digest{}) {
		s.fatalf("it stands %s, want no tenant", show(got))
	}
	s.held(a.extend(name, "a", time.Hour), "a", 59*time.Minute, time.Hour)
	// It may have come late, for one who has given the lease to the next since.
	for _, g := range []*gateway{a, b} {
		s.held(g.extend(name, "a", time.Minute), "a", 59*time.Minute, time.Hour)
		s.held(b.look(name), "a", 59*time.Minute, time.Hour)
	}
	// Others may have it since, but it is known by the name of who took it.
	got := a.extendFor(name, "a", "somebody", time.Hour)
	s.held(got, "a", 59*time.Minute, time.Hour)
	if got := b.look(name); got.Tenant != tenant("somebody") || got.Renewed > 0 {
		s.fatalf("it stands %s, want the last tenant, and no renewal by another gateway", show(got))
	}
}

func testDrop(s *suite) {
	a, b, name := s.gateway(), s.gateway(), s.name("drop")
	a.enter(name, "a", 0)
	for _, g := range []*gateway{a, b} {
		if got := g.drop(name, "b"); got != (lease.Dropped{}) {
			s.fatalf("dropped %+v by another value", got)
		}
	}
	s.held(b.look(name), "a", 50*time.Second, time.Minute)
	if got := a.drop(name, "a"); got != (lease.Dropped{Had: true}) {
		s.fatalf("dropped %+v, want it had and nobody next", got)
	}
	s.free(b.look(name))
	if got := a.drop(name, "a"); got != (lease.Dropped{}) {
		s.fatalf("dropped %+v again", got)
	}
	s.held(b.enter(name, "b", 0), "b", 50*time.Second, time.Minute)
	// Nobody waits behind it there, so any gateway can drop it.
	if got := a.drop(name, "b"); got != (lease.Dropped{Had: true}) {
		s.fatalf("dropped %+v from another gateway, want it had and nobody next", got)
	}
	s.free(b.look(name))
}

func testStay(s *suite) {
	a, b, name := s.gateway(), s.gateway(), s.name("stay")
	s.free(a.stay(name, "a", 3))
	b.enter(name, "b", 0)
	got := a.stay(name, "a", 3)
	s.held(got, "b", 50*time.Second, time.Minute)
	if got.Place != 0 {
		s.fatalf("staying gave place %d", got.Place)
	}
	s.stands(b.look(name))
	b.drop(name, "b")
	s.free(b.look(name))
}

func testNames(s *suite) {
	a, b := s.gateway(), s.gateway()
	names := []string{"}x", "{a}", "a", "{}", "}", "{", "日本/ü", "日本", "a/b", "a:b", "a b", "*", "a\\", "%7Dx", "A", ":q", "/", "'", "\""}
	for i := range names {
		names[i] += s.run
	}
	long := s.run + strings.Repeat("n", fence.MaxLeaseName-len(s.run)-1)
	names = append(names, long+"n", long+"m", s.run, s.run+":q", s.run+":n", s.run+":r", s.run+"/lease", s.run+"/queue")
	for i, name := range names {
		who := fmt.Sprint("holder-", i)
		s.held(a.enter(name, who, 1), who, 50*time.Second, time.Minute)
		if got := b.enter(name, "waits-"+who, 1); got.Place == 0 {
			s.fatalf("%q: it stands %s, want a place", name, show(got))
		}
	}
	for i, name := range names {
		who := fmt.Sprint("holder-", i)
		got := b.look(name)
		s.held(got, who, 30*time.Second, time.Minute)
		s.stands(got, "waits-"+who)
		a.drop(name, who)
	}
	for i, name := range names {
		b.told(lease.Pushed, name, fmt.Sprint("waits-holder-", i))
		b.drop(name, fmt.Sprint("waits-holder-", i))
	}
}

func testHolders(s *suite) {
	a, b := s.gateway(), s.gateway()
	for i, who := range []string{"a:b", ":", "::x:", "worker a", `"q"`, `\r\n`, "'; --", "日本 ü", "{}", "%s", "1", strings.Repeat("h", fence.MaxHolder)} {
		name := s.name(fmt.Sprint("holder/", i))
		a.enter(name, who, 0)
		s.held(b.look(name), who, 50*time.Second, time.Minute)
		s.held(b.enter(name, "another", 0), who, 50*time.Second, time.Minute)
		a.drop(name, who)
	}
}

func testRace(s *suite) {
	const takers = 50
	gateways, name := s.gateways(3), s.name("race")
	wins := make([]bool, takers)
	errs := make([]error, takers)
	start := make(chan struct{})
	var racing sync.WaitGroup
	for i := range takers {
		racing.Go(func() {
			<-start
			g := gateways[i%3]
			e := g.entry(fmt.Sprint("racer-", i), i%2)
			got, err := g.Enter(s.Context(), name, e)
			wins[i], errs[i] = got.Value == e.Value, err
			if err == nil && !wins[i] && (got.Place != 0) != (e.Waiters > 0) {
				errs[i] = fmt.Errorf("with %d waiters it has place %d", e.Waiters, got.Place)
			}
		})
	}
	close(start)
	racing.Wait()
	won := 0
	for i := range takers {
		if errs[i] != nil {
			s.fatalf("racer %d: %v", i, errs[i])
		}
		if wins[i] {
			won++
		}
	}
	if won != 1 {
		s.fatalf("%d of %d took the lease, want 1", won, takers)
	}
	if got := gateways[0].look(name); got.Entries < takers/2-1 || got.Entries > takers/2 || len(got.Queue) != got.Entries {
		s.fatalf("%d of %d stand in the queue, want about half", got.Entries, takers)
	}
}

func testCancelled(s *suite) {
	g, name := s.gateway(), s.name("cancelled")
	g.enter(name, "kept", 0)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	e := g.entry("a", 1)
	for what, call := range map[string]func() error{
		"enter": func() error { _, err := g.Enter(ctx, name, e); return err },
		"stay":  func() error { _, err := g.Stay(ctx, name, e); return err },
		"extend": func() error {
			_, err := g.Extend(ctx, name, lease.Extension{Value: e.Value, TTL: time.Minute})
			return err
		},
		"drop": func() error { _, err := g.Drop(ctx, name, value(s, "kept")); return err },
		"look": func() error { _, err := g.Look(ctx, name, 1); return err },
	} {
		if err := call(); fence.CodeOf(err) != fence.CodeUnavailable {
			s.fatalf("%s: %v, want %s", what, err, fence.CodeUnavailable)
		}
	}
	s.held(g.look(name), "kept", 50*time.Second, time.Minute)
	s.stands(g.look(name))
	if err := s.Open(s.T).Listen(ctx, func(lease.Signal) {}); err != nil {
		s.fatalf("listen: %v, want nil when its time is over", err)
	}
}
