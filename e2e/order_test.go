package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
)

// TestGrantsAreOrderedWhenRedisLosesLeases (I2, I4): whatever Redis forgets or brings back between two grants, their
// tokens are unique and rise in the order of the grants, and the older one's are refused once the newer is returned.
func TestGrantsAreOrderedWhenRedisLosesLeases(t *testing.T) {
	owner, dir := t, t.TempDir() // a server outlives the subtest that starts it
	server := startRedis(owner, dir)
	w := serveWallets(t, servers{database: ledger(t), redis: server.URL()})
	client := redisClient(t, server.URL())
	var oldest map[string]string // keys as DUMP gave them
	for _, lost := range []struct {
		name string
		lose func(t *testing.T)
	}{
		{"Flushed", func(t *testing.T) { mustRedis(t, client.FlushAll(t.Context()).Err()) }},
		{"Restarted", func(t *testing.T) {
			if err := server.Stop(); err != nil {
				t.Fatal(err)
			}
			server = startRedis(owner, dir)
		}},
		// The lease of a holder long gone comes back and runs out.
		{"OlderCopyRestored", func(t *testing.T) {
			mustRedis(t, client.FlushAll(t.Context()).Err())
			restore(t, client, oldest, 300*time.Millisecond)
		}},
	} {
		t.Run(lost.name, func(t *testing.T) {
			w := w.in(t)
			row, object := succession{w: w, lease: "wallet:1", path: "/v1/rows/wallets/1"}, succession{w: w, lease: "report:a", path: "/v1/objects/reports/a"}
			for range 4 {
				row.next(t)
				object.next(t)
				if oldest == nil {
					oldest = dump(t, client)
				}
				lost.lose(t)
			}
		})
	}
}

// succession is the grants of one lease, each of which writes to the resource that the lease protects.
type succession struct {
	w           *wire
	lease, path string
	last        holding
	spent       int64
}

// next acquires, then shows that the predecessor's token is refused before and after the successor's first write.
func (s *succession) next(t *testing.T) {
	t.Helper()
	g := s.w.acquire(s.lease, `"wait":"10s"`, fmt.Sprintf(`"holder":"after-%d"`, s.last.Token))
	if g.Token <= s.last.TokenLast || g.TokenLast < g.Token {
		t.Fatalf("tokens %d to %d come after %d to %d", g.Token, g.TokenLast, s.last.Token, s.last.TokenLast)
	}
	late := func(mark int64) {
		t.Helper()
		if s.last.ID != "" {
			s.spent++
			s.w.refusedWith(mark, 412, "stale-token", s.method(), s.path, `{"balance":-1}`, s.last.token(s.spent))
		}
	}
	late(s.w.mark(s.path))
	if r := s.w.do(s.method(), s.path, fmt.Sprintf(`{"balance":%d}`, g.Token), g.token(0)); !r.ok() || r.replayed() {
		t.Fatalf("got %v", r)
	}
	late(g.Token)
	s.last, s.spent = g, 0
}

func (s *succession) method() string {
	if s.path[:len("/v1/rows")] == "/v1/rows" {
		return "PATCH"
	}
	return "PUT"
}

// TestGrantsAreOrderedAcrossTwoPrimaries (I2, I4): two gateways share the ledger and not the Redis, as when a Redis has
// split in two. Both give the lease out at once; the ledger alone decides.
func TestGrantsAreOrderedAcrossTwoPrimaries(t *testing.T) {
	database := ledger(t)
	one := serveWallets(t, servers{database: database, redis: testenv.RedisServer(t).URL()})
	other := newWire(t, startOn(t, servers{database: database, redis: testenv.RedisServer(t).URL()}, t.TempDir()).url)

	const holders, rounds = 6, 12
	var (
		newest   atomic.Int64 // the highest first token that was returned to anybody
		accepted atomic.Int64
		mu       sync.Mutex
		firsts   []int64
		group    sync.WaitGroup
	)
	ctx := t.Context()
	for i := range holders {
		w := []*wire{one, other}[i%2]
		group.Go(func() {
			for round := range rounds {
				before := newest.Load()
				r, err := w.try(ctx, "POST", "/v1/leases/wallet:1", fmt.Sprintf(`{"wait":"20s","ttl":"10s","holder":"%d/%d"}`, i, round))
				if err != nil || r.status != 201 {
					t.Errorf("acquire: %v, %v", r, err)
					return
				}
				var g holding
				if err := json.Unmarshal([]byte(r.body), &g); err != nil {
					t.Error(err)
					return
				}
				raise(&newest, g.Token)
				mu.Lock()
				firsts = append(firsts, g.Token)
				mu.Unlock()
				if g.Token <= before {
					t.Errorf("%d was granted after %d had been returned", g.Token, before)
				}
				for n := range int64(4) {
					before := newest.Load()
					path, method := "/v1/rows/wallets/1", "PATCH"
					r, err := w.try(ctx, method, path, fmt.Sprintf(`{"balance":%d}`, g.Token+n), g.token(n))
					switch {
					case err != nil:
						t.Error(err)
					case r.ok() && before > g.Token:
						t.Errorf("token %d was accepted after %d had been granted", g.Token+n, before)
					case r.ok():
						accepted.Add(1)
					case r.code() != "stale-token":
						t.Errorf("got %v", r)
					}
				}
				if _, err := w.try(ctx, "DELETE", "/v1/leases/wallet:1", "", g.id()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	slices.Sort(firsts)
	if len(slices.Compact(slices.Clone(firsts))) != holders*rounds {
		t.Fatalf("not %d different tokens: %v", holders*rounds, firsts)
	}
	if accepted.Load() == 0 {
		t.Fatal("no write was accepted")
	}
	mark := one.mark("/v1/rows/wallets/1")
	if got := queryText(t, database, "SELECT balance::text FROM wallets WHERE id = 1"); got != fmt.Sprint(mark) {
		t.Fatalf("the mark is %d, the row says %s", mark, got)
	}
	// I1: what was accepted, in the order in which it was applied.
	if got := queryText(t, database, `SELECT count(*)::text FROM (SELECT balance, lag(balance) OVER (ORDER BY n) AS before
		FROM changes WHERE id = 1) c WHERE balance <= before`); got != "0" {
		t.Fatalf("%s writes went backwards", got)
	}
}

func raise(highest *atomic.Int64, to int64) {
	for {
		now := highest.Load()
		if now >= to || highest.CompareAndSwap(now, to) {
			return
		}
	}
}

func redisClient(t testing.TB, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

func mustRedis(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dump copies every key.
func dump(t testing.TB, client *redis.Client) map[string]string {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*").Result()
	mustRedis(t, err)
	copied := map[string]string{}
	for _, key := range keys {
		value, err := client.Dump(t.Context(), key).Result()
		mustRedis(t, err)
		copied[key] = value
	}
	if len(copied) == 0 {
		t.Fatal("Redis keeps no leases")
	}
	return copied
}

// restore brings keys back, with this time to live.
func restore(t testing.TB, client *redis.Client, keys map[string]string, ttl time.Duration) {
	t.Helper()
	for key, value := range keys {
		mustRedis(t, client.RestoreReplace(context.WithoutCancel(t.Context()), key, ttl, value).Err())
	}
}
