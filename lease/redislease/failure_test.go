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
	_, err := l.Take(t.Context(), "replica", alice)
	unavailable(t, "take", err)
}

func TestFullServerIsUnavailableButReleases(t *testing.T) {
	l, client := open(t, testenv.RedisServer(t).URL(), redislease.Config{})
	take(t, l, "held", alice)
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := l.Take(t.Context(), "full", alice)
	unavailable(t, "take", err)
	if ok, err := l.Extend(t.Context(), "held", alice.Value, time.Hour); !ok || err != nil {
		t.Fatalf("extend: %v, %v", ok, err)
	}
	if ok, err := l.Drop(t.Context(), "held", alice.Value); !ok || err != nil {
		t.Fatalf("drop: %v, %v", ok, err)
	}
}

func TestHungServerIsUnavailableInTime(t *testing.T) {
	server := testenv.RedisServer(t)
	l, _ := open(t, server.URL(), redislease.Config{CallTimeout: 300 * time.Millisecond})
	take(t, l, "hung", alice)
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
	eventually(t, "available again", func() bool { _, err := l.Look(t.Context(), "hung"); return err == nil })
}

func TestDownIsUnavailableUntilBack(t *testing.T) {
	config := localservers.RedisConfig{Dir: t.TempDir()}
	server, err := localservers.StartRedis(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	l, _ := open(t, server.URL(), redislease.Config{})
	take(t, l, "down", alice)
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
		got, err := l.Take(t.Context(), "down", alice)
		return err == nil && got.Value == alice.Value
	})
}

func calls(t *testing.T, l *redislease.Locker) map[string]func() error {
	return map[string]func() error{
		"take":   func() error { _, err := l.Take(t.Context(), "call", alice); return err },
		"extend": func() error { _, err := l.Extend(t.Context(), "call", alice.Value, time.Minute); return err },
		"drop":   func() error { _, err := l.Drop(t.Context(), "call", alice.Value); return err },
		"look":   func() error { _, err := l.Look(t.Context(), "call"); return err },
	}
}

func unavailable(t *testing.T, what string, err error) {
	t.Helper()
	if fence.CodeOf(err) != fence.CodeUnavailable {
		t.Fatalf("%s: %v, want %s", what, err, fence.CodeUnavailable)
	}
}
