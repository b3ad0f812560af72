package lease

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fence"
)

const keepTTL = 30 * time.Second

// keepFake is a service of leases whose answers a test decides, and a clock that a test can let run ahead, as it does
// while the machine sleeps. Without a function a call succeeds at once.
type keepFake struct {
	t       *testing.T
	acquire func(ctx context.Context) (*Held, error)
	renew   func(ctx context.Context, n int) (*Held, error)
	more    func(ctx context.Context) error
	release func(ctx context.Context, n int) error

	start time.Time

	mu       sync.Mutex // guards what follows
	asleep   time.Duration
	renewed  []time.Duration // when renewals arrived
	released []time.Duration
	blocks   fence.Token // drawn so far
	lost     []error     // what the hooks were told
}

func newKeepFake(t *testing.T) *keepFake { return &keepFake{t: t, start: time.Now(), blocks: 1} }

func (f *keepFake) at() time.Duration { return time.Since(f.start) }

func (f *keepFake) now() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at() + f.asleep
}

// sleepFor lets time pass that no timer notices.
func (f *keepFake) sleepFor(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asleep += d
}

func (f *keepFake) grant() *Held {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &Held{Remaining: keepTTL, Grant: fence.Grant{
		Lease: "job", ID: "secret", Principal: "alice", Holder: "alice", TTL: keepTTL,
		Blocks: []fence.Block{{First: fence.BlockSize, Last: (f.blocks+1)*fence.BlockSize - 1}},
	}}
}

func (f *keepFake) Acquire(ctx context.Context, r Request) (*Held, error) {
	if r.Name != "job" || r.Principal == "" {
		f.t.Errorf("acquire %+v", r)
	}
	if f.acquire != nil {
		return f.acquire(ctx)
	}
	return f.grant(), nil
}

func (f *keepFake) Renew(ctx context.Context, ref Ref, ttl time.Duration) (*Held, error) {
	if ref.Name != "job" || ref.ID != "secret" || ref.Principal != "alice" || ttl != keepTTL {
		f.t.Errorf("renew %+v for %v", ref, ttl)
	}
	f.mu.Lock()
	f.renewed = append(f.renewed, f.at())
	n := len(f.renewed)
	f.mu.Unlock()
	if f.renew != nil {
		if h, err := f.renew(ctx, n); h != nil || err != nil {
			return h, err
		}
	}
	return f.grant(), nil
}

func (f *keepFake) More(ctx context.Context, ref Ref) (*Held, error) {
	if f.more != nil {
		if err := f.more(ctx); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	f.blocks++
	f.mu.Unlock()
	return f.grant(), nil
}

func (f *keepFake) Release(ctx context.Context, ref Ref) error {
	f.mu.Lock()
	f.released = append(f.released, f.at())
	n := len(f.released)
	f.mu.Unlock()
	if f.release != nil {
		return f.release(ctx, n)
	}
	return ctx.Err()
}

func (f *keepFake) renewals() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Duration(nil), f.renewed...)
}

func (f *keepFake) releases() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.released)
}

// keeper has the fake's clock and tells it of losses.
func (f *keepFake) keeper() Keeper {
	return Keeper{Leases: f, Principal: "alice", now: f.now, Hooks: keepFakeHooks{fake: f}}
}

func (f *keepFake) keep(ctx context.Context, k Keeper) *Kept {
	f.t.Helper()
	kept, err := k.Keep(ctx, "job")
	if err != nil {
		f.t.Fatal(err)
	}
	return kept
}

// kept keeps the lease with the defaults.
func (f *keepFake) kept() *Kept {
	f.t.Helper()
	return f.keep(f.t.Context(), f.keeper())
}

type keepFakeHooks struct {
	NoHooks
	fake *keepFake
}

func (h keepFakeHooks) Lost(_ string, cause error) {
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	h.fake.lost = append(h.fake.lost, cause)
}

// keepAway is a service that cannot be reached.
func keepAway(context.Context, int) (*Held, error) {
	return nil, fence.Errorf(fence.CodeUnavailable, "nobody there")
}

// wantLoss waits for the end of a Kept's context, and checks its cause.
func (f *keepFake) wantLoss(k *Kept, loss Loss) *LostError {
	f.t.Helper()
	<-k.Context().Done()
	lost := lossOf(context.Cause(k.Context()))
	if lost == nil || lost.Loss != loss || lost.Lease != "job" || k.Valid() || k.Remaining() != 0 {
		f.t.Fatalf("the cause is %v, want %s", context.Cause(k.Context()), loss)
	}
	if fence.CodeOf(lost) != fence.CodeLeaseLost {
		f.t.Errorf("%v has code %s", lost, fence.CodeOf(lost))
	}
	synctest.Wait() // the hooks are told behind
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lost) != 1 || f.lost[0] != error(lost) {
		f.t.Errorf("the hooks were told %v", f.lost)
	}
	return lost
}
