package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
)

func TestLostCertificateReplyIsSettled(t *testing.T) {
	r := newRig(t)
	calls := 0
	r.ledger.certify = func(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
		calls++
		g, err := r.truth.Certify(ctx, c)
		if calls < 3 {
			return nil, fence.Errorf(fence.CodeOutcomeUnknown, "the connection broke")
		}
		return g, err
	}
	h := r.acquire(lease.Request{Name: "lost reply"})
	if grants := r.truth.Grants("lost reply"); len(grants) != 1 || grants[0].First() != h.First() {
		t.Fatalf("%d grants", len(grants))
	}
}

func TestUnknownForEver(t *testing.T) {
	for name, id := range map[string]string{"GeneratedIDIsUndone": "", "ClientsIDWaitsForHisRetry": "mine"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var ends []string
			r.ledger.end = func(why string) error {
				if r.free("unknown") {
					t.Error("the lease was dropped before the grant was ended")
				}
				ends = append(ends, why)
				return nil
			}
			r.ledger.certify = func(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
				if _, err := r.truth.Certify(ctx, c); err != nil {
					t.Error(err)
				}
				return nil, fence.Errorf(fence.CodeOutcomeUnknown, "the connection broke")
			}
			q := lease.Request{Name: "unknown", Principal: "alice", AcquireID: id}
			_, err := r.Acquire(t.Context(), q)
			if id == "" {
				wantCode(t, err, fence.CodeUnavailable)
				if g := r.newest("unknown"); g.Ended != fence.EndAbandoned || !r.free("unknown") || len(ends) != 1 {
					t.Fatalf("grant %+v, ends %q", g, ends)
				}
				return
			}
			wantCode(t, err, fence.CodeOutcomeUnknown)
			r.ledger.certify = nil
			if h := r.acquire(q); h.First() != r.newest("unknown").First() || len(r.truth.Grants("unknown")) != 1 || len(ends) != 0 {
				t.Fatalf("the retry got %+v, ends %q", h, ends)
			}
		})
	}
}

func TestCallerGoesAway(t *testing.T) {
	t.Run("WhileWaiting", func(t *testing.T) {
		r := newRig(t)
		h := r.acquire(lease.Request{Name: "gone"})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := r.Acquire(ctx, lease.Request{Name: "gone", Principal: "bob", Wait: time.Minute})
		wantCode(t, err, fence.CodeUnavailable)
		if g := r.newest("gone"); g.First() != h.First() || g.Ended != "" || r.free("gone") {
			t.Fatalf("a waiter who left changed the holder's grant: %+v", g)
		}
	})
	for name, id := range map[string]string{"GeneratedIDIsReleased": "", "ClientsIDKeepsItsGrant": "mine"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r.ledger.certify = func(certifying context.Context, c fence.Certificate) (*fence.Grant, error) {
				cancel()
				return r.truth.Certify(certifying, c)
			}
			h, err := r.Acquire(ctx, lease.Request{Name: "gone", Principal: "alice", AcquireID: id})
			if id != "" {
				if err != nil || r.newest("gone").First() != h.First() || r.free("gone") {
					t.Fatalf("%+v, %v", h, err)
				}
				return
			}
			wantCode(t, err, fence.CodeUnavailable)
			if g := r.newest("gone"); g.Ended != fence.EndAbandoned || !r.free("gone") {
				t.Fatalf("half a grant is left: %+v", g)
			}
		})
	}
}

func TestLostTakeReply(t *testing.T) {
	r := newRig(t)
	r.locker.enter = func(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
		if _, err := r.locker.Locker.Enter(ctx, name, e); err != nil {
			t.Error(err)
		}
		return lease.Standing{}, fence.Errorf(fence.CodeUnavailable, "the connection broke")
	}
	q := lease.Request{Name: "lost take", Principal: "alice", AcquireID: "mine"}
	_, err := r.Acquire(t.Context(), q)
	wantCode(t, err, fence.CodeUnavailable)
	eventually(t, "what may have been taken is given back", func() bool { return r.free("lost take") })
	r.locker.enter = nil
	r.acquire(q)
}

func TestSlowLedger(t *testing.T) {
	for name, takenOver := range map[string]bool{"LeaseRanOut": false, "SuccessorTookIt": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.ledger.certify = func(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
				g, err := r.truth.Certify(ctx, c)
				eventually(t, "expiry", func() bool { return r.free(c.Lease) })
				if takenOver {
					r.takenBy(c.Lease, "b")
				}
				return g, err
			}
			h := r.acquire(lease.Request{Name: "slow", TTL: 100 * time.Millisecond})
			if h.ID == "" || h.Remaining != 0 {
				t.Fatalf("granted %+v, want it honestly with nothing remaining", h)
			}
			if !takenOver && !r.free("slow") {
				t.Fatal("a lease that ran out was taken again")
			}
		})
	}
	t.Run("LeaseIsExtended", func(t *testing.T) {
		r := newRig(t)
		r.locker.enter = func(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
			e.TTL = time.Hour
			return r.locker.Locker.Enter(ctx, name, e)
		}
		r.ledger.certify = func(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
			<-time.After(150 * time.Millisecond)
			return r.truth.Certify(ctx, c)
		}
		if h := r.acquire(lease.Request{Name: "slow", TTL: 100 * time.Millisecond}); h.Remaining <= 50*time.Millisecond || h.Remaining > 100*time.Millisecond {
			t.Fatalf("%v remain", h.Remaining)
		}
	})
}

func TestLockerDown(t *testing.T) {
	server := testenv.RedisServer(t)
	r := newRigAt(t, server.URL())
	h := r.acquire(lease.Request{Name: "hung"})
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	defer server.Resume()
	for what, call := range map[string]func() error{
		"acquire": func() error {
			_, err := r.Acquire(t.Context(), lease.Request{Name: "other", Principal: "bob", Wait: time.Minute})
			return err
		},
		"renew":   func() error { _, err := r.Renew(t.Context(), ref(h), 0); return err },
		"more":    func() error { _, err := r.More(t.Context(), ref(h)); return err },
		"inspect": func() error { _, err := r.Inspect(t.Context(), "hung"); return err },
	} {
		began := time.Now()
		wantCode(t, call(), fence.CodeUnavailable)
		if took := time.Since(began); took > 3*time.Second {
			t.Fatalf("%s took %v", what, took)
		}
	}
	// Redis down stops leases, never writes.
	if err := r.Verify(t.Context(), "hung", "alice", h.First()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	wantCode(t, r.Release(t.Context(), ref(h)), fence.CodeUnavailable)
	if took := time.Since(began); took > 3*time.Second {
		t.Fatalf("release took %v", took)
	}
	if g := r.newest("hung"); g.Ended != fence.EndReleased {
		t.Fatalf("a release without the locker left the grant: %+v", g)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "release completed", func() bool { return r.Release(t.Context(), ref(h)) == nil })
	if !r.free("hung") {
		t.Fatal("the lease is still held")
	}
	r.acquire(lease.Request{Name: "hung", Principal: "bob"})
}
