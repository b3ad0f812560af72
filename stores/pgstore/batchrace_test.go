package pgstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// gateways are stores of one ledger, each with a lane.
func (w *world) gateways(n int) []*pgstore.Store {
	stores := make([]*pgstore.Store, n)
	for i := range stores {
		stores[i] = w.another(pgstore.Config{Lanes: 1 + i%2})
	}
	return stores
}

// TestSealedAtGrantInBatches races batches of several gateways with what voids the tokens of some of their writes. After the call that
// voided a grant has returned, no write of it may commit (I2).
func TestSealedAtGrantInBatches(t *testing.T) {
	w := newWorld(t)
	rounds := 160
	if testing.Short() {
		rounds = 60
	}
	violations, written := raceBatches(t, w, rounds)
	if violations > 0 {
		t.Errorf("I2: %d of %d voided grants wrote afterwards", violations, rounds)
	}
	t.Logf("%d writes committed", written)
	if written < rounds {
		t.Errorf("only %d writes committed in %d rounds", written, rounds)
	}
}

// TestSealInBatchesCanBreak shows that the race finds batches that lock no lease.
func TestSealInBatchesCanBreak(t *testing.T) {
	w := newWorld(t)
	w.mutate("fence.admit_batch", "WHERE NOT pg_try_advisory_xact_lock_shared(l.lock)", "WHERE false")
	if v, _ := raceBatches(t, w, 60); v == 0 {
		t.Error("the race found no violation")
	} else {
		t.Logf("%d of 60 voided grants wrote afterwards", v)
	}
}

// raceBatches plays rounds of: grants of some leases, writers with their tokens on several gateways, and a call that voids one of the
// grants at a random moment. It returns how many grants wrote after they were void, and how many writes were accepted.
func raceBatches(t *testing.T, w *world, rounds int) (violations int, accepted int) {
	const rows = 6
	// Every change takes its time, between admit and commit.
	w.exec(`CREATE TABLE slow (id bigint PRIMARY KEY, n bigint);
		INSERT INTO slow SELECT i, 0 FROM generate_series(1, 6) i;
		CREATE FUNCTION pause(n bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN PERFORM pg_sleep(0.0004); RETURN true; END $$;
		ALTER TABLE slow ADD CHECK (pause(n)); SELECT fence.protect('slow', 'slow:{id}')`)
	gateways := w.gateways(3)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var count atomic.Int64
	for round := range rounds {
		var grants [rows]*fence.Grant
		for i := range grants {
			grants[i] = w.grant(fmt.Sprint("slow:", i+1), "p", fmt.Sprint("a", round))
		}
		var wg sync.WaitGroup
		for i, g := range grants {
			for n := range 3 {
				s, token := gateways[(i+n)%len(gateways)], g.First()+fence.Token(n)
				before := time.Duration(rng.IntN(1500)) * time.Microsecond
				wg.Go(func() {
					time.Sleep(before)
					_, err := s.WriteRow(context.Background(), patch("slow", fmt.Sprint(i+1), fmt.Sprintf(`{"n":%d}`, token), token))
					switch fence.CodeOf(err) {
					case fence.CodeAccepted:
						count.Add(1)
					case fence.CodeStaleToken, fence.CodeGrantEnded:
					default:
						t.Errorf("a writer was told %v", err)
					}
				})
			}
		}
		time.Sleep(time.Duration(rng.IntN(2500)) * time.Microsecond)
		lease := fmt.Sprint("slow:", 1+round%rows)
		if round%2 == 0 {
			w.grant(lease, "p", fmt.Sprint("b", round))
		} else if _, err := w.End(context.Background(), lease, fence.GrantRef{Newest: true}, fence.Ending{Why: fence.EndBroken}); err != nil {
			t.Fatal(err)
		}
		look := fmt.Sprintf("SELECT n::text FROM slow WHERE id = %d", 1+round%rows)
		voided := w.text(look)
		wg.Wait()
		if w.text(look) != voided {
			violations++
		}
	}
	return violations, int(count.Load())
}

// Batches of several gateways that write the same rows do not deadlock: marks are raised in one order.
func TestBatchesDoNotDeadlock(t *testing.T) {
	w, first := many(t, "")
	gateways := w.gateways(3)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	var (
		next     atomic.Int64
		accepted atomic.Int64
		clients  sync.WaitGroup
	)
	w.exec("UPDATE fence.grants SET blocks = int8multirange(int8range(first, first + 1000000))")
	for i := range 36 {
		clients.Go(func() {
			for ctx.Err() == nil {
				_, err := gateways[i%3].WriteRow(context.Background(), patch("many", fmt.Sprint(1+rand.IntN(20)), `{"n":1}`, first+fence.Token(next.Add(1))))
				switch fence.CodeOf(err) {
				case fence.CodeAccepted:
					accepted.Add(1)
				case fence.CodeStaleToken:
				default:
					t.Errorf("a client was told %v", err)
				}
			}
		})
	}
	clients.Wait()
	var sent, writes, fellBack int64
	for _, s := range gateways {
		b := s.Stats().Batches
		sent, writes, fellBack = sent+b.Sent, writes+b.Writes, fellBack+b.FellBack
	}
	t.Logf("%d accepted; %d writes in %d batches, %d fell back", accepted.Load(), writes, sent, fellBack)
	if n := w.text("SELECT deadlocks::text FROM pg_stat_database WHERE datname = current_database()"); n != "0" {
		t.Errorf("%s deadlocks", n)
	}
	if writes < 2*sent || accepted.Load() < 50 {
		t.Error("hardly anything went together")
	}
}
