package lease_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

func (r *rig) waits(q lease.Request) <-chan result {
	r.t.Helper()
	q.Principal = "alice"
	before := r.Stats().Waiting
	got := make(chan result, 1)
	go func() {
		h, err := r.Acquire(context.WithoutCancel(r.t.Context()), q)
		got <- result{h, err}
	}()
	eventually(r.t, q.Holder+" waits", func() bool { return r.Stats().Waiting > before })
	return got
}

// TestRenewalThatComesLate: a renewal that reaches the locker after its holder's release, when the next has the lease under the
// same value, does not cut his lease short.
func TestRenewalThatComesLate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.acquire(lease.Request{Name: "n", Holder: "first", TTL: 20 * time.Second, Wait: time.Second})
	got := r.waits(lease.Request{Name: "n", Holder: "next", TTL: 10 * time.Minute, Wait: time.Minute})
	underway, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.locker.extend = func(x lease.Extension) {
		if x.Tenant == first.Acquire {
			once.Do(func() { close(underway) })
			<-goOn
		}
	}
	renewed := make(chan error, 1)
	go func() { _, err := r.Renew(t.Context(), ref(first), 200*time.Millisecond); renewed <- err }()
	<-underway
	if err := r.Release(t.Context(), ref(first)); err != nil {
		t.Fatal(err)
	}
	second := next(t, got, soon)
	close(goOn)
	wantCode(t, <-renewed, fence.CodeLeaseLost)
	if st := r.look("n"); st.Value != second.Hold || st.Remaining < 9*time.Minute {
		t.Fatalf("the next one's lease stands %+v", st)
	}
}

// TestEnteredAgain: the answer of an entry that took the lease is lost, and who made it goes. The next is told no more than the lease
// runs.
func TestEnteredAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	entered := make(chan struct{})
	var entries atomic.Int64
	r.locker.enter = func(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
		st, err := r.locker.Locker.Enter(ctx, name, e)
		if entries.Add(1) == 1 {
			close(entered)
			<-ctx.Done()
			return lease.Standing{}, fence.Wrap(fence.CodeUnavailable, ctx.Err(), "cut off")
		}
		return st, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := r.Acquire(ctx, lease.Request{Name: "n", Principal: "p", TTL: 400 * time.Millisecond, Wait: time.Minute})
		gone <- err
	}()
	<-entered
	got := r.waits(lease.Request{Name: "n", Holder: "next", TTL: time.Hour, Wait: time.Minute})
	cancel()
	wantCode(t, <-gone, fence.CodeUnavailable)
	h := next(t, got, soon)
	if st := r.look("n"); st.Value != h.Hold || h.Remaining > st.Remaining+time.Second {
		t.Fatalf("told %v of a lease that runs %v", h.Remaining, st.Remaining)
	}
}

// TestToldRemaining: behind whom others wait is told how long he has the lease, not how long it runs for all of them.
func TestToldRemaining(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	f.acquire(0, "n", "first", lease.Request{TTL: time.Minute})
	const ttl = 2 * time.Second
	gotA := f.waits(0, "n", "a", lease.Request{TTL: ttl, AcquireID: "a"})
	f.waits(0, "n", "b", lease.Request{TTL: ttl, Wait: 100 * time.Millisecond})
	if err := f.gateways[0].Break(t.Context(), "n", "admin", ""); err != nil {
		t.Fatal(err)
	}
	a := next(t, gotA, soon)
	for gateway, m := range f.gateways {
		again, err := m.Acquire(t.Context(), lease.Request{Name: "n", Principal: "p", Holder: "a", TTL: ttl, AcquireID: "a"})
		if err != nil || again.ID != a.ID {
			t.Fatalf("repeated through gateway %d: %v, %v", gateway, again, err)
		}
		more, err := m.More(t.Context(), ref(a))
		if err != nil {
			t.Fatal(err)
		}
		if again.Remaining > a.Remaining || more.Remaining > a.Remaining {
			t.Errorf("through gateway %d: told %v, then %v and %v", gateway, a.Remaining, again.Remaining, more.Remaining)
		}
	}
}

