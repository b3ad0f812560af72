package redislease_test

import (
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease/redislease"
)

func TestReplicaIsUnavailable(t *testing.T) {
	l, client := open(t, testenv.RedisServer(t).URL(), redislease.Config{})
	if err := client.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := l.Enter(t.Context(), "replica", entry("a", 0))
	unavailable(t, "enter", err)
}

// TestFullServerIsUnavailableButReleases fills the memory: no lease is taken, but what is held is kept, given up, and
// passes to those that wait.
func TestFullServerIsUnavailableButReleases(t *testing.T) {
	url := testenv.RedisServer(t).URL()
	a, b := listen(t, url, redislease.Config{}), listen(t, url, redislease.Config{})
	_, client := open(t, url, redislease.Config{})
	take(t, a, "held", "a")
	enter(t, b, "held", "b", 1)
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := a.Enter(t.Context(), "full", entry("a", 0))
	unavailable(t, "enter", err)
	_, err = a.Enter(t.Context(), "held", entry("a2", 1))
	unavailable(t, "enter the queue", err)
	if got, err := b.Stay(t.Context(), "held", entry("b", 2)); err != nil || got.Place == 0 || got.Followed {
		t.Fatalf("stay: %+v, %v", got, err)
	}
	if got, err := a.Extend(t.Context(), "held", extension("a")); err != nil || got.Value != value("a") || got.Remaining < 59*time.Minute {
		t.Fatalf("extend: %+v, %v", got, err)
	}
	if got := drop(t, a, "held", "a"); !got.Had || !got.Next {
		t.Fatalf("drop: %+v", got)
	}
	b.pushed(t, "held", "b")
	if got := drop(t, a, "held", "b"); !got.Had || !got.Next {
		t.Fatalf("drop by another gateway: %+v", got)
	}
	b.pushed(t, "held", "b+")
	if got := drop(t, b, "held", "b+"); !got.Had {
		t.Fatalf("drop: %+v", got)
	}
}

func TestHungServerIsUnavailableInTime(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t)
	// Only the locker's own bound is left.
	l, _ := open(t, server.URL()+"?read_timeout=10s", redislease.Config{CallTimeout: 300 * time.Millisecond})
	take(t, l, "hung", "a")
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	defer server.Resume()
	for what, call := range calls(t, l) {
		began := time.Now()
		unavailable(t, what, call())
		if took := time.Since(began); took > 2*time.Second {
			t.Fatalf("%s took %v with a CallTimeout of 300ms", what, took)
		}
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "available again", func() bool { _, err := l.Look(t.Context(), "hung", 0); return err == nil })
}

func TestDownIsUnavailableUntilBack(t *testing.T) {
	t.Parallel()
	awaitPools(t)
	config := localservers.RedisConfig{Dir: t.TempDir()}
	server, err := localservers.StartRedis(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	l, _ := open(t, server.URL(), redislease.Config{})
	take(t, l, "down", "a")
	server.Kill()
	for what, call := range calls(t, l) {
		began := time.Now()
		unavailable(t, what, call())
		if took := time.Since(began); took > 2*time.Second {
			t.Fatalf("%s took %v", what, took)
		}
	}
	server, err = localservers.StartRedis(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	// The client's pool repeats what it heard of a dead server for up to a second.
	eventually(t, "available again", func() bool {
		got, err := l.Enter(t.Context(), "down", entry("a", 0))
		return err == nil && got.Value == value("a")
	})
}

func calls(t *testing.T, l *redislease.Locker) map[string]func() error {
	return map[string]func() error{
		"enter":  func() error { _, err := l.Enter(t.Context(), "call", entry("a", 1)); return err },
		"stay":   func() error { _, err := l.Stay(t.Context(), "call", entry("a", 1)); return err },
		"extend": func() error { _, err := l.Extend(t.Context(), "call", extension("a")); return err },
		"drop":   func() error { _, err := l.Drop(t.Context(), "call", value("a")); return err },
		"look":   func() error { _, err := l.Look(t.Context(), "call", 9); return err },
	}
}

func unavailable(t *testing.T, what string, err error) {
	t.Helper()
	if fence.CodeOf(err) != fence.CodeUnavailable {
		t.Fatalf("%s: %v, want %s", what, err, fence.CodeUnavailable)
	}
}
