package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// slowLedger certifies once it is let.
type slowLedger struct {
	lease.Ledger
	asked chan string // the holders that wait for a certificate
	let   chan struct{}
}

func (s *slowLedger) Certify(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
	s.asked <- c.Holder
	<-s.let
	return s.Ledger.Certify(ctx, c)
}

// TestReleaseRepeatedAfterTheNextClaimed: a release through another gateway whose answer was lost is repeated when the next one
// has the lease already and no grant yet. It has no effect on his.
func TestReleaseRepeatedAfterTheNextClaimed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	slow := &slowLedger{Ledger: f.ledger, asked: make(chan string, 10), let: make(chan struct{}, 10)}
	f.gateways = append(f.gateways, newManager(t, f.space.Locker(), slow, lease.Config{}))
	slow.let <- struct{}{}
	first := f.acquire(1, "late", "first", lease.Request{})
	<-slow.asked
	got := make(chan result, 1)
	go func() {
		h, err := f.gateways[1].Acquire(context.WithoutCancel(t.Context()), lease.Request{Name: "late", Principal: "p", Holder: "second", Wait: soon})
		got <- result{h, err}
	}()
	eventually(t, "the server knows that somebody waits", func() bool { return f.look("late").Behind > 0 })
	f.release(0, first)
	if who := <-slow.asked; who != "second" {
		t.Fatalf("%s is certified", who)
	}
	eventually(t, "the server knows that nobody waits behind him", func() bool { return f.look("late").Behind == 0 })
	for range 3 {
		f.release(0, first)
	}
	slow.let <- struct{}{}
	second := next(t, got, soon)
	// Anybody else finds it held, and its holder keeps it.
	_, err := f.gateways[0].Acquire(t.Context(), lease.Request{Name: "late", Principal: "p", Holder: "third"})
	if fence.CodeOf(err) != fence.CodeLeaseHeld {
		t.Fatalf("a third one's acquire: %v", err)
	}
	for gateway := range 2 {
		if h, err := f.gateways[gateway].Renew(t.Context(), ref(second), time.Minute); err != nil || h.Remaining < 50*time.Second {
			t.Fatalf("renewed through gateway %d: %+v, %v", gateway, h, err)
		}
	}
	f.release(0, second)
	eventually(t, "it is free", func() bool { return (f.look("late").Value == fence.Digest{}) })
}
