package lease_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

func TestAcquireRefusesBadRequests(t *testing.T) {
	r := newRig(t)
	for name, tt := range map[string]struct {
		change func(*lease.Request)
		field  string
	}{
		"NoName":          {func(q *lease.Request) { q.Name = "" }, "name"},
		"LongName":        {func(q *lease.Request) { q.Name = strings.Repeat("n", 2049) }, "name"},
		"ControlInName":   {func(q *lease.Request) { q.Name = "a\nb" }, "name"},
		"NoPrincipal":     {func(q *lease.Request) { q.Principal = "" }, "principal"},
		"ShortTTL":        {func(q *lease.Request) { q.TTL = 99 * time.Millisecond }, "ttl"},
		"NegativeTTL":     {func(q *lease.Request) { q.TTL = -1 }, "ttl"},
		"LongTTL":         {func(q *lease.Request) { q.TTL = 24*time.Hour + 1 }, "ttl"},
		"NegativeWait":    {func(q *lease.Request) { q.Wait = -1 }, "wait"},
		"LongWait":        {func(q *lease.Request) { q.Wait = time.Hour + 1 }, "wait"},
		"ControlInHolder": {func(q *lease.Request) { q.Holder = "a\x00" }, "holder"},
		"LongAcquireID":   {func(q *lease.Request) { q.AcquireID = strings.Repeat("i", 129) }, "acquire_id"},
	} {
		t.Run(name, func(t *testing.T) {
			q := lease.Request{Name: "bad", Principal: "alice"}
			tt.change(&q)
			_, err := r.Acquire(t.Context(), q)
			if e := wantCode(t, err, fence.CodeInvalidRequest); e.Field != tt.field {
				t.Fatalf("field %q, want %q", e.Field, tt.field)
			}
		})
	}
}

func TestAcquireDefaults(t *testing.T) {
	r := newRig(t)
	a := r.acquire(lease.Request{Name: "defaults"})
	if a.TTL != 30*time.Second || a.Holder != "alice" || a.ID == "" || a.Remaining <= 25*time.Second || a.Remaining > 30*time.Second {
		t.Fatalf("granted %+v", a)
	}
	long := r.acquire(lease.Request{Name: "long principal", Principal: strings.Repeat("ü", 200) + "\n"})
	if fence.CheckHolder(long.Holder) != nil {
		t.Fatalf("holder %q", long.Holder)
	}
}

