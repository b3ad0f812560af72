package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
)

func TestKeepClose(t *testing.T) {
	keepTest(t, "WaitsForTheRenewalUnderWay", func(t *testing.T, f *keepFake) {
		var underWay atomic.Int32
		f.renew = func(context.Context, int) (*Held, error) {
			underWay.Add(1)
			defer underWay.Add(-1)
			time.Sleep(4 * time.Second)
			return f.grant(), nil
		}
		f.release = func(context.Context, int) error {
			if underWay.Load() != 0 {
				t.Error("released while a renewal was under way")
			}
			return nil
		}
		k := f.kept()
		time.Sleep(12 * time.Second)
		if underWay.Load() != 1 {
			t.Fatal("no renewal is under way")
		}
		if err := k.Close(); err != nil || f.at() != 14*time.Second {
			t.Errorf("closed: %v after %v", err, f.at())
		}
		time.Sleep(10 * keepTTL)
		if len(f.renewals()) != 1 || len(f.lost) != 0 {
			t.Errorf("renewed at %v", f.renewals())
		}
	})
	keepTest(t, "NoRenewalBeginsBehindIt", func(t *testing.T, f *keepFake) {
		k := f.kept()
		k.Close()
		if k.beginRenewal() != nil {
			t.Error("a renewal has begun")
		}
	})
	keepTest(t, "EndsTheContextFirst", func(t *testing.T, f *keepFake) {
		k := f.kept()
		f.release = func(context.Context, int) error {
			if k.Valid() {
				t.Error("released while the work goes on")
			}
			return nil
		}
		k.Close()
	})
	keepTest(t, "ReleasesOnAContextOfItsOwn", func(t *testing.T, f *keepFake) {
		ctx, cancel := context.WithCancel(t.Context())
		k := f.keep(ctx, f.keeper())
		f.release = func(ctx context.Context, _ int) error {
			if _, bounded := ctx.Deadline(); !bounded || ctx.Err() != nil {
				t.Errorf("released on a context that is over or has no end: %v", ctx.Err())
			}
			return nil
		}
		cancel()
		if err := k.Close(); err != nil || f.releases() != 1 {
			t.Errorf("closed: %v, %d releases", err, f.releases())
		}
	})
	keepTest(t, "RepeatsARelease", func(t *testing.T, f *keepFake) {
		f.release = func(_ context.Context, n int) error {
			if n < 3 {
				return fence.Errorf(fence.CodeUnavailable, "not now")
			}
			return nil
		}
		if err := f.kept().Close(); err != nil || f.releases() != 3 {
			t.Errorf("closed: %v, %d releases", err, f.releases())
		}
	})
	keepTest(t, "GivesUpInTime", func(t *testing.T, f *keepFake) {
		f.release = func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
		if err := f.kept().Close(); !errors.Is(err, context.DeadlineExceeded) || f.at() != 5*time.Second {
			t.Errorf("closed: %v after %v", err, f.at())
		}
	})
	keepTest(t, "OfALostLeaseIsNoError", func(t *testing.T, f *keepFake) {
		f.release = func(context.Context, int) error { return fence.Errorf(fence.CodeLeaseLost, "not yours") }
		if err := f.kept().Close(); err != nil {
			t.Errorf("closed: %v", err)
		}
	})
	keepTest(t, "TellsALossThatNobodySaw", func(t *testing.T, f *keepFake) {
		k := f.kept()
		f.sleepFor(time.Hour)
		k.Close()
		f.wantLoss(k, LossExpired)
	})
}

// keepNaive is a lease that a late renewal brings back, as it does where renewing is setting a key. Its calls take their
// time, some of them after the caller has gone.
type keepNaive struct {
	keepFake
	key      atomic.Int64 // when it was last set; 0 when nobody holds the lease
	released atomic.Bool
	late     atomic.Bool
}

func (n *keepNaive) pause() { time.Sleep(rand.N(3 * time.Millisecond)) }

func (n *keepNaive) Renew(context.Context, Ref, time.Duration) (*Held, error) {
	n.pause()
	n.key.Store(1)
	if n.released.Load() {
		n.late.Store(true)
	}
	n.pause()
	if rand.N(3) == 0 {
		return nil, fence.Errorf(fence.CodeUnavailable, "the reply is lost")
	}
	h := n.grant()
	h.Remaining = MinTTL
	return h, nil
}

func (n *keepNaive) Release(context.Context, Ref) error {
	n.pause()
	n.key.Store(0)
	n.released.Store(true)
	return nil
}

// No key is left behind a release, whatever races with it.
func TestKeepRaces(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			n := &keepNaive{keepFake: *newKeepFake(t)}
			n.acquire = func(context.Context) (*Held, error) { n.key.Store(1); return n.grant(), nil }
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			k, err := Keeper{Leases: n, TTL: MinTTL / 10}.Keep(ctx, "job")
			if err != nil && lossOf(err) == nil {
				t.Error(err)
			}
			if err == nil {
				var users sync.WaitGroup
				for range 3 {
					users.Go(func() {
						for k.Valid() {
							_, _ = k.Tokens().Next(ctx)
							k.Beat()
							n.pause()
						}
					})
				}
				time.Sleep(rand.N(20 * time.Millisecond))
				if rand.N(2) == 0 {
					cancel()
				}
				users.Go(func() { k.Close() })
				k.Close()
				users.Wait()
			}
			<-time.After(4 * MinTTL / 10)
			if n.key.Load() != 0 || n.late.Load() {
				t.Error("a renewal came after the release")
			}
		})
	}
	all.Wait()
}
