package leasetest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// gateway is a locker that listens, with calls that must not fail.
type gateway struct {
	s *suite
	lease.Locker
	leave func() // ends the listening and waits for it

	mu      sync.Mutex     // guards what follows
	signals []lease.Signal // what was told, oldest first
}

// gateway opens a locker and returns when it listens.
func (s *suite) gateway() *gateway {
	s.Helper()
	g := &gateway{s: s, Locker: s.Open(s.T)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	var listening sync.WaitGroup
	g.leave = func() { cancel(); listening.Wait() }
	s.Cleanup(g.leave)
	listening.Go(func() {
		if err := g.Listen(ctx, g.hear); err != nil {
			s.Errorf("listen: %v", err)
		}
	})
	s.eventually("it listens", func() bool { return len(g.heard()) > 0 })
	if first := g.heard()[0]; first != (lease.Signal{Kind: lease.Resync}) {
		s.fatalf("the first signal is %+v, want Resync", first)
	}
	return g
}

func (s *suite) gateways(n int) []*gateway {
	s.Helper()
	var all []*gateway
	for range n {
		all = append(all, s.gateway())
	}
	return all
}

func (g *gateway) hear(signal lease.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.signals = append(g.signals, signal)
}

func (g *gateway) heard() []lease.Signal {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.signals)
}

// count is how often a signal was told so far.
func (g *gateway) count(kind lease.SignalKind, name, who string) (n int) {
	for _, signal := range g.heard() {
		if signal == (lease.Signal{Kind: kind, Name: name, Value: value(g.s, who)}) {
			n++
		}
	}
	return n
}

// told waits for a signal.
func (g *gateway) told(kind lease.SignalKind, name, who string) {
	g.s.Helper()
	g.s.eventually("a signal to "+who, func() bool { return g.count(kind, name, who) > 0 })
}

// value is that of who; each "+" behind the name stands for one time that something came between.
func value(s *suite, who string) fence.Digest {
	name := strings.TrimRight(who, "+")
	v := fence.DigestOf("leasetest", s.run, name)
	for range len(who) - len(name) {
		v = lease.NextValue(v)
	}
	return v
}

func tenant(who string) fence.Digest { return fence.DigestOf("tenant", who) }

func (g *gateway) entry(who string, waiters int) lease.Entry {
	return lease.Entry{Value: value(g.s, who), Holder: who, TTL: time.Minute, Waiters: waiters, Note: "note of " + who}
}

func (g *gateway) enter(name, who string, waiters int) lease.Standing {
	g.s.Helper()
	return g.enterWith(name, g.entry(who, waiters))
}

func (g *gateway) enterWith(name string, e lease.Entry) lease.Standing {
	g.s.Helper()
	standing, err := g.Enter(g.s.Context(), name, e)
	if err != nil {
		g.s.fatalf("enter %q: %v", name, err)
	}
	return standing
}

func (g *gateway) stay(name, who string, waiters int) lease.Standing {
	g.s.Helper()
	standing, err := g.Stay(g.s.Context(), name, g.entry(who, waiters))
	if err != nil {
		g.s.fatalf("stay %q: %v", name, err)
	}
	return standing
}

// extend extends a hold of who for the tenant of that name.
func (g *gateway) extend(name, who string, ttl time.Duration) lease.Standing {
	g.s.Helper()
	return g.extendFor(name, who, who, ttl)
}

func (g *gateway) extendFor(name, who, by string, ttl time.Duration) lease.Standing {
	g.s.Helper()
	return g.extendBy(name, lease.Extension{Value: value(g.s, who), TTL: ttl, Tenant: tenant(by), Holder: by, Waiters: lease.KeepWaiters})
}

func (g *gateway) extendBy(name string, x lease.Extension) lease.Standing {
	g.s.Helper()
	standing, err := g.Extend(g.s.Context(), name, x)
	if err != nil {
		g.s.fatalf("extend %q: %v", name, err)
	}
	return standing
}

func (g *gateway) drop(name, who string) lease.Dropped {
	g.s.Helper()
	dropped, err := g.Drop(g.s.Context(), name, value(g.s, who))
	if err != nil {
		g.s.fatalf("drop %q: %v", name, err)
	}
	return dropped
}

func (g *gateway) look(name string) lease.Standing {
	g.s.Helper()
	standing, err := g.Look(g.s.Context(), name, 100)
	if err != nil {
		g.s.fatalf("look at %q: %v", name, err)
	}
	return standing
}

// held checks who holds a lease, and how long it runs.
func (s *suite) held(got lease.Standing, who string, least, most time.Duration) {
	s.Helper()
	if got.Value != value(s, who) || got.Reserved || got.Holder != who {
		s.fatalf("it stands %s, want it held by %q", show(got), who)
	}
	s.runs("the lease", got.Remaining, least, most)
}

// reserved checks that a lease was handed to who and not claimed.
func (s *suite) reserved(got lease.Standing, who string) {
	s.Helper()
	if got.Value != value(s, who) || !got.Reserved {
		s.fatalf("it stands %s, want it reserved for %q", show(got), who)
	}
	s.runs("the reservation", got.Remaining, 0, lease.Window)
}

func (s *suite) runs(what string, got, least, most time.Duration) {
	s.Helper()
	if got < least || got > most+s.Slack {
		s.fatalf("%s runs for %v, want %v to %v", what, got, least, most)
	}
}

// free checks that nobody holds the lease and nobody waits.
func (s *suite) free(got lease.Standing) {
	s.Helper()
	if got.Value != (fence.Digest{}) || got.Reserved || got.Holder != "" || got.Remaining > 0 || got.Behind != 0 || got.Place != 0 || got.Followed || got.Entries != 0 || len(got.Queue) != 0 {
		s.fatalf("it stands %s, want nothing", show(got))
	}
}

// stands checks the queue's values.
func (s *suite) stands(got lease.Standing, who ...string) {
	s.Helper()
	var want, have []fence.Digest
	for _, w := range who {
		want = append(want, value(s, w))
	}
	for _, q := range got.Queue {
		have = append(have, q.Value)
	}
	if got.Entries != len(who) || !slices.Equal(have, want) {
		s.fatalf("%d stand in the queue (%s), want %q", got.Entries, show(got), who)
	}
}
