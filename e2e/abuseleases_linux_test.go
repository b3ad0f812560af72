package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A principal that acquires one new lease after the other costs the gateway nothing per name, Redis nothing for longer
// than the leases last, and the ledger one small row each (docs/limits.md reckons with leaseRowBytes). Others are served.
func TestAbuseManyLeaseNames(t *testing.T) {
	t.Parallel()
	greedy, modest := twoPrincipals(t)
	modest.acquire("wallet:1", `"ttl":"10m"`)
	if n := greedy.keysInRedis(); n != 1 {
		t.Fatalf("%d keys in Redis, want the one lease", n)
	}
	// The first names warm up pools and caches, so that what is measured is the cost of more names.
	const warm, names = 2_000, 8_000
	greedy.acquireNames("warm", warm)
	memory, rows := greedy.heap(), greedy.grantBytes()
	var abusing sync.WaitGroup
	abusing.Go(func() { greedy.acquireNames("name", names) })
	modest.serves(2*time.Second, time.Second)
	abusing.Wait()
	if t.Failed() {
		return
	}

	const spare, memoryPerName = 512 << 10, 32
	grown := greedy.heap() - memory
	t.Logf("the heap grew by %d KiB with %d names", grown>>10, names)
	if grown > spare+names*memoryPerName {
		t.Errorf("the gateway's heap grew by %d B with %d names", grown, names)
	}
	const leaseRowBytes = 400
	each := (greedy.grantBytes() - rows) / names
	t.Logf("a grant takes %d B in the ledger", each)
	if each > leaseRowBytes {
		t.Errorf("a grant takes %d B in the ledger, want at most %d", each, leaseRowBytes)
	}
	within(t, 10*time.Second, "Redis forgets the leases that have expired", func() bool { return greedy.keysInRedis() == 1 })
}

// A limit per principal stops it early. Neither another principal nor what is no acquire is concerned.
func TestAbuseAcquireRate(t *testing.T) {
	t.Parallel()
	greedy, modest := twoPrincipals(t, "--acquire-rate=0.2")
	g := greedy.acquire("wallet:1", `"ttl":"10m"`)
	greedy.acquire("name:0")
	greedy.unchanged(func() {
		for n := range 100 {
			r := greedy.do("POST", fmt.Sprintf("/v1/leases/name:%d", n+1), "{}")
			r.refusal(t, 429, "rate-limited")
			if after, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || after < 1 || after > 5 {
				t.Errorf("Retry-After is %q, one more comes after 5 s", r.header.Get("Retry-After"))
			}
		}
	})
	modest.acquire("name:1")
	greedy.want(200, "PATCH", "/v1/rows/wallets/1", `{"balance":1}`, g.token(0))
	greedy.want(200, "PUT", "/v1/leases/wallet:1", "{}", g.id())
	greedy.want(204, "DELETE", "/v1/leases/wallet:1", "", g.id())
}

// twoPrincipals are clients of one gateway, which has an operators' side.
func twoPrincipals(t *testing.T, args ...string) (greedy, modest *victim) {
	t.Helper()
	const everything = `{leases: ["*"], tables: ["*"], buckets: ["*"], verbs: [lease, read, write]}`
	v := newVictim(t)
	file := filepath.Join(t.TempDir(), "auth.yaml")
	writeAuthFile(t, file, principal("greedy", false, everything), principal("modest", false, everything))
	v.p = startServe(t, v.servers, append(args, "--auth-file="+file, "--admin-listen=127.0.0.1:0")...)
	execSQL(t, v.servers.database, walletsSQL)
	as := func(name string) *victim {
		w, transport := newWire(t, v.p.url), &http.Transport{MaxIdleConnsPerHost: 16}
		t.Cleanup(transport.CloseIdleConnections)
		w.client = &http.Client{Transport: bearing{transport, secretOf(name)}, Timeout: patience}
		other := *v
		other.wire = w
		return &other
	}
	return as("greedy"), as("modest")
}

// heap is what lives in the gateway's memory after a collection, in bytes.
func (v *victim) heap() int64 {
	v.t.Helper()
	_, rest, _ := strings.Cut(v.p.stderr.String(), `"msg":"operators' side","url":"`)
	admin, _, _ := strings.Cut(rest, `"`)
	// Twice, because the first collection only ends what finalizers and pools still hold.
	for range 2 {
		rest = newWire(v.t, admin).want(200, "GET", "/debug/pprof/heap?gc=1&debug=1", "").body
	}
	_, rest, _ = strings.Cut(rest, "# HeapAlloc = ")
	digits, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		v.t.Fatalf("HeapAlloc: %v", err)
	}
	return n
}

// acquireNames takes so many new leases for the shortest time, from several connections.
func (v *victim) acquireNames(prefix string, n int64) {
	var next atomic.Int64
	var working sync.WaitGroup
	begun := time.Now()
	for range 8 {
		working.Go(func() {
			for i := next.Add(1); i <= n && !v.t.Failed(); i = next.Add(1) {
				path := "/v1/leases/" + url.PathEscape(fmt.Sprintf("%s:%d", prefix, i))
				r, err := v.try(context.WithoutCancel(v.t.Context()), http.MethodPost, path, `{"ttl":"100ms"}`)
				if err != nil || r.status != http.StatusCreated {
					v.t.Errorf("acquire %s: %v, %v", path, r, err)
				}
			}
		})
	}
	working.Wait()
	v.t.Logf("%d acquires a second", int64(float64(n)/time.Since(begun).Seconds()))
}

// grantBytes is what the grants take in the ledger, with indexes.
func (v *victim) grantBytes() int64 {
	v.t.Helper()
	n, err := strconv.ParseInt(queryText(v.t, v.servers.database, "SELECT pg_total_relation_size('fence.grants')::text"), 10, 64)
	if err != nil {
		v.t.Fatal(err)
	}
	return n
}

// keysInRedis counts the keys of this gateway's ledger.
func (v *victim) keysInRedis() int {
	v.t.Helper()
	id := queryText(v.t, v.servers.database, "SELECT ledger_id::text FROM fence.settings")
	options, err := redis.ParseURL(v.servers.redis)
	if err != nil {
		v.t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	n := 0
	keys := client.Scan(v.t.Context(), 0, "*"+strings.TrimSpace(id)+"*", 10_000).Iterator()
	for keys.Next(v.t.Context()) {
		n++
	}
	if err := keys.Err(); err != nil {
		v.t.Fatal(err)
	}
	return n
}
