package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
)

// keepOn keeps a lease of a rig for alice.
func keepOn(t *testing.T, r *rig, ttl time.Duration) *lease.Kept {
	t.Helper()
	k, err := lease.Keeper{Leases: r.Manager, Principal: "alice", TTL: ttl}.Keep(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// wantLost waits for the loss of a lease.
func wantLost(t *testing.T, k *lease.Kept, within time.Duration, loss lease.Loss) *lease.LostError {
	t.Helper()
	select {
	case <-k.Context().Done():
	case <-time.After(within):
		t.Fatalf("it is still held after %v", within)
	}
	var lost *lease.LostError
	if err := context.Cause(k.Context()); !errors.As(err, &lost) || lost.Loss != loss {
		t.Fatalf("lost: %v, want %s", err, loss)
	}
	return lost
}

func TestKeepOnRedis(t *testing.T) {
	t.Run("BeyondTheTTL", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		k := keepOn(t, r, 300*time.Millisecond)
		for end := time.After(900 * time.Millisecond); ; {
			_, err := r.Acquire(t.Context(), lease.Request{Name: "kept", Principal: "bob"})
			wantCode(t, err, fence.CodeLeaseHeld)
			if token, err := k.Tokens().Next(k.Context()); err != nil || r.Verify(t.Context(), "kept", "alice", token) != nil {
				t.Fatalf("token %d: %v", token, err)
			}
			select {
			case <-end:
			case <-time.After(20 * time.Millisecond):
				continue
			}
			break
		}
		if err := k.Close(); err != nil || !r.free("kept") {
			t.Errorf("closed: %v, free: %v", err, r.free("kept"))
		}
		wantCode(t, r.Verify(t.Context(), "kept", "alice", k.Token()), fence.CodeGrantEnded)
	})
	t.Run("Broken", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		k := keepOn(t, r, 600*time.Millisecond)
		defer k.Close()
		if err := r.Break(t.Context(), "kept", "root", "stuck"); err != nil {
			t.Fatal(err)
		}
		if lost := wantLost(t, k, 5*time.Second, lease.LossEnded); lost.Why != "broken: stuck" || lost.By != "root" {
			t.Errorf("lost: %+v", lost)
		}
	})
	t.Run("TakenOnTheOtherSideOfASplit", func(t *testing.T) {
		t.Parallel()
		r, other := newRig(t), newRig(t)
		other.ledger.Ledger = r.truth
		k := keepOn(t, r, 600*time.Millisecond)
		other.acquire(lease.Request{Name: "kept", Principal: "bob", Holder: "bob-1"})
		if lost := wantLost(t, k, 5*time.Second, lease.LossTaken); lost.Holder != "bob-1" {
			t.Errorf("lost: %+v", lost)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		if g := r.newest("kept"); g.Holder != "bob-1" || g.Ended != "" {
			t.Errorf("the successor's grant is %+v", g)
		}
	})
	t.Run("RedisHangs", func(t *testing.T) {
		t.Parallel()
		server := testenv.RedisServer(t)
		k := keepOn(t, newRigAt(t, server.URL()), 500*time.Millisecond)
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		wantLost(t, k, 5*time.Second, lease.LossUnknown)
		if err := server.Resume(); err != nil {
			t.Fatal(err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("AdoptedFromAnotherProcess", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		h := r.acquire(lease.Request{Name: "kept", TTL: 300 * time.Millisecond})
		// What FENCE_LEASE_ID tells.
		k, err := lease.Keeper{Leases: r.Manager, Principal: "alice", TTL: 300 * time.Millisecond}.Adopt(t.Context(), &lease.Held{Grant: fence.Grant{Lease: "kept", ID: h.ID}})
		if err != nil || k.Token() != h.First() {
			t.Fatalf("adopted: %v", err)
		}
		if err := k.Close(); err != nil || !r.free("kept") {
			t.Errorf("closed: %v", err)
		}
	})
}
