package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/leasetest"
	"github.com/fencegate/fencegate/lease/redislease"
)

const shortTTL = 100 * time.Millisecond

// node is a redis-server that can lose its data, go back to an old copy of it, and be restarted.
type node struct {
	t      *testing.T
	config localservers.RedisConfig
	server *localservers.Redis
	locker *redislease.Locker
	// client is for the faults alone: a pool that met a dead server repeats its error for up to a second.
	client redis.UniversalClient
	// old is a copy of what it kept, by key.
	old map[string]string
}

func startNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, config: localservers.RedisConfig{Dir: t.TempDir()}}
	n.start()
	t.Cleanup(func() {
		if err := n.server.Stop(); err != nil {
			t.Error(err)
		}
	})
	n.locker, n.client = n.open()
	return n
}

func (n *node) open() (*redislease.Locker, redis.UniversalClient) {
	c := redislease.Config{CallTimeout: 500 * time.Millisecond}
	client, err := redislease.Open(n.server.URL(), c)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { client.Close() })
	locker, err := redislease.New(client, c)
	if err != nil {
		n.t.Fatal(err)
	}
	return locker, client
}

func (n *node) start() {
	server, err := localservers.StartRedis(context.WithoutCancel(n.t.Context()), n.config)
	if err != nil {
		n.t.Fatal(err)
	}
	n.server = server
}

func (n *node) flush() { n.must(n.client.FlushAll(context.Background()).Err()) }

func (n *node) restart() {
	n.server.Kill()
	n.start()
}

// snapshot copies leases and queues, restore goes back to the copy: what a replica that lags behind does when it is promoted.
func (n *node) snapshot() {
	ctx := context.Background()
	n.old = map[string]string{}
	keys, err := n.client.Keys(ctx, "*").Result()
	n.must(err)
	for _, key := range keys {
		if v, err := n.client.Dump(ctx, key).Result(); err == nil {
			n.old[key] = v
		}
	}
}

func (n *node) restore() {
	n.flush()
	for key, v := range n.old {
		n.must(n.client.RestoreReplace(context.Background(), key, shortTTL, v).Err())
	}
}

func (n *node) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Error(err)
	}
}

// TestPausedAcquireKeepsTheOrder (I4) pauses an acquire at every point, lets a fault and a successor pass, and
// resumes it.
func TestPausedAcquireKeepsTheOrder(t *testing.T) {
	faults := map[string]func(here, there *node) (successorAt *node){
		"Expiry":   func(here, _ *node) *node { return here },
		"Flush":    func(here, _ *node) *node { here.flush(); return here },
		"Restart":  func(here, _ *node) *node { here.restart(); return here },
		"OldCopy":  func(here, _ *node) *node { here.restore(); return here },
		"TwoNodes": func(_, there *node) *node { return there },
	}
	for fault, strike := range faults {
		t.Run(fault, func(t *testing.T) {
			here, there := startNode(t), startNode(t)
			for i, point := range points {
				for _, wait := range []time.Duration{0, 5 * time.Second} {
					t.Run(fmt.Sprintf("%s, wait %v", point, wait), func(t *testing.T) {
						name := fmt.Sprint("paused/", i, wait)
						pausedAcquire(t, name, point, wait, here, func() *node { return strike(here, there) })
					})
				}
			}
		})
	}
}

func pausedAcquire(t *testing.T, name, point string, wait time.Duration, here *node, strike func() *node) {
	h, ledger := &history{}, leasetest.NewLedger()
	acquire := func(at *node, who string, wait time.Duration, hook func(string)) (*lease.Held, error) {
		locker, _ := at.open()
		c := &client{Locker: locker, Ledger: ledger, h: h, at: hook}
		m := newManager(t, c, c, lease.Config{PollMax: 20 * time.Millisecond})
		return m.Acquire(t.Context(), lease.Request{Name: name, Principal: who, AcquireID: "1", TTL: shortTTL, Wait: wait})
	}
	// A predecessor, whose lease an old copy brings back.
	if _, err := acquire(here, "predecessor", 0, func(string) {}); err != nil {
		t.Fatal(err)
	}
	here.snapshot()
	eventually(t, "the predecessor's expiry", func() bool {
		standing, err := here.locker.Look(t.Context(), name, 0)
		return err == nil && standing.Value == fence.Digest{}
	})

	reached, resume := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var paused *lease.Held
	var err error
	var wg sync.WaitGroup
	wg.Go(func() {
		paused, err = acquire(here, "paused", wait, func(p string) {
			if p == point {
				once.Do(func() { close(reached); <-resume })
			}
		})
	})
	<-reached
	successor, failed := acquire(strike(), "successor", 5*time.Second, func(string) {})
	close(resume)
	wg.Wait()
	if failed != nil {
		t.Fatalf("successor: %v", failed)
	}
	if violation := h.check(); violation != nil {
		t.Fatal(violation)
	}
	switch code := fence.CodeOf(err); {
	case err == nil && paused.First() == successor.First():
		t.Fatalf("both hold token %d", successor.First())
	case err != nil && code != fence.CodeLeaseHeld:
		t.Fatalf("the paused acquire: %v", err)
	case err != nil && wait > 0:
		t.Fatalf("the paused acquire was to wait: %v", err)
	case h.voids == 0 && (point == "after the take" || point == "before the certificate"):
		t.Fatal("the successor was granted in between, and no certificate was void")
	}
}

