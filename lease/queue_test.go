package lease_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// TestFirstComeFirstServed: whoever came first, to whatever gateway, is served first; releases go through any.
func TestFirstComeFirstServed(t *testing.T) {
	for _, releasing := range []string{"SameGateway", "AnotherGateway"} {
		t.Run(releasing, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 3)
			held := f.acquire(0, "fifo", "first", lease.Request{})
			at := []int{0, 0, 1, 1, 0, 2, 2, 2, 1, 0, 0, 1, 2, 0}
			var waiting []<-chan result
			for i, gateway := range at {
				waiting = append(waiting, f.waits(gateway, "fifo", fmt.Sprint("w", i), lease.Request{}))
			}
			via := 0
			for i, got := range waiting {
				if releasing == "AnotherGateway" {
					via = (via + 1) % 3
				}
				f.release(via, held)
				held = next(t, got, soon)
				via = at[i]
				if held.Remaining < 29*time.Second {
					t.Fatalf("w%d was given a lease with %v of 30s left", i, held.Remaining)
				}
			}
			f.release(via, held)
			if names := f.space.Names(); len(names) > 0 {
				t.Fatalf("%v are left", names)
			}
		})
	}
}

// TestHandOffInOneGatewayAsksNobody: neither the locker nor a second commit is needed.
func TestHandOffInOneGatewayAsksNobody(t *testing.T) {
	f := newFleet(t, 1)
	held := f.acquire(0, "local", "first", lease.Request{})
	var waiting []<-chan result
	for i := range 20 {
		waiting = append(waiting, f.waits(0, "local", fmt.Sprint("w", i), lease.Request{}))
		if i > 8 {
			break // more than a note holds are not seen
		}
	}
	began := f.space.Calls()
	for _, got := range waiting {
		f.release(0, held)
		held = next(t, got, soon)
	}
	if n := f.space.Calls() - began; n > 4 {
		t.Errorf("%d calls for %d hand-offs", n, len(waiting))
	}
	for i, g := range f.ledger.Grants("local")[:len(waiting)] {
		if g.Ended != "" {
			t.Errorf("grant %d was ended by itself (%s)", i, g.Ended)
		}
	}
}

// TestExpiredHolderIsFollowed: by the next in its own gateway, and in another one; at its deadline and not at the locker's.
func TestExpiredHolderIsFollowed(t *testing.T) {
	for name, gateway := range map[string]int{"SameGateway": 0, "AnotherGateway": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 2)
			began := time.Now()
			first := f.acquire(0, name, "first", lease.Request{TTL: 300 * time.Millisecond})
			got := f.waits(gateway, name, "second", lease.Request{})
			second := next(t, got, soon)
			if took := time.Since(began); took < 299*time.Millisecond || took > 2*time.Second {
				t.Errorf("the second has it after %v", took)
			}
			wantCode(t, f.gateways[0].Verify(t.Context(), name, "p", first.First()), fence.CodeStaleToken)
			_, err := f.gateways[0].Renew(t.Context(), ref(first), 0)
			if e := wantCode(t, err, fence.CodeLeaseLost); e.Holder != "second" {
				t.Errorf("lost to %q", e.Holder)
			}
			f.release(gateway, second)
		})
	}
}

// TestRenewedHolderIsNotFollowed: renewals count through whatever gateway they come.
func TestRenewedHolderIsNotFollowed(t *testing.T) {
	for name, via := range map[string]int{"OwnGateway": 0, "AnotherGateway": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 2)
			held := f.acquire(0, name, "first", lease.Request{TTL: 400 * time.Millisecond})
			got := f.waits(0, name, "second", lease.Request{TTL: time.Minute})
			for range 8 {
				<-time.After(130 * time.Millisecond)
				if _, err := f.gateways[via].Renew(t.Context(), ref(held), 0); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case <-got:
				t.Fatal("the second was granted the lease of a holder that renews")
			default:
			}
			f.release(via, held)
			if second := next(t, got, soon); second.Remaining < 59*time.Second {
				t.Errorf("the second has %v", second.Remaining)
			}
		})
	}
}

