package lease_test

import (
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
