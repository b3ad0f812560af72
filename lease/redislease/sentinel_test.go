package redislease_test

import (
	"net"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease/redislease"
)

// TestSentinelFailOver promotes a replica that has not heard of the last lease. The locker finds it by itself; the
// lease is lost, which is why tokens do not come from Redis.
func TestSentinelFailOver(t *testing.T) {
	t.Run("Killed", func(t *testing.T) {
		failOver(t, func(primary *localservers.Redis) error { primary.Kill(); return nil })
	})
	t.Run("Hung", func(t *testing.T) {
		failOver(t, (*localservers.Redis).Pause)
	})
}

func failOver(t *testing.T, fail func(*localservers.Redis) error) {
	t.Parallel()
	awaitPools(t)
	primary, replica := testenv.RedisPair(t)
	watcher := testenv.RedisSentinel(t, primary)
	// Neither a Sentinel that hangs nor one that is gone keeps the lockers from the one that answers.
	url := watcher.URL() + "&addr=" + silent(t) + "&addr=127.0.0.1:1"
	a, b := listen(t, url, redislease.Config{}), listen(t, url, redislease.Config{})
	eventually(t, "connected", func() bool { _, err := a.Look(t.Context(), "kept", 0); return err == nil })
	take(t, a, "kept", "a")
	if n, err := copied(t, replica, 1), replica.Cut(t.Context()); err != nil || n != 1 {
		t.Fatalf("%d leases were copied, %v", n, err)
	}
	take(t, a, "lost", "a")
	waits := entry("b", 1)
	waits.Place = enter(t, b, "lost", "b", 1).Place
	before := b.resyncs()
	if err := fail(primary); err != nil {
		t.Fatal(err)
	}
	// Until the fail-over is done leases cannot be had; whether it is, the locker says in time.
	began := time.Now()
	if _, err := a.Enter(t.Context(), "meanwhile", entry("a", 0)); err != nil {
		unavailable(t, "enter", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Fatalf("it took %v to say so", took)
	}
	eventually(t, "those that wait are told", func() bool { return b.resyncs() > before })
	eventually(t, "another takes the lost lease", func() bool {
		got, err := b.Enter(t.Context(), "lost", waits)
		return err == nil && got.Value == waits.Value
	})
	if at, err := watcher.Primary(t.Context()); err != nil || at != replica.Address() {
		t.Fatalf("the primary is %s, %v; want %s", at, err, replica.Address())
	}
	if got := enter(t, b, "kept", "b", 0); got.Value != value("a") {
		t.Fatalf("the lease that was copied is held by %+v", got)
	}
	eventually(t, "both are told", func() bool { return a.resyncs() > 1 })
	handOff(t, a, b, "after the fail-over")
}

// copied waits until a server has this many keys and returns how many it has.
func copied(t *testing.T, r *localservers.Redis, want int64) (n int64) {
	t.Helper()
	_, client := open(t, r.URL(), redislease.Config{})
	eventually(t, "copied", func() bool { n = client.DBSize(t.Context()).Val(); return n >= want })
	return n
}

// silent is the address of a Sentinel that takes connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}
