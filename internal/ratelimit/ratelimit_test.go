package ratelimit_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/internal/ratelimit"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease/redislease"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// open makes a Limiter on a client of its own.
func open(t *testing.T, url string, c ratelimit.Config) (*ratelimit.Limiter, redis.UniversalClient) {
	t.Helper()
	client, err := redislease.Open(url, redislease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	c.Prefix = cmp.Or(c.Prefix, space())
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second // what is counted here must be exact
	}
	l, err := ratelimit.New(client, c)
	if err != nil {
		t.Fatal(err)
	}
	return l, client
}

// space is a prefix of a test's own.
func space() string { return "test:" + rand.Text() }

func limits(l ratelimit.Limit) map[string]ratelimit.Limit {
	return map[string]ratelimit.Limit{"reads": l, "writes": l}
}

// take counts a request and demands an answer.
func take(t *testing.T, l *ratelimit.Limiter, class, principal string) time.Duration {
	t.Helper()
	wait, err := l.Take(t.Context(), class, principal)
	if err != nil {
		t.Fatal(err)
	}
	return wait
}

func TestTake(t *testing.T) {
	prefix := space()
	l, client := open(t, testenv.Redis(t), ratelimit.Config{Prefix: prefix, Limits: limits(ratelimit.Limit{Count: 3, Window: time.Minute})})
	t.Run("OneTooMany", func(t *testing.T) {
		for range 3 {
			if wait := take(t, l, "reads", "ann"); wait != 0 {
				t.Fatal(wait)
			}
		}
		for range 3 {
			if wait := take(t, l, "reads", "ann"); wait < 30*time.Second || wait > time.Minute {
				t.Fatal(wait)
			}
		}
	})
	t.Run("EachByItself", func(t *testing.T) {
		for _, other := range [][2]string{{"writes", "ann"}, {"reads", "bob"}, {"reads", "ann:x"}, {"leases", "ann"}} {
			if wait := take(t, l, other[0], other[1]); wait != 0 {
				t.Error(other, wait)
			}
		}
	})
	t.Run("SharedByGateways", func(t *testing.T) {
		other, _ := open(t, testenv.Redis(t), ratelimit.Config{Prefix: prefix, Limits: limits(ratelimit.Limit{Count: 3, Window: time.Minute})})
		if wait := take(t, other, "reads", "ann"); wait == 0 {
			t.Error("another gateway begins anew")
		}
	})
	t.Run("NamesNobody", func(t *testing.T) {
		keys, err := client.Keys(t.Context(), prefix+":*").Result()
		if err != nil || len(keys) != 4 {
			t.Fatal(keys, err)
		}
		for _, k := range keys {
			if strings.Contains(k, "ann") || strings.Contains(k, "bob") {
				t.Error(k)
			}
		}
	})
}

func TestEveryRequestIsCountedOnce(t *testing.T) {
	l, client := open(t, testenv.Redis(t), ratelimit.Config{Limits: limits(ratelimit.Limit{Count: 250, Window: time.Minute})})
	var let atomic.Int64
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			for j := range 100 {
				if i == 0 && j%20 == 0 {
					client.ScriptFlush(t.Context()) // as after a restart: Redis does not know the script
				}
				if wait, err := l.Take(t.Context(), "reads", "ann"); err != nil {
					t.Error(err)
				} else if wait == 0 {
					let.Add(1)
				}
			}
		})
	}
	all.Wait()
	if let.Load() != 250 {
		t.Errorf("%d requests were let through", let.Load())
	}
}

