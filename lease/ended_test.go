package lease_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
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

// TestPages: pages of any size, among leases that have ended, show each that is held once.
func TestPages(t *testing.T) {
	r := newRig(t)
	const leases = 250
	var held []string
	for i := range leases {
		name := fmt.Sprintf("page/%03d", i)
		if h := r.acquire(lease.Request{Name: name}); i%5 > 0 {
			held = append(held, name)
		} else if err := r.Release(t.Context(), ref(h)); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int{1, 7, 99, 100, 101, leases} {
		var shown []string
		for l := (lease.Listing{Prefix: "page/", Limit: limit}); ; {
			page, err := r.List(t.Context(), l)
			if err != nil || len(page.Leases) > limit {
				t.Fatalf("%d leases on a page of %d: %v", len(page.Leases), limit, err)
			}
			for _, v := range page.Leases {
				shown = append(shown, v.Lease)
			}
			if l.After = page.Next; l.After == "" {
				break
			}
		}
		if !slices.Equal(shown, held) {
			t.Errorf("pages of %d show %d leases, %d are held", limit, len(shown), len(held))
		}
	}
}

func TestLeaseOfAnEndedGrant(t *testing.T) {
	t.Run("PassesOnAtOnce", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		old := r.acquire(lease.Request{Name: "day", TTL: 24 * time.Hour})
		r.endUnderItsLease("day")
		next := r.acquire(lease.Request{Name: "day", Principal: "bob"})
		if next.First() <= old.First() || next.Remaining <= 0 {
			t.Errorf("granted %+v after %d", next, old.First())
		}
		if st := r.look("day"); st.Value != next.Hold {
			t.Errorf("the lease is %+v", st)
		}
	})
	t.Run("PassesOnToOneThatWaits", func(t *testing.T) {
		t.Parallel()
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
		t.Parallel()
		r := newRig(t)
		h := r.acquire(lease.Request{Name: "missed", TTL: 24 * time.Hour})
		r.locker.drop = func() error { return errors.New("down") }
		wantCode(t, r.Release(t.Context(), ref(h)), fence.CodeUnavailable)
		r.locker.drop = nil
		r.acquire(lease.Request{Name: "missed", Principal: "bob", Wait: soon})
	})
	t.Run("ElsewherePassesOnSoon", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.acquire(lease.Request{Name: "elsewhere", TTL: 24 * time.Hour})
		r.endUnderItsLease("elsewhere")
		m := newManager(t, r.space.Locker(), r.ledger, lease.Config{})
		_, err := m.Acquire(t.Context(), lease.Request{Name: "elsewhere", Principal: "bob"})
		wantCode(t, err, fence.CodeLeaseHeld)
		eventually(t, "the lease is free", func() bool { return r.free("elsewhere") })
	})
	t.Run("WaitsWhenItCannotBeDropped", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.acquire(lease.Request{Name: "stuck"})
		r.endUnderItsLease("stuck")
		var drops atomic.Int64
		r.locker.drop = func() error { drops.Add(1); return errors.New("down") }
		_, err := r.Acquire(t.Context(), lease.Request{Name: "stuck", Principal: "bob", Wait: 1500 * time.Millisecond})
		wantCode(t, err, fence.CodeLeaseHeld)
		if n := drops.Load(); n == 0 || n > 50 {
			t.Errorf("%d drops", n)
		}
	})
}

// A lease that is being certified is not that of the grant before it, ended or not.
func TestLeaseBeingCertifiedIsNotDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := r.acquire(lease.Request{Name: "certified"})
	if err := r.Release(t.Context(), ref(old)); err != nil {
		t.Fatal(err)
	}
	taken := r.takenBy("certified", "carol")
	_, err := r.Acquire(t.Context(), lease.Request{Name: "certified", Principal: "bob", Wait: 1200 * time.Millisecond})
	if e := wantCode(t, err, fence.CodeLeaseHeld); e.Holder != "carol" {
		t.Errorf("held by %q", e.Holder)
	}
	if st := r.look("certified"); st.Value != taken {
		t.Errorf("the lease is %+v", st)
	}
}