// TestBreakUnderTheQueue: the next has a lease, and the broken holder learns who and why.
func TestBreakUnderTheQueue(t *testing.T) {
	for name, via := range map[string]int{"OwnGateway": 0, "AnotherGateway": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 2)
			held := f.acquire(0, name, "first", lease.Request{})
			one, two, three := f.waits(0, name, "one", lease.Request{}), f.waits(0, name, "two", lease.Request{}), f.waits(1, name, "three", lease.Request{})
			if err := f.gateways[via].Break(t.Context(), name, "ops", "stuck"); err != nil {
				t.Fatal(err)
			}
			first := next(t, one, soon)
			_, err := f.gateways[1-via].Renew(t.Context(), ref(held), 0)
			wantCode(t, err, fence.CodeLeaseLost)
			if _, err := f.gateways[1].Renew(t.Context(), ref(first), 0); err != nil {
				t.Errorf("the next has no lease: %v", err)
			}
			f.release(0, first)
			f.release(0, next(t, two, soon))
			f.release(1, next(t, three, soon))
		})
	}
	f := newFleet(t, 1)
	held := f.acquire(0, "why", "first", lease.Request{})
	if err := f.gateways[0].Break(t.Context(), "why", "ops", "stuck"); err != nil {
		t.Fatal(err)
	}
	_, err := f.gateways[0].Renew(t.Context(), ref(held), 0)
	if e := wantCode(t, err, fence.CodeLeaseLost); e.Ended != "broken: stuck" || e.EndedBy != "ops" {
		t.Errorf("it was told %q by %q", e.Ended, e.EndedBy)
	}
}

// TestWaitersThatGo cost nobody his place.
func TestWaitersThatGo(t *testing.T) {
	f := newFleet(t, 2)
	held := f.acquire(0, "go", "first", lease.Request{})
	ctx, cancel := context.WithCancel(t.Context())
	var gone []chan error
	for i := range 3 {
		errs := make(chan error, 1)
		gone = append(gone, errs)
		go func() {
			_, err := f.gateways[1].Acquire(ctx, lease.Request{Name: "go", Principal: "p", Holder: fmt.Sprint("gone", i), Wait: time.Minute})
			errs <- err
		}()
		f.queued("go", fmt.Sprint("gone", i))
	}
	got := f.waits(0, "go", "stays", lease.Request{})
	cancel()
	for _, errs := range gone {
		wantCode(t, <-errs, fence.CodeUnavailable)
	}
	eventually(t, "they have left", func() bool {
		v, err := f.gateways[0].Inspect(t.Context(), "go")
		return err == nil && v.Queued == 1
	})
	began := time.Now()
	f.release(0, held)
	f.release(0, next(t, got, soon))
	if took := time.Since(began); took > lease.Window {
		t.Errorf("the next had to wait for %v", took)
	}
}

func TestTooLate(t *testing.T) {
	f := newFleet(t, 2)
	held := f.acquire(0, "late", "first", lease.Request{})
	f.waits(1, "late", "one", lease.Request{})
	f.waits(0, "late", "two", lease.Request{})
	began := time.Now()
	_, err := f.gateways[1].Acquire(t.Context(), lease.Request{Name: "late", Principal: "p", Wait: 300 * time.Millisecond})
	e := wantCode(t, err, fence.CodeLeaseHeld)
	if took := time.Since(began); took < 300*time.Millisecond || took > 2*time.Second {
		t.Errorf("refused after %v", took)
	}
	if e.Holder != "first" || e.Remaining <= 0 || e.Queue != 3 || e.Waiting != 3 {
		t.Errorf("held by %s for %v, at %d of %d", e.Holder, e.Remaining, e.Queue, e.Waiting)
	}
	_, err = f.gateways[0].Acquire(t.Context(), lease.Request{Name: "late", Principal: "p"})
	if e := wantCode(t, err, fence.CodeLeaseHeld); e.Holder != "first" {
		t.Errorf("held by %s", e.Holder)
	}
	var v *lease.View
	eventually(t, "the last has left", func() bool {
		v, err = f.gateways[0].Inspect(t.Context(), "late")
		return err == nil && v.Queued == 2
	})
	if v.Holder != "first" || len(v.Waiting) != 2 || v.Waiting[0].Holder != "one" || v.Waiting[1].Holder != "two" {
		t.Errorf("shown as %+v, %v", v, err)
	}
	f.release(0, held)
}