func TestOneHolderAtATime(t *testing.T) {
	r := newRig(t)
	const workers, rounds = 8, 10
	var holders, most atomic.Int32
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for range rounds {
				h, err := r.Acquire(t.Context(), lease.Request{Name: "exclusive", Principal: fmt.Sprint("w", i), Wait: time.Minute})
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				if n := holders.Add(1); n > most.Load() {
					most.Store(n)
				}
				<-time.After(time.Millisecond)
				holders.Add(-1)
				if err := r.Release(t.Context(), ref(h)); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 || len(r.truth.Grants("exclusive")) != workers*rounds {
		t.Fatalf("%d held the lease at once; %d grants, want %d", most.Load(), len(r.truth.Grants("exclusive")), workers*rounds)
	}
}

func TestLeaseHeldTellsByWhomAndHowLong(t *testing.T) {
	r := newRig(t)
	r.acquire(lease.Request{Name: "held", Holder: "worker-a"})
	began := time.Now()
	_, err := r.Acquire(t.Context(), lease.Request{Name: "held", Principal: "bob", Wait: 200 * time.Millisecond})
	e := wantCode(t, err, fence.CodeLeaseHeld)
	if e.Lease != "held" || e.Holder != "worker-a" || e.Remaining <= 20*time.Second || e.Remaining > 30*time.Second {
		t.Fatalf("error %+v", e)
	}
	if waited := time.Since(began); waited < 200*time.Millisecond {
		t.Fatalf("waited %v, want 200ms", waited)
	}
}

func TestRepeatedAcquire(t *testing.T) {
	r := newRig(t)
	q := lease.Request{Name: "repeat", Principal: "alice", Holder: "h", AcquireID: "attempt\x00\n1", TTL: 200 * time.Millisecond}
	first := r.acquire(q)
	if again := r.acquire(q); again.ID != first.ID || again.First() != first.First() || len(again.Blocks) != 1 {
		t.Fatalf("repeated: %+v, want %+v", again, first)
	}
	other := q
	other.Holder = "another"
	_, err := r.Acquire(t.Context(), other)
	wantCode(t, err, fence.CodeInvalidRequest)
	other = q
	other.TTL = time.Second
	_, err = r.Acquire(t.Context(), other)
	wantCode(t, err, fence.CodeInvalidRequest)
	other = q
	other.Principal = "mallory"
	_, err = r.Acquire(t.Context(), other)
	wantCode(t, err, fence.CodeLeaseHeld)

	eventually(t, "expiry", func() bool { return r.free("repeat") })
	other = q
	other.TTL = time.Hour
	_, err = r.Acquire(t.Context(), other)
	if e := wantCode(t, err, fence.CodeInvalidRequest); e.Field != "ttl" || !r.free("repeat") {
		t.Fatalf("an invalid repetition took the lease: %+v", e)
	}
	if again := r.acquire(q); again.ID != first.ID || again.Remaining <= 0 {
		t.Fatalf("repeated after expiry without a successor: %+v, want %+v", again, first)
	}
	successor := r.acquire(lease.Request{Name: "repeat", Principal: "bob", TTL: 100 * time.Millisecond, Wait: 5 * time.Second})
	later := q
	later.Wait = 5 * time.Second
	if anew := r.acquire(later); anew.ID == first.ID || anew.First() <= successor.First() {
		t.Fatalf("repeated after a successor (%d): %+v, want a new grant", successor.First(), anew)
	}
}

func TestRepeatedAfterItsEnd(t *testing.T) {
	r := newRig(t)
	q := lease.Request{Name: "ended", Principal: "alice", AcquireID: "1"}
	h := r.acquire(q)
	if err := r.Release(t.Context(), ref(h)); err != nil {
		t.Fatal(err)
	}
	_, err := r.Acquire(t.Context(), q)
	if e := wantCode(t, err, fence.CodeGrantEnded); e.First != h.First() || e.Lease != "ended" {
		t.Fatalf("error %+v", e)
	}
	if !r.free("ended") {
		t.Fatal("an acquire whose grant has ended left a lease")
	}
}

func TestRepeatedAfterALedgerAdvance(t *testing.T) {
	r := newRig(t)
	q := lease.Request{Name: "advanced", Principal: "alice", AcquireID: "1"}
	r.acquire(q)
	if _, err := r.truth.End(t.Context(), q.Name, fence.GrantRef{Newest: true}, fence.Ending{Why: fence.EndAdvanced}); err != nil {
		t.Fatal(err)
	}
	_, err := r.Acquire(t.Context(), q)
	if e := wantCode(t, err, fence.CodeGrantEnded); !strings.Contains(e.Message, "the grant of this acquire was ended by a ledger advance") {
		t.Error(e.Message)
	}
}

func TestGrantEndedWhileItIsCertifiedDropsTheLease(t *testing.T) {
	r := newRig(t)
	q := lease.Request{Name: "ended late", Principal: "alice", AcquireID: "1"}
	r.ledger.certify = func(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
		if _, err := r.truth.Certify(ctx, c); err != nil {
			return nil, err
		}
		if _, err := r.truth.End(ctx, c.Lease, fence.GrantRef{Newest: true}, fence.Ending{Why: fence.EndBroken}); err != nil {
			return nil, err
		}
		return r.truth.Certify(ctx, c)
	}
	_, err := r.Acquire(t.Context(), q)
	wantCode(t, err, fence.CodeGrantEnded)
	if !r.free("ended late") {
		t.Fatal("the lease is still held")
	}
}

func TestVoidCertificateKeepsTheLeaseAndStartsAgain(t *testing.T) {
	r := newRig(t)
	var floors []fence.Token
	r.ledger.certify = func(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
		if st := r.look(c.Lease); st.Value != c.Hold {
			t.Errorf("certified without the lease: %+v", st)
		}
		floors = append(floors, c.Floor)
		if len(floors) == 1 {
			rival(ctx, t, r, c)
		}
		return r.truth.Certify(ctx, c)
	}
	r.locker.drop = func() error {
		t.Error("a void certificate dropped the lease")
		return nil
	}
	h := r.acquire(lease.Request{Name: "void"})
	grants := r.truth.Grants("void")
	if len(grants) != 2 || len(floors) != 2 || floors[1] != grants[0].First() || h.First() != grants[1].First() {
		t.Fatalf("floors %v, granted %d of %d grants", floors, h.First(), len(grants))
	}
}

func TestVoidForEverIsContentionAndGivesUp(t *testing.T) {
	for _, id := range []string{"", "mine"} {
		r := newRig(t)
		tries := 0
		r.ledger.certify = func(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
			tries++
			rival(ctx, t, r, c)
			return r.truth.Certify(ctx, c)
		}
		_, err := r.Acquire(t.Context(), lease.Request{Name: "contended", Principal: "alice", AcquireID: id})
		if e := wantCode(t, err, fence.CodeContention); e.Lease != "contended" || tries != 10 {
			t.Fatalf("%d tries, %+v", tries, e)
		}
		if !r.free("contended") {
			t.Fatal("the lease is still held")
		}
		if g := r.newest("contended"); g.Ended != "" {
			t.Fatal("giving up ended somebody else's grant")
		}
	}
}

// rival is granted the lease elsewhere: on the other side of a split.
func rival(ctx context.Context, t *testing.T, r *rig, c fence.Certificate) {
	t.Helper()
	g, err := r.truth.Newest(ctx, c.Lease)
	if err != nil {
		t.Error(err)
	}
	c.Floor = 0
	if g != nil {
		c.Floor = g.First()
	}
	c.Principal, c.Acquire = "rival", fence.DigestOf("rival", c.Floor.String())
	if _, err := r.truth.Certify(ctx, c); err != nil {
		t.Errorf("rival: %v", err)
	}
}

func TestDrawsOnManyLeasesNeverOverlap(t *testing.T) {
	r := newRig(t)
	const leases, rounds = 16, 6
	var mu sync.Mutex
	seen := map[fence.Token]string{}
	var wg sync.WaitGroup
	for i := range leases {
		wg.Go(func() {
			name := fmt.Sprint("many/", i)
			for range rounds {
				h, err := r.Acquire(t.Context(), lease.Request{Name: name, Principal: "alice", Wait: time.Minute})
				if err == nil {
					h, err = r.More(t.Context(), ref(h))
				}
				if err == nil {
					err = r.Release(t.Context(), ref(h))
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				mu.Lock()
				for _, b := range h.Blocks {
					for first := b.First; first < b.Last; first += fence.BlockSize {
						if who, dup := seen[first]; dup {
							t.Errorf("block %d belongs to %s and %s", first, who, name)
						}
						seen[first] = name
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != leases*rounds*2 {
		t.Fatalf("%d blocks, want %d", len(seen), leases*rounds*2)
	}
}
