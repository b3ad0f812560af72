package pglease_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/pglease"
)

// TestHammer has several gateways of every kind, with a sweeper, call about few leases at once, in any order. No call fails,
// nobody waits for each other in a circle, and no two hold a lease at once.
func TestHammer(t *testing.T) {
	t.Parallel()
	url := ledger(t)
	db := database(t, url)
	bouncer := testenv.PgBouncer(t, url, "transaction")
	configs := []pglease.Config{{URL: url}, {URL: url}, {URL: bouncer, Pooled: true, ListenURL: url}, {URL: bouncer, Pooled: true}}
	const leases, hands, hammering = 3, 4, 1500 * time.Millisecond
	var holders [leases]atomic.Int64
	var holds, handed atomic.Int64
	var work sync.WaitGroup
	end := time.Now().Add(hammering)
	for n, config := range configs {
		config.MaxConns = 4
		l := open(t, config)
		l.Hurry(time.Second, 20*time.Millisecond)
		g := listen(t, l)
		for hand := range hands {
			work.Go(func() {
				for i := 0; time.Now().Before(end); i++ {
					k := rand.N(leases)
					name, who := fmt.Sprint("hammer ", k), fmt.Sprint(n, "/", hand, "/", i)
					e := lease.Entry{Value: fence.DigestOf(who), Holder: who, TTL: time.Minute, Waiters: 1}
					s, err := l.Enter(t.Context(), name, e)
					for r := 0; err == nil && s.Value != e.Value && r < 20 && rand.N(10) > 0; r++ {
						if e.Place = s.Place; rand.N(2) == 0 {
							s, err = l.Stay(t.Context(), name, e)
						} else {
							s, err = l.Enter(t.Context(), name, e)
						}
					}
					if err == nil && s.Value == e.Value {
						if s.Reserved {
							handed.Add(1)
						}
						s, err = l.Extend(t.Context(), name, lease.Extension{Value: e.Value, TTL: time.Minute, Holder: who})
					}
					if err == nil && s.Value == e.Value {
						holds.Add(1)
						if others := holders[k].Add(1); others != 1 {
							t.Errorf("%d hold %s", others, name)
						}
						_, err = l.Look(t.Context(), name, 10)
						holders[k].Add(-1)
					}
					if err == nil {
						_, err = l.Drop(t.Context(), name, e.Value)
					}
					if err != nil {
						t.Errorf("gateway %d: %v", n, err)
						return
					}
				}
			})
		}
		defer g.hangUp()
	}
	work.Wait()
	t.Logf("%d holds, %d of them handed on", holds.Load(), handed.Load())
	if holds.Load() < 5 || handed.Load() == 0 {
		t.Error("hardly anything was held, or nothing handed on")
	}
	if n := ask[int64](t, db, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	eventually(t, "nothing is left", func() bool {
		for k := range leases {
			name := fmt.Sprint("hammer ", k)
			if s, err := open(t, pglease.Config{URL: url}).Look(t.Context(), name, 0); err != nil || s.Value != (fence.Digest{}) || s.Entries != 0 {
				return false
			}
		}
		return true
	})
}