// TestUnknownStaysUnknown: a certificate whose reply was lost may have been made, whatever the repetition meets.
func TestUnknownStaysUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var tries atomic.Int64
	r.ledger.certify = func(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
		if tries.Add(1) == 1 {
			if _, err := r.truth.Certify(ctx, c); err != nil {
				t.Error(err)
			}
			return nil, fence.Errorf(fence.CodeOutcomeUnknown, "cut off")
		}
		return nil, fence.Errorf(fence.CodeUnavailable, "connection refused")
	}
	_, err := r.Acquire(t.Context(), lease.Request{Name: "mine", Principal: "p", AcquireID: "mine"})
	wantCode(t, err, fence.CodeOutcomeUnknown)
	tries.Store(0)
	_, err = r.Acquire(t.Context(), lease.Request{Name: "generated", Principal: "p"})
	wantCode(t, err, fence.CodeUnavailable)
	if g := r.newest("generated"); g.Ended == "" {
		t.Errorf("the grant that nobody will learn of lives: %+v", g)
	}
}

// TestCloseWhileEntering: an acquire whose entry is under way when the Manager is closed is told so.
func TestCloseWhileEntering(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	entered, goOn := make(chan struct{}), make(chan struct{})
	r.locker.enter = func(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
		close(entered)
		<-goOn
		return r.locker.Locker.Enter(ctx, name, e)
	}
	got := make(chan error, 1)
	go func() {
		_, err := r.Acquire(t.Context(), lease.Request{Name: "n", Principal: "p", Wait: time.Minute})
		got <- err
	}()
	<-entered
	r.Close()
	close(goOn)
	select {
	case err := <-got:
		wantCode(t, err, fence.CodeUnavailable)
	case <-time.After(soon):
		t.Fatal("it waits on")
	}
	if !r.free("n") {
		t.Error("the lease is held for nobody")
	}
}

// TestGivenUpWhileTheLockerIsDown: what could not be given back is once the locker can be reached, by one goroutine.
func TestGivenUpWhileTheLockerIsDown(t *testing.T) {
	r := newRig(t)
	var down atomic.Bool
	var drops atomic.Int64
	unreachable := fence.Errorf(fence.CodeUnavailable, "down")
	r.locker.enter = func(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
		st, err := r.locker.Locker.Enter(ctx, name, e)
		if down.Load() {
			return lease.Standing{}, unreachable // the answer is lost
		}
		return st, err
	}
	r.locker.drop = func() error {
		if drops.Add(1); down.Load() {
			return unreachable
		}
		return nil
	}
	before := runtime.NumGoroutine()
	down.Store(true)
	const leases = 500
	for i := range leases {
		_, err := r.Acquire(t.Context(), lease.Request{Name: fmt.Sprint(i), Principal: "p", TTL: 24 * time.Hour})
		wantCode(t, err, fence.CodeUnavailable)
	}
	if more := runtime.NumGoroutine() - before; more > 5 {
		t.Errorf("%d goroutines for what has failed", more)
	}
	if n := drops.Load(); n > 100 {
		t.Errorf("%d drops while the locker is down", n)
	}
	down.Store(false)
	for i := range leases {
		eventually(t, "it is given back", func() bool { return r.free(fmt.Sprint(i)) })
	}
}

// TestEntryThatComesLate: the entry of an acquire that was given up arrives after its value was dropped. It is dropped again.
func TestEntryThatComesLate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var late func()
	r.locker.enter = func(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
		late = func() {
			if _, err := r.locker.Locker.Enter(context.WithoutCancel(ctx), name, e); err != nil {
				t.Error(err)
			}
		}
		return lease.Standing{}, fence.Errorf(fence.CodeUnavailable, "cut off")
	}
	drops := make(chan struct{}, 10)
	r.locker.drop = func() error { drops <- struct{}{}; return nil }
	_, err := r.Acquire(t.Context(), lease.Request{Name: "n", Principal: "p", TTL: 24 * time.Hour})
	wantCode(t, err, fence.CodeUnavailable)
	<-drops
	<-time.After(50 * time.Millisecond)
	late()
	if r.free("n") {
		t.Fatal("it did not arrive")
	}
	eventually(t, "it is given back", func() bool { return r.free("n") })
}