// TestOrderUnderChaos (I4) runs clients that pause anywhere, on two nodes that both think they are the primary and
// lose their data, over one ledger.
func TestOrderUnderChaos(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	nodes := []*node{startNode(t), startNode(t)}
	h, ledger := &history{}, leasetest.NewLedger()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()

	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			// What a manager does in the background passes here, too.
			rng := rand.New(&lockedSource{source: rand.NewPCG(seed, uint64(i))})
			var managers []*lease.Manager
			for _, n := range nodes {
				locker, _ := n.open()
				c := &client{Locker: locker, Ledger: ledger, h: h, at: func(string) {
					if rng.IntN(12) == 0 {
						<-time.After(rand.N(2 * shortTTL))
					}
				}}
				managers = append(managers, newManager(t, c, c, lease.Config{PollMax: 20 * time.Millisecond}))
			}
			for n := 0; ctx.Err() == nil; n++ {
				m := managers[rng.IntN(len(managers))]
				q := lease.Request{Name: "chaos", Principal: "p", AcquireID: fmt.Sprint(i, "/", n/2), TTL: shortTTL, Wait: shortTTL}
				held, err := m.Acquire(ctx, q)
				switch fence.CodeOf(err) {
				case fence.CodeAccepted:
					if rng.IntN(2) == 0 {
						_, _ = m.Renew(ctx, ref(held), 0)
						_, _ = m.More(ctx, ref(held))
					}
					if rng.IntN(2) == 0 {
						_ = m.Release(ctx, ref(held))
					}
				case fence.CodeLeaseHeld, fence.CodeUnavailable, fence.CodeContention, fence.CodeGrantEnded:
				default:
					t.Errorf("acquire: %v", err)
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 1000))
	for faults := 0; ctx.Err() == nil; faults++ {
		n := nodes[rng.IntN(len(nodes))]
		switch rng.IntN(8) {
		case 0:
			n.restart()
		case 1, 2:
			n.flush()
		case 3, 4:
			n.snapshot()
		default:
			n.restore()
		}
		<-time.After(rand.N(shortTTL))
	}
	wg.Wait()
	if violation := h.check(); violation != nil {
		t.Fatal(violation)
	}
	t.Logf("%d grants, %d void certificates", len(h.grants), h.voids)
	if len(h.grants) < 20 || h.voids == 0 {
		t.Fatalf("%d grants and %d void certificates show nothing", len(h.grants), h.voids)
	}
	checkBlocks(t, ledger.Grants("chaos"))
}

// lockedSource is a source of randomness for several goroutines.
type lockedSource struct {
	mu     sync.Mutex
	source rand.Source
}

func (l *lockedSource) Uint64() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.source.Uint64()
}

// TestOrderCheckFindsTheUsualRecipes is the counter-example: the same pause, in acquires that draw the token in the
// wrong place, gives the holder that came first the higher token, and the check says so.
func TestOrderCheckFindsTheUsualRecipes(t *testing.T) {
	url := testenv.RedisServer(t).URL()
	client, err := redislease.Open(url, redislease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	locker, ledger := openLocker(t, url), leasetest.NewLedger()

	recipes := map[string]func(h *history, who string, pause func()){
		"SetThenIncr": func(h *history, who string, pause func()) {
			var c certified
			c.who = who
			eventually(t, "SET NX", func() bool {
				c.sent = h.tick()
				err := client.SetArgs(t.Context(), "recipe", who, redis.SetArgs{Mode: "NX", TTL: shortTTL}).Err()
				c.taken = h.tick()
				return err == nil
			})
			pause()
			n, err := client.Incr(t.Context(), "recipe:token").Result()
			if err != nil {
				t.Error(err)
			}
			c.first = fence.Token(n)
			h.certified(c)
		},
		"FloorAfterTheTake": func(h *history, who string, pause func()) {
			cert := fence.Certificate{Lease: "recipe", Principal: who, Holder: who, Acquire: fence.DigestOf(who), Hold: fence.DigestOf(who), TTL: shortTTL}
			var c certified
			c.who = who
			eventually(t, "take", func() bool {
				c.sent = h.tick()
				got, err := locker.Enter(t.Context(), "recipe", lease.Entry{Value: cert.Hold, Holder: who, TTL: shortTTL})
				c.taken = h.tick()
				return err == nil && got.Value == cert.Hold
			})
			pause()
			newest, err := ledger.Newest(t.Context(), "recipe")
			if err != nil {
				t.Error(err)
			}
			if newest != nil {
				cert.Floor = newest.First()
			}
			g, err := ledger.Certify(t.Context(), cert)
			if err != nil {
				t.Error(err)
				return
			}
			c.first = g.First()
			h.certified(c)
		},
	}
	for name, acquire := range recipes {
		t.Run(name, func(t *testing.T) {
			h := &history{}
			acquire(h, "paused", func() { acquire(h, "successor", func() {}) })
			if h.check() == nil {
				t.Fatalf("the check does not see the violation in %+v", h.grants)
			}
			h = &history{}
			acquire(h, "first", func() {})
			acquire(h, "second", func() {})
			if violation := h.check(); violation != nil {
				t.Fatalf("without a pause the recipe keeps the order: %v", violation)
			}
		})
	}
}