func TestQueueIsBounded(t *testing.T) {
	f := newFleet(t, 0)
	f.add(f.space.Locker(), lease.Config{MaxQueue: 2, MaxWaiting: 3})
	for _, name := range []string{"a", "b"} {
		f.acquire(0, name, "first", lease.Request{})
	}
	f.waits(0, "a", "one", lease.Request{})
	f.waits(0, "a", "two", lease.Request{})
	full := func(name string) {
		t.Helper()
		_, err := f.gateways[0].Acquire(t.Context(), lease.Request{Name: name, Principal: "p", Wait: time.Minute})
		wantCode(t, err, fence.CodeRateLimited)
	}
	full("a")
	f.waits(0, "b", "three", lease.Request{})
	full("b")
	_, err := f.gateways[0].Acquire(t.Context(), lease.Request{Name: "b", Principal: "p"})
	wantCode(t, err, fence.CodeLeaseHeld)
}

// TestRepeatedWhileItWaits: a copy of an acquire whose first copy is served gets the same grant, and holds up nobody.
func TestRepeatedWhileItWaits(t *testing.T) {
	f := newFleet(t, 2)
	held := f.acquire(0, "copy", "first", lease.Request{})
	one := f.waits(0, "copy", "twice", lease.Request{AcquireID: "x"})
	two := make(chan result, 1)
	go func() {
		h, err := f.gateways[0].Acquire(context.Background(), lease.Request{Name: "copy", Principal: "p", Holder: "twice", AcquireID: "x", Wait: time.Minute})
		two <- result{h, err}
	}()
	eventually(t, "both wait", func() bool { return f.gateways[0].Stats().Waiting == 2 })
	f.release(0, held)
	a, b := next(t, one, soon), next(t, two, soon)
	if a.ID == "" || a.ID != b.ID {
		t.Fatalf("granted %d and %d", a.First(), b.First())
	}
	again := f.acquire(1, "copy", "twice", lease.Request{AcquireID: "x"})
	if again.ID != a.ID || again.Remaining < 20*time.Second {
		t.Fatalf("repeated at another gateway: %d for %v", again.First(), again.Remaining)
	}
	f.release(1, again)
	f.acquire(0, "copy", "next", lease.Request{Wait: soon})
}

// TestGatewayStops: its waiters are sent away, and the others' turns come.
func TestGatewayStops(t *testing.T) {
	f := newFleet(t, 3)
	held := f.acquire(0, "stops", "first", lease.Request{})
	gone := f.waits(1, "stops", "gone", lease.Request{})
	got := f.waits(2, "stops", "stays", lease.Request{})
	f.gateways[1].Close()
	if r := <-gone; fence.CodeOf(r.err) != fence.CodeUnavailable {
		t.Fatalf("%v", r.err)
	}
	f.gateways[0].Close() // with the lease
	f.release(2, held)
	f.release(2, next(t, got, soon))
}

// TestLockerForgets: whoever waits goes on waiting, and is served.
func TestLockerForgets(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	held := f.acquire(0, "flush", "first", lease.Request{TTL: 24 * time.Hour})
	one, two := f.waits(1, "flush", "one", lease.Request{}), f.waits(0, "flush", "two", lease.Request{})
	f.space.Flush()
	// The queue is forgotten with the holder: it is noticed at the next look.
	first, second := one, two
	select {
	case r := <-one:
		f.release(1, r.Held)
	case r := <-two:
		f.release(0, r.Held)
		first, second = two, one
	case <-time.After(12 * time.Second):
		t.Fatal("nobody was granted a lease that is free")
	}
	_ = first
	next(t, second, 12*time.Second)
	wantCode(t, f.gateways[0].Verify(t.Context(), "flush", "p", held.First()), fence.CodeStaleToken)
}