// TestHeldForNoGrant: a lease that nobody has a grant for is taken away once no certificate can be under way, whoever asks for it.
func TestHeldForNoGrant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ask := func(what string, ask func(name string)) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := "held/" + what
			began := time.Now()
			r.takenBy(name, "nobody")
			ask(name)
			eventually(t, "it is free", func() bool { return r.free(name) })
			if took := time.Since(began); took < 2*time.Second {
				t.Errorf("taken away after %v, when it could be certified yet", took)
			}
		})
	}
	ask("acquire", func(name string) {
		_, err := r.Acquire(t.Context(), lease.Request{Name: name, Principal: "p"})
		wantCode(t, err, fence.CodeLeaseHeld)
	})
	ask("break", func(name string) {
		wantCode(t, r.Break(t.Context(), name, "admin", ""), fence.CodeNotFound)
	})
}

// TestEndedBeforeTheTurnIsOver: a grant is broken between its certificate and its delivery. The next one has the lease.
func TestEndedBeforeTheTurnIsOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ledger.certify = func(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
		g, err := r.truth.Certify(ctx, c)
		if c.Holder == "broken" {
			if err := r.Break(ctx, "n", "admin", ""); err != nil {
				t.Error(err)
			}
		}
		return g, err
	}
	r.acquire(lease.Request{Name: "n", Holder: "broken", TTL: time.Minute})
	eventually(t, "it is free", func() bool { return r.free("n") })
}

// TestGivenUpLater: an acquire that fails cannot give its lease back at once, nor can a proof whose answer was lost be known.
func TestGivenUpLater(t *testing.T) {
	t.Parallel()
	down := fence.Errorf(fence.CodeUnavailable, "down")
	t.Run("DropFails", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		var drops atomic.Int64
		r.locker.drop = func() error {
			if drops.Add(1) == 1 {
				return down
			}
			return nil
		}
		r.ledger.certify = func(context.Context, fence.Certificate) (*fence.Grant, error) { return nil, down }
		_, err := r.Acquire(t.Context(), lease.Request{Name: "n", Principal: "p", TTL: time.Hour})
		wantCode(t, err, fence.CodeUnavailable)
		eventually(t, "it is free", func() bool { return r.free("n") })
	})
	t.Run("ProofUnanswered", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.locker.lost = func(x lease.Extension) bool { return x.Next != fence.Digest{} }
		r.ledger.certify = func(context.Context, fence.Certificate) (*fence.Grant, error) { return nil, fence.ErrVoid }
		_, err := r.Acquire(t.Context(), lease.Request{Name: "n", Principal: "p", TTL: time.Hour})
		wantCode(t, err, fence.CodeUnavailable)
		eventually(t, "it is free", func() bool { return r.free("n") })
	})
}

// TestReleaseOfALostGrant: the lease is handed on here, and meanwhile somebody else was granted it on another primary. The release
// says so, and nothing tells that the other released it.
func TestReleaseOfALostGrant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.acquire(lease.Request{Name: "n", Holder: "first", TTL: time.Minute})
	got := r.waits(lease.Request{Name: "n", Holder: "next", TTL: time.Minute, Wait: time.Minute})
	eventually(t, "the locker knows", func() bool { return r.look("n").Behind == 1 })
	var tries atomic.Int64
	r.ledger.certify = func(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
		if tries.Add(1) == 1 {
			other := fence.Certificate{
				Lease: "n", Principal: "other", Holder: "other", Acquire: fence.DigestOf("other"), Hold: fence.DigestOf("other's"), TTL: time.Minute, Floor: c.Floor,
			}
			if _, err := r.truth.Certify(ctx, other); err != nil {
				t.Error(err)
			}
		} else if c.Handed {
			t.Error("the certificate says that the other has released the lease")
		}
		return r.truth.Certify(ctx, c)
	}
	wantCode(t, r.Release(t.Context(), ref(first)), fence.CodeLeaseLost)
	next(t, got, soon)
}
