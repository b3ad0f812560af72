package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

func TestStats(t *testing.T) {
	r := newRig(t)
	tries := 0
	r.ledger.certify = func(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
		if tries++; tries == 1 {
			rival(ctx, t, r, c)
		}
		return r.truth.Certify(ctx, c)
	}
	r.acquire(lease.Request{Name: "counted"})
	if s := r.Stats(); s != (lease.Stats{Void: 1}) {
		t.Fatalf("%+v after a void certificate", s)
	}

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := r.Acquire(ctx, lease.Request{Name: "counted", Principal: "bob", Wait: time.Minute})
		done <- err
	}()
	for r.Stats().Waiting != 1 {
		select {
		case err := <-done:
			t.Fatalf("the acquire that should wait has ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	wantCode(t, <-done, fence.CodeUnavailable)
	if s := r.Stats(); s.Waiting != 0 {
		t.Fatalf("%+v after the waiter left", s)
	}
}