// The window ends when it was said to, however many requests come in it; then there is another, and no key is left.
func TestWindow(t *testing.T) {
	prefix := space()
	l, client := open(t, testenv.Redis(t), ratelimit.Config{Prefix: prefix, Limits: limits(ratelimit.Limit{Count: 1, Window: time.Second})})
	began := time.Now()
	take(t, l, "reads", "ann")
	var waits []time.Duration
	for wait := take(t, l, "reads", "ann"); wait != 0; wait = take(t, l, "reads", "ann") {
		waits = append(waits, wait)
		if time.Since(began) > 10*time.Second {
			t.Fatal("the window has no end")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("the window ended after %v", took)
	}
	for i := range len(waits) - 1 {
		if waits[i+1] > waits[i] {
			t.Fatalf("the end moves on: %v", waits)
		}
	}
	keys, err := client.Keys(t.Context(), prefix+":*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if ttl := client.PTTL(t.Context(), keys[0]).Val(); ttl <= 0 || ttl > time.Second {
		t.Error(ttl)
	}
}

func TestKeyWithoutAnEnd(t *testing.T) {
	prefix := space()
	l, client := open(t, testenv.Redis(t), ratelimit.Config{Prefix: prefix, Limits: limits(ratelimit.Limit{Count: 1, Window: time.Second})})
	take(t, l, "reads", "ann")
	key := client.Keys(t.Context(), prefix+":*").Val()[0]
	t.Run("GetsOne", func(t *testing.T) {
		client.Persist(t.Context(), key)
		if wait := take(t, l, "reads", "ann"); wait != time.Second {
			t.Error(wait)
		}
		if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 0 {
			t.Error(ttl)
		}
	})
	t.Run("OfAnotherKind", func(t *testing.T) {
		client.Del(t.Context(), key)
		client.LPush(t.Context(), key, "x")
		for range 10 {
			if _, err := l.Take(t.Context(), "reads", "ann"); err == nil {
				t.Fatal("a list was counted")
			}
		}
		take(t, l, "reads", "bob") // it is one principal's key, not Redis, that is broken
	})
}

// unanswered makes calls until the Limiter asks no more, and returns the longest.
func unanswered(t *testing.T, l *ratelimit.Limiter) (longest time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 10 {
				began := time.Now()
				_, err := l.Take(context.Background(), "reads", "ann")
				took := time.Since(began)
				mu.Lock()
				longest = max(longest, took)
				mu.Unlock()
				if err == nil {
					t.Error("counted without Redis")
				}
			}
		})
	}
	all.Wait()
	return longest
}

func TestRedisThatDoesNotAnswer(t *testing.T) {
	dir := t.TempDir()
	start := func() *localservers.Redis {
		r, err := localservers.StartRedis(t.Context(), localservers.RedisConfig{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Stop() })
		return r
	}
	server := start()
	var mu sync.Mutex
	var told []string
	l, _ := open(t, server.URL()+"?pool_size=2", ratelimit.Config{
		Limits: limits(ratelimit.Limit{Count: 1000, Window: time.Minute}), Timeout: 20 * time.Millisecond, Rest: 100 * time.Millisecond,
		Changed: func(cause error) {
			mu.Lock()
			defer mu.Unlock()
			if cause != nil {
				told = append(told, "away")
			} else {
				told = append(told, "back")
			}
		},
	})
	answers := func(why string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if _, err := l.Take(t.Context(), "reads", "ann"); err == nil {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("%s: %v", why, err)
			}
		}
	}
	// Far above the 20 ms, for a machine that is busy, and far below what Redis's own timeouts would take.
	const bound = 300 * time.Millisecond
	answers("at first")
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if longest := unanswered(t, l); longest > bound {
		t.Errorf("hung: a request waited %v", longest)
	}
	// 200 calls of 20 ms, 20 at a time, would take 200 ms if each waited; most do not.
	t.Logf("200 calls took %v", time.Since(began))
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	answers("continued")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if longest := unanswered(t, l); longest > bound {
		t.Errorf("down: a request waited %v", longest)
	}
	start()
	answers("started again")
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(told, " "); got != "away back away back" {
		t.Errorf("told %q", got)
	}
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]ratelimit.Limit{
		"600/1m": {Count: 600, Window: time.Minute}, "1/1s": {Count: 1, Window: time.Second}, "50/1h30m": {Count: 50, Window: 90 * time.Minute}, "1000000000/24h": {Count: 1e9, Window: 24 * time.Hour},
		"": {}, "600": {}, "600/": {}, "/1m": {}, "600/m": {}, "600/60": {}, "0/1m": {}, "-1/1m": {}, "+1/1m": {}, "1.5/1s": {}, "1/0s": {}, "1/999ms": {}, "1/25h": {}, "1/-1m": {}, "2000000000/1m": {}, "1/1m/1m": {}, " 1/1m": {}, "1e3/1m": {},
	} {
		got, err := ratelimit.ParseLimit(text)
		if (err == nil) != (want != ratelimit.Limit{}) || err == nil && got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
			continue
		}
		if err == nil {
			if again, err := ratelimit.ParseLimit(got.String()); err != nil || again != got {
				t.Errorf("%q is written as %q", text, got)
			}
		}
	}
}

func TestConfigIsValidated(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { client.Close() })
	for name, c := range map[string]ratelimit.Config{
		"Window": {Limits: limits(ratelimit.Limit{Count: 1})}, "Count": {Limits: limits(ratelimit.Limit{Window: time.Minute})}, "Timeout": {Timeout: -1}, "Rest": {Rest: -1},
	} {
		if _, err := ratelimit.New(client, c); err == nil {
			t.Errorf("%s: %+v was taken", name, c)
		}
	}
	if _, err := ratelimit.New(nil, ratelimit.Config{}); err == nil {
		t.Error("a Limiter without a client was made")
	}
}
