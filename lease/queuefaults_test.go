package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// stalled is a locker whose gateway can be stopped: its signals wait, and so do its calls.
type stalled struct {
	lease.Locker
	mu sync.Mutex // held while it is stopped
}

func (s *stalled) gate() {
	s.mu.Lock()
	defer s.mu.Unlock()
}

func (s *stalled) Listen(ctx context.Context, f func(lease.Signal)) error {
	return s.Locker.Listen(ctx, func(g lease.Signal) { s.gate(); f(g) })
}

func (s *stalled) Extend(ctx context.Context, name string, x lease.Extension) (lease.Standing, error) {
	s.gate()
	return s.Locker.Extend(ctx, name, x)
}

func (s *stalled) Stay(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
	s.gate()
	return s.Locker.Stay(ctx, name, e)
}

func (s *stalled) Enter(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
	s.gate()
	return s.Locker.Enter(ctx, name, e)
}

// TestStoppedWaitersCostAWindow: a gateway that is stopped, not dead, costs the time in which it does not claim; once it goes on
// it has its place again, and is not served twice.
func TestStoppedWaitersCostAWindow(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	var stopped []*stalled
	for range 3 {
		s := &stalled{Locker: f.space.Locker()}
		stopped = append(stopped, s)
		f.add(s, lease.Config{})
	}
	f.add(f.space.Locker(), lease.Config{})
	held := f.acquire(0, "window", "first", lease.Request{})
	var asleep []<-chan result
	for i := range 3 {
		asleep = append(asleep, f.waits(i+1, "window", fmt.Sprint("asleep", i), lease.Request{}))
	}
	got := f.waits(4, "window", "awake", lease.Request{})
	for _, s := range stopped {
		s.mu.Lock()
	}
	began := time.Now()
	f.release(0, held)
	awake := next(t, got, soon)
	if took := time.Since(began); took < 3*lease.Window-50*time.Millisecond || took > 3*lease.Window+700*time.Millisecond {
		t.Errorf("three stopped gateways cost %v", took)
	}
	for _, s := range stopped {
		s.mu.Unlock()
	}
	for i := range asleep {
		f.queued("window", fmt.Sprint("asleep", i))
	}
	f.release(4, awake)
	for i, got := range asleep {
		f.release(i+1, next(t, got, soon))
	}
}

// TestQueueUnderChaos runs clients that come, wait, renew, release through any gateway, give up and go, on gateways that stop
// and a server that forgets. The order is kept (I4), and whoever waits long enough is served.
func TestQueueUnderChaos(t *testing.T) {
	for _, faults := range []bool{false, true} {
		t.Run(fmt.Sprintf("Faults=%v", faults), func(t *testing.T) {
			t.Parallel()
			chaos(t, rand.Uint64(), faults)
		})
	}
}

func chaos(t *testing.T, seed uint64, faults bool) {
	t.Logf("seed %d", seed)
	f := newFleet(t, 0)
	var lockers []*stalled
	for range 3 {
		s := &stalled{Locker: f.space.Locker()}
		lockers = append(lockers, s)
		f.add(s, lease.Config{})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	names := []string{"a", "b"}
	inside := map[string]*atomic.Int64{"a": {}, "b": {}}
	var grants, together atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for n := 0; ctx.Err() == nil; n++ {
				name := names[rng.IntN(2)]
				mine, cancel := context.WithCancel(context.WithoutCancel(ctx))
				if rng.IntN(6) == 0 {
					time.AfterFunc(time.Duration(rng.IntN(30))*time.Millisecond, cancel)
				}
				q := lease.Request{Name: name, Principal: "p", Holder: fmt.Sprint(i), TTL: 500 * time.Millisecond, Wait: 10 * time.Second}
				if rng.IntN(4) == 0 {
					q.Wait = time.Duration(rng.IntN(20)) * time.Millisecond
				}
				if rng.IntN(3) == 0 {
					q.AcquireID = fmt.Sprint(i, "/", n)
				}
				h, err := f.gateways[rng.IntN(3)].Acquire(mine, q)
				began := time.Now()
				switch code := fence.CodeOf(err); {
				case err == nil:
					grants.Add(1)
					if inside[name].Add(1) > 1 {
						together.Add(1)
					}
					<-time.After(time.Duration(rng.IntN(4)) * time.Millisecond)
					if rng.IntN(5) == 0 {
						_, err := f.gateways[rng.IntN(3)].Renew(context.WithoutCancel(ctx), ref(h), 0)
						if err != nil && !faults {
							t.Errorf("renew after %v of %v: %v", time.Since(began), h.Remaining, err)
						}
					}
					inside[name].Add(-1)
					if rng.IntN(25) > 0 {
						via := f.gateways[rng.IntN(3)]
						if err := via.Release(context.WithoutCancel(ctx), ref(h)); err != nil && !faults {
							t.Errorf("release: %v", err)
						}
						// Repeated as after a lost answer, it takes nothing from whoever is next.
						for range rng.IntN(3) {
							_ = f.gateways[rng.IntN(3)].Release(context.WithoutCancel(ctx), ref(h))
						}
					}
				case mine.Err() != nil && code == fence.CodeUnavailable, code == fence.CodeLeaseHeld && q.Wait < time.Second:
				case faults && (code == fence.CodeContention || code == fence.CodeLeaseHeld):
				default:
					t.Errorf("acquire %s: %v", name, err)
				}
				cancel()
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 1000))
	for faults && ctx.Err() == nil {
		<-time.After(time.Duration(100+rng.IntN(300)) * time.Millisecond)
		if rng.IntN(4) == 0 {
			f.space.Flush()
			continue
		}
		s := lockers[rng.IntN(3)]
		s.mu.Lock()
		<-time.After(time.Duration(rng.IntN(600)) * time.Millisecond)
		s.mu.Unlock()
	}
	wg.Wait()
	if grants.Load() < 100 {
		t.Errorf("%d grants show nothing", grants.Load())
	}
	if !faults && together.Load() > 0 {
		t.Errorf("%d times two held a lease", together.Load())
	}
	t.Logf("%d grants, %d times two at once", grants.Load(), together.Load())
	for _, name := range names {
		checkBlocks(t, f.ledger.Grants(name))
	}
}
