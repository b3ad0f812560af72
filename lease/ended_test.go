package lease_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// endUnderItsLease ends the newest grant in the ledger alone, as an advance of the ledger does.
func (r *rig) endUnderItsLease(name string) {
	r.t.Helper()
	if _, err := r.truth.End(r.t.Context(), name, fence.GrantRef{Newest: true}, fence.Ending{Why: fence.EndAdvanced}); err != nil {
		r.t.Fatal(err)
	}
}

func TestLeaseOfAnEndedGrant(t *testing.T) {
	t.Run("PassesOnAtOnce", func(t *testing.T) {
		r := newRig(t)
		old := r.acquire(lease.Request{Name: "day", TTL: 24 * time.Hour})
		r.endUnderItsLease("day")
		next := r.acquire(lease.Request{Name: "day", Principal: "bob"})
		if next.First() <= old.First() || next.Remaining <= 0 {
			t.Errorf("granted %+v after %d", next, old.First())
		}
		h, err := r.locker.Look(t.Context(), "day")
		if err != nil || h.Value != next.Acquire {
			t.Errorf("the lease is %+v, %v", h, err)
		}
	})
	t.Run("PassesOnToOneThatWaits", func(t *testing.T) {
		r := newRig(t)
		r.acquire(lease.Request{Name: "wait", TTL: 24 * time.Hour})
		got := make(chan error, 1)
		go func() {
			_, err := r.Acquire(t.Context(), lease.Request{Name: "wait", Principal: "bob", Wait: time.Minute})
			got <- err
		}()
		r.endUnderItsLease("wait")
		wantCode(t, <-got, fence.CodeAccepted)
	})
	t.Run("AfterAReleaseThatTheLockerMissed", func(t *testing.T) {
		r := newRig(t)
		h := r.acquire(lease.Request{Name: "missed", TTL: 24 * time.Hour})
		r.locker.drop = func() error { return errors.New("down") }
		wantCode(t, r.Release(t.Context(), ref(h)), fence.CodeUnavailable)
		r.locker.drop = nil
		r.acquire(lease.Request{Name: "missed", Principal: "bob"})
	})
	t.Run("WaitsWhenItCannotBeDropped", func(t *testing.T) {
		r := newRig(t)
		r.acquire(lease.Request{Name: "stuck"})
		r.endUnderItsLease("stuck")
		drops := 0
		r.locker.drop = func() error { drops++; return errors.New("down") }
		_, err := r.Acquire(t.Context(), lease.Request{Name: "stuck", Principal: "bob", Wait: 100 * time.Millisecond})
		wantCode(t, err, fence.CodeLeaseHeld)
		if drops == 0 || drops > 50 {
			t.Errorf("%d drops", drops)
		}
	})
}

// A lease that is being certified is not that of the grant before it, ended or not.
func TestLeaseBeingCertifiedIsNotDropped(t *testing.T) {
	r := newRig(t)
	old := r.acquire(lease.Request{Name: "certified"})
	if err := r.Release(t.Context(), ref(old)); err != nil {
		t.Fatal(err)
	}
	taken := lease.Holding{Value: fence.AcquireDigest("carol", "1"), Holder: "carol", Remaining: time.Minute}
	if _, err := r.locker.Take(t.Context(), "certified", taken); err != nil {
		t.Fatal(err)
	}
	_, err := r.Acquire(t.Context(), lease.Request{Name: "certified", Principal: "bob"})
	wantCode(t, err, fence.CodeLeaseHeld)
	if h, err := r.locker.Look(t.Context(), "certified"); err != nil || h.Value != taken.Value {
		t.Errorf("the lease is %+v, %v", h, err)
	}
}
