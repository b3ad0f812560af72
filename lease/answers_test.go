package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// What an answer says of times and of the newest grant.
func TestAnswers(t *testing.T) {
	r := newRig(t)
	q := lease.Request{Name: "answers", AcquireID: "1", TTL: 2 * time.Second}
	h := r.acquire(q)
	renewed, err := r.Renew(t.Context(), ref(h), time.Minute)
	if err != nil || renewed.TTL != time.Minute || renewed.Remaining <= 50*time.Second {
		t.Fatalf("renewed: %+v, %v", renewed, err)
	}
	if again := r.acquire(q); again.Remaining <= 50*time.Second || again.First() != h.First() {
		t.Errorf("the repetition of the acquire hides the renewal: %v", again.Remaining)
	}
	_, err = r.Acquire(t.Context(), lease.Request{Name: "answers", Principal: "bob"})
	if e := wantCode(t, err, fence.CodeLeaseHeld); e.First != h.First() || e.Holder != "alice" {
		t.Errorf("held: %+v", e)
	}
	if err := r.Release(t.Context(), ref(h)); err != nil {
		t.Fatal(err)
	}
	next := r.acquire(lease.Request{Name: "answers", Principal: "bob"})
	_, err = r.Renew(t.Context(), ref(h), 0)
	if e := wantCode(t, err, fence.CodeLeaseLost); e.First != next.First() || e.Holder != "bob" {
		t.Errorf("lost: %+v", e)
	}
}

// A ledger that is too busy to answer a repeated acquire must not cost its first copy the grant.
func TestOverloadedRepetitionLeavesTheGrant(t *testing.T) {
	r := newRig(t)
	q := lease.Request{Name: "busy", AcquireID: "1"}
	h := r.acquire(q)
	r.ledger.certify = func(context.Context, fence.Certificate) (*fence.Grant, error) {
		return nil, fence.Errorf(fence.CodeOverloaded, "busy")
	}
	q.Principal = "alice"
	_, err := r.Acquire(t.Context(), q)
	wantCode(t, err, fence.CodeOverloaded)
	r.ledger.certify = nil
	if again := r.acquire(q); again.First() != h.First() || r.newest("busy").Ended != "" {
		t.Errorf("the repetition got %d, the first %d", again.First(), h.First())
	}
}
