package testenv

import (
	"testing"

	"github.com/fencegate/fencegate/internal/localservers"
)

// Redis returns the URL of the test binary's Redis. Tests share it: each keeps to a prefix of its own.
func Redis(t testing.TB) string {
	t.Helper()
	url, err := mustShared(t).redisServer()
	if err != nil {
		t.Fatalf("testenv: Redis: %v", err)
	}
	return url
}

// RedisServer starts a redis-server of the test's own, for tests that pause, flush or kill it.
func RedisServer(t testing.TB) *localservers.Redis {
	t.Helper()
	r, err := localservers.StartRedis(t.Context(), localservers.RedisConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatalf("testenv: Redis: %v", err)
	}
	stopAfter(t, r)
	return r
}
