package lease_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/leasetest"
)

// fleet is gateways on one server and one ledger.
type fleet struct {
	t        *testing.T
	space    *leasetest.Space
	ledger   *leasetest.Ledger
	gateways []*lease.Manager
}

func newFleet(t *testing.T, n int) *fleet {
	t.Helper()
	f := &fleet{t: t, space: leasetest.NewSpace(), ledger: leasetest.NewLedger()}
	for range n {
		f.add(f.space.Locker(), lease.Config{})
	}
	return f
}

func (f *fleet) add(locker lease.Locker, c lease.Config) *lease.Manager {
	f.t.Helper()
	m := newManager(f.t, locker, f.ledger, c)
	f.gateways = append(f.gateways, m)
	return m
}

// result is what an acquire in the background ends with.
type result struct {
	*lease.Held
	err error
}

// waits begins an acquire that has to wait, and returns once it does.
func (f *fleet) waits(gateway int, name, who string, q lease.Request) <-chan result {
	f.t.Helper()
	q.Name, q.Principal, q.Holder = name, "p", who
	if q.Wait == 0 {
		q.Wait = 20 * time.Second
	}
	m := f.gateways[gateway]
	before := m.Stats().Waiting
	got := make(chan result, 1)
	go func() {
		h, err := m.Acquire(context.WithoutCancel(f.t.Context()), q)
		got <- result{h, err}
	}()
	eventually(f.t, who+" waits", func() bool { return m.Stats().Waiting > before })
	f.queued(name, who)
	return got
}

// queued waits until the server knows that somebody waits.
func (f *fleet) queued(name, who string) {
	f.t.Helper()
	eventually(f.t, who+" stands in the queue", func() bool {
		v, err := f.gateways[0].Inspect(f.t.Context(), name)
		return err == nil && slices.ContainsFunc(v.Waiting, func(w lease.Waiting) bool { return w.Holder == who })
	})
}

func (f *fleet) acquire(gateway int, name, who string, q lease.Request) *lease.Held {
	f.t.Helper()
	q.Name, q.Principal, q.Holder = name, "p", who
	h, err := f.gateways[gateway].Acquire(f.t.Context(), q)
	if err != nil {
		f.t.Fatalf("acquire %s for %s: %v", name, who, err)
	}
	return h
}

func (f *fleet) release(gateway int, h *lease.Held) {
	f.t.Helper()
	if err := f.gateways[gateway].Release(f.t.Context(), ref(h)); err != nil {
		f.t.Fatalf("release by %s: %v", h.Holder, err)
	}
}

func (f *fleet) look(name string) lease.Standing {
	f.t.Helper()
	st, err := f.space.Locker().Look(f.t.Context(), name, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	return st
}

// next waits for a grant, at most for long.
func next(t *testing.T, got <-chan result, long time.Duration) *lease.Held {
	t.Helper()
	select {
	case r := <-got:
		if r.err != nil {
			t.Fatal(r.err)
		}
		return r.Held
	case <-time.After(long):
		t.Fatalf("nothing was granted within %v", long)
	}
	return nil
}

const soon = 5 * time.Second
