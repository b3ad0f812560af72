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

// RedisPair starts a primary and a replica of the test's own, for tests that lose what was not copied: Cut the replica,
// write to the primary, then Promote the replica.
func RedisPair(t testing.TB) (primary, replica *localservers.Redis) {
	t.Helper()
	start := func() *localservers.Redis {
		r, err := localservers.StartRedis(t.Context(), localservers.RedisConfig{Dir: t.TempDir(), TCP: true})
		if err != nil {
			t.Fatalf("testenv: Redis: %v", err)
		}
		stopAfter(t, r)
		return r
	}
	primary, replica = start(), start()
	if err := replica.Follow(t.Context(), primary); err != nil {
		t.Fatalf("testenv: Redis: %v", err)
	}
	return primary, replica
}

// RedisSentinel starts a Sentinel that watches the primary of a pair and promotes its replica when the primary is silent
// for 200 ms.
func RedisSentinel(t testing.TB, primary *localservers.Redis) *localservers.Sentinel {
	t.Helper()
	s, err := localservers.StartSentinel(t.Context(), localservers.SentinelConfig{Dir: t.TempDir(), Primary: primary, Replicas: 1})
	if err != nil {
		t.Fatalf("testenv: Sentinel: %v", err)
	}
	stopAfter(t, s)
	return s
}

// RedisCluster starts a cluster of three primaries, the first of which has as many replicas as asked for.
func RedisCluster(t testing.TB, replicas int) *localservers.RedisCluster {
	t.Helper()
	c, err := localservers.StartRedisCluster(t.Context(), localservers.RedisClusterConfig{Dir: t.TempDir(), Replicas: replicas})
	if err != nil {
		t.Fatalf("testenv: Redis Cluster: %v", err)
	}
	stopAfter(t, c)
	return c
}
