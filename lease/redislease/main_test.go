package redislease_test

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/redislease"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// prefixes makes prefixes unique within the test binary's shared server.
var prefixes atomic.Int64

func prefix(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("test-%d-%d", os.Getpid(), prefixes.Add(1))
}

// open returns a locker and its client on the server at url.
func open(t testing.TB, url string, c redislease.Config) (*redislease.Locker, redis.UniversalClient) {
	t.Helper()
	client, err := redislease.Open(url, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	l, err := redislease.New(client, c)
	if err != nil {
		t.Fatal(err)
	}
	return l, client
}

// listener is a locker that listens.
type listener struct {
	*redislease.Locker
	leave func() // ends the listening and waits for it

	mu      sync.Mutex     // guards what follows
	signals []lease.Signal // what was told, oldest first
}

func listen(t testing.TB, url string, c redislease.Config) *listener {
	t.Helper()
	locker, _ := open(t, url, c)
	return listenTo(t, locker)
}

func listenTo(t testing.TB, locker *redislease.Locker) *listener {
	t.Helper()
	l := &listener{Locker: locker}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var listening sync.WaitGroup
	l.leave = func() { cancel(); listening.Wait() }
	t.Cleanup(l.leave)
	listening.Go(func() {
		err := l.Listen(ctx, func(s lease.Signal) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.signals = append(l.signals, s)
		})
		if err != nil {
			t.Errorf("listen: %v", err)
		}
	})
	eventually(t, "listening", func() bool { return l.resyncs() > 0 })
	return l
}

func (l *listener) heard(want lease.Signal) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.signals {
		if s == want {
			n++
		}
	}
	return n
}

func (l *listener) resyncs() int { return l.heard(lease.Signal{Kind: lease.Resync}) }

// pushed waits until the lease was handed to who, and claims it.
func (l *listener) pushed(t testing.TB, name, who string) {
	t.Helper()
	eventually(t, who+" is pushed", func() bool {
		return l.heard(lease.Signal{Kind: lease.Pushed, Name: name, Value: value(who)}) > 0
	})
	got, err := l.Extend(t.Context(), name, lease.Extension{Value: value(who), TTL: time.Minute, Holder: who, Waiters: lease.KeepWaiters})
	if err != nil || got.Value != value(who) || got.Reserved {
		t.Fatalf("claim: %+v, %v", got, err)
	}
}

// value is that of who; "+" behind the name makes it the next of its hold.
func value(who string) fence.Digest {
	if before, next := strings.CutSuffix(who, "+"); next {
		return lease.NextValue(value(before))
	}
	return fence.DigestOf("test", who)
}

func entry(who string, waiters int) lease.Entry {
	return lease.Entry{Value: value(who), Holder: who, TTL: time.Minute, Waiters: waiters, Note: "note of " + who}
}

func extension(who string) lease.Extension {
	return lease.Extension{Value: value(who), TTL: time.Hour, Tenant: value("tenant"), Holder: who, Waiters: lease.KeepWaiters}
}

func enter(t testing.TB, l lease.Locker, name, who string, waiters int) lease.Standing {
	t.Helper()
	got, err := l.Enter(t.Context(), name, entry(who, waiters))
	if err != nil {
		t.Fatalf("enter %q: %v", name, err)
	}
	return got
}

// take takes a lease that must be free.
func take(t testing.TB, l lease.Locker, name, who string) {
	t.Helper()
	if got := enter(t, l, name, who, 0); got.Value != value(who) {
		t.Fatalf("%q is held: %+v", name, got)
	}
}

func drop(t testing.TB, l lease.Locker, name, who string) lease.Dropped {
	t.Helper()
	got, err := l.Drop(t.Context(), name, value(who))
	if err != nil {
		t.Fatalf("drop %q: %v", name, err)
	}
	return got
}

// eventually polls until ok, for at most a generous while.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// allKeys are those of a server, sorted.
func allKeys(t testing.TB, client redis.UniversalClient) []string {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// awaitPools lets a test end only when go-redis has: a pool that found its server dead looks once more, a second later,
// even if it was closed meanwhile.
func awaitPools(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
			var stacks strings.Builder
			pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			if !strings.Contains(stacks.String(), "pool.(*ConnPool).tryDial") {
				return
			}
		}
	})
}
