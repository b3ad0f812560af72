package redislease_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/leasetest"
	"github.com/fencegate/fencegate/lease/redislease"
)

var alice = lease.Holding{Value: fence.DigestOf("alice"), Holder: "alice", Remaining: time.Minute}

func TestConformance(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) lease.Locker {
		l, _ := open(t, testenv.Redis(t), redislease.Config{Prefix: prefix(t)})
		return l
	})
}

func TestConformanceMiniredis(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) lease.Locker {
		server := miniredis.RunT(t)
		var ticking sync.WaitGroup
		stop := make(chan struct{})
		t.Cleanup(func() { close(stop); ticking.Wait() })
		// Its keys age only when they are told to.
		ticking.Go(func() {
			last := time.Now()
			for {
				select {
				case <-stop:
					return
				case now := <-time.After(2 * time.Millisecond):
					if d := now.Sub(last).Truncate(time.Millisecond); d > 0 {
						server.FastForward(d)
						last = last.Add(d)
					}
				}
			}
		})
		l, _ := open(t, "redis://"+server.Addr(), redislease.Config{})
		return l
	})
}

func TestOneKeyPerLease(t *testing.T) {
	l, client := open(t, testenv.RedisServer(t).URL(), redislease.Config{Prefix: "fg"})
	for _, name := range []string{"}x", "{}", "a{b}c", "日本/ü"} {
		take(t, l, name, alice)
		keys, err := client.Keys(t.Context(), "*").Result()
		if err != nil || len(keys) != 1 {
			t.Fatalf("%q: keys %q, %v; want one", name, keys, err)
		}
		tag, ok := strings.CutPrefix(keys[0], "fg:{")
		tag, closed := strings.CutSuffix(tag, "}")
		if !ok || !closed || tag == "" || strings.ContainsAny(tag, "{}") {
			t.Fatalf("%q: key %q has no hash tag of its own", name, keys[0])
		}
		if _, err := l.Extend(t.Context(), name, alice.Value, time.Minute); err != nil {
			t.Fatal(err)
		}
		if ok, err := l.Drop(t.Context(), name, alice.Value); !ok || err != nil {
			t.Fatalf("drop: %v, %v", ok, err)
		}
		if n, err := client.DBSize(t.Context()).Result(); n != 0 || err != nil {
			t.Fatalf("%d keys are left behind, %v", n, err)
		}
	}
}

func TestNothingIsHeldForEver(t *testing.T) {
	ours := alice.Value.String() + ":alice"
	for name, set := range map[string]func(redis.UniversalClient, string) error{
		"OperatorsSet": func(c redis.UniversalClient, key string) error {
			return c.Set(t.Context(), key, "maintenance", 0).Err()
		},
		"OursWithoutExpiry": func(c redis.UniversalClient, key string) error {
			return c.Set(t.Context(), key, ours, 0).Err()
		},
		"BeyondADay": func(c redis.UniversalClient, key string) error {
			return c.Set(t.Context(), key, ours, 1000*time.Hour).Err()
		},
		"AnotherType": func(c redis.UniversalClient, key string) error { return c.HSet(t.Context(), key, "f", "v").Err() },
	} {
		t.Run(name, func(t *testing.T) {
			l, client := open(t, testenv.RedisServer(t).URL(), redislease.Config{})
			take(t, l, "clamped", alice)
			key := client.Keys(t.Context(), "*").Val()[0]
			for what, ask := range map[string]func() (lease.Holding, error){
				"take": func() (lease.Holding, error) {
					return l.Take(t.Context(), "clamped", lease.Holding{Value: fence.DigestOf("bob"), Holder: "bob", Remaining: time.Minute})
				},
				"look": func() (lease.Holding, error) { return l.Look(t.Context(), "clamped") },
			} {
				if err := client.Del(t.Context(), key).Err(); err != nil {
					t.Fatal(err)
				}
				if err := set(client, key); err != nil {
					t.Fatal(err)
				}
				got, err := ask()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if got.Value == fence.DigestOf("bob") || got.Remaining != lease.MaxTTL {
					t.Fatalf("%s: %+v, want somebody else's for %v", what, got, lease.MaxTTL)
				}
				if left := client.PTTL(t.Context(), key).Val(); left <= 0 || left > lease.MaxTTL {
					t.Fatalf("%s left the key with a ttl of %v", what, left)
				}
			}
		})
	}
}

func TestForeignValueIsHeldByUnknown(t *testing.T) {
	l, client := open(t, testenv.RedisServer(t).URL(), redislease.Config{})
	take(t, l, "foreign", alice)
	key := client.Keys(t.Context(), "*").Val()[0]
	for _, value := range []string{"", "x", alice.Value.String(), strings.ToUpper(alice.Value.String()) + ":alice", alice.Value.String()[:62] + ":a", "zz:zz"} {
		if err := client.Set(t.Context(), key, value, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if got := take(t, l, "foreign", alice); got.Value == alice.Value || got.Value == (fence.Digest{}) || got.Holder != "unknown" {
			t.Fatalf("value %q: %+v, want an unknown holder", value, got)
		}
		if ok, err := l.Extend(t.Context(), "foreign", alice.Value, time.Hour); ok || err != nil {
			t.Fatalf("value %q: extended, %v", value, err)
		}
		if ok, err := l.Drop(t.Context(), "foreign", alice.Value); ok || err != nil {
			t.Fatalf("value %q: dropped, %v", value, err)
		}
	}
}

func TestScriptsAreSentAgainAfterAFlush(t *testing.T) {
	l, client := open(t, testenv.RedisServer(t).URL(), redislease.Config{})
	flush := func() {
		t.Helper()
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	take(t, l, "flushed", alice)
	flush()
	if ok, err := l.Extend(t.Context(), "flushed", alice.Value, time.Hour); !ok || err != nil {
		t.Fatalf("extend: %v, %v", ok, err)
	}
	flush()
	if got, err := l.Look(t.Context(), "flushed"); got.Value != alice.Value || err != nil {
		t.Fatalf("look: %+v, %v", got, err)
	}
	flush()
	if ok, err := l.Drop(t.Context(), "flushed", alice.Value); !ok || err != nil {
		t.Fatalf("drop: %v, %v", ok, err)
	}
}

func take(t *testing.T, l *redislease.Locker, name string, h lease.Holding) lease.Holding {
	t.Helper()
	got, err := l.Take(t.Context(), name, h)
	if err != nil {
		t.Fatalf("take %q: %v", name, err)
	}
	return got
}
