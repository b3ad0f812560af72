package redislease_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/leasetest"
	"github.com/fencegate/fencegate/lease/redislease"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	awaitPools(t)
	cluster := testenv.RedisCluster(t, 1)
	t.Run("Conformance", func(t *testing.T) {
		c := redislease.Config{Prefix: "fencegate:conformance"}
		b := backend(t, cluster.URL(), c)
		for _, node := range slices.Concat(cluster.Primaries, cluster.Replicas) {
			addUser(t, node)
		}
		b.Open = func(t *testing.T) lease.Locker { l, _ := open(t, asUser(cluster), c); return l }
		leasetest.Run(t, b)
	})
	t.Run("ShardChannelsAreForgotten", func(t *testing.T) { testShards(t, cluster) })
	a, b := listen(t, cluster.URL(), redislease.Config{}), listen(t, cluster.URL(), redislease.Config{})
	var on []string
	spread := t.Run("LeasesAreSpread", func(t *testing.T) {
		for i := range 60 {
			take(t, a, fmt.Sprint("spread/", i), "a")
		}
		for _, node := range cluster.Primaries {
			on = append(on, leaseOn(t, node))
		}
	})
	if !spread {
		return
	}
	t.Run("HandOffOnEveryNode", func(t *testing.T) {
		for _, name := range on {
			drop(t, a, name, "a")
			handOff(t, a, b, name)
		}
	})
	// Those that wait for a lease are told when it moves to another node, by whatever way.
	t.Run("SlotMoves", func(t *testing.T) {
		told := b.resyncs()
		moveSlot(t, cluster, on[1], 1, 2)
		eventually(t, "told", func() bool { return b.resyncs() > told })
		handOff(t, a, b, on[1])
		on[1] = leaseOn(t, cluster.Primaries[1])
		drop(t, a, on[1], "a")
	})
	t.Run("OrderedFailOver", func(t *testing.T) {
		told := b.resyncs()
		promote(t, cluster.Replicas[0])
		// The connection to the former primary lives on, and hears what its successor publishes: nobody counts it there.
		eventually(t, "told", func() bool { return b.resyncs() > told })
		eventually(t, "both hear each other", func() bool {
			take(t, a, on[0], "a")
			enter(t, b, on[0], "b", 1)
			next := drop(t, a, on[0], "a").Next
			drop(t, b, on[0], "b")
			return next
		})
		handOff(t, a, b, on[0])
	})
	// A node that is gone does not make go-redis look for its successor: the map of the cluster is read again in time.
	t.Run("FailOver", func(t *testing.T) {
		take(t, a, on[0], "a")
		waits := entry("b", 1)
		waits.Place = enter(t, b, on[0], "b", 1).Place
		told := b.resyncs()
		cluster.Replicas[0].Kill()
		eventually(t, "the replica has taken over", func() bool { _, err := a.Drop(t.Context(), on[0], value("a")); return err == nil })
		eventually(t, "told", func() bool { return b.resyncs() > told })
		eventually(t, "it goes to the one that waits", func() bool {
			got, err := b.Enter(t.Context(), on[0], waits)
			return err == nil && got.Value == waits.Value
		})
	})
	t.Run("HungNode", func(t *testing.T) {
		if err := cluster.Primaries[2].Pause(); err != nil {
			t.Fatal(err)
		}
		take(t, a, on[1], "a")
		for _, waiters := range []int{0, 1} {
			began := time.Now()
			_, err := a.Enter(t.Context(), on[2], entry("a", waiters))
			unavailable(t, "enter", err)
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %v to say so", took)
			}
		}
		if err := cluster.Primaries[2].Resume(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "available again", func() bool { _, err := a.Look(t.Context(), on[2], 0); return err == nil })
	})
}

// promote makes a replica the primary while both live.
func promote(t *testing.T, replica *localservers.Redis) {
	t.Helper()
	_, client := open(t, replica.URL(), redislease.Config{})
	var ordered time.Time
	eventually(t, "it is the primary", func() bool {
		// On a busy machine the two may not agree in time, and stay what they are.
		if time.Since(ordered) > 2*time.Second {
			ordered = time.Now()
			if err := client.Do(t.Context(), "CLUSTER", "FAILOVER").Err(); err != nil {
				t.Log(err)
			}
		}
		role, err := client.Do(t.Context(), "ROLE").Slice()
		return err == nil && role[0] == "master"
	})
}

// leaseOn returns the name of a lease that a cluster's node keeps, by the default prefix.
func leaseOn(t *testing.T, node *localservers.Redis) string {
	t.Helper()
	_, client := open(t, node.URL(), redislease.Config{})
	keys, err := client.Keys(t.Context(), "fencegate:*}").Result()
	if err != nil || len(keys) < 10 {
		t.Fatalf("%s has %d leases of 60, %v", node.Address(), len(keys), err)
	}
	_, tag, _ := strings.Cut(strings.TrimSuffix(keys[0], "}"), "{")
	name, err := base64.RawURLEncoding.DecodeString(tag)
	if err != nil {
		t.Fatal(err)
	}
	return string(name)
}

// moveSlot gives the slot of a lease, of which nothing is kept, to another node.
func moveSlot(t *testing.T, cluster *localservers.RedisCluster, name string, from, to int) {
	t.Helper()
	client := func(n int) redis.UniversalClient {
		_, c := open(t, cluster.Primaries[n].URL(), redislease.Config{})
		return c
	}
	do := func(n int, args ...any) any {
		t.Helper()
		reply, err := client(n).Do(t.Context(), args...).Result()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return reply
	}
	slot := do(from, "CLUSTER", "KEYSLOT", redislease.KeyOf(redislease.Config{}, name))
	source, target := do(from, "CLUSTER", "MYID"), do(to, "CLUSTER", "MYID")
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	// Other leases have the slot too.
	for {
		keys := do(from, "CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		for _, key := range keys {
			host, port, _ := strings.Cut(cluster.Primaries[to].Address(), ":")
			do(from, "MIGRATE", host, port, key, 0, 1000)
		}
	}
	for _, n := range []int{to, from} {
		do(n, "CLUSTER", "SETSLOT", slot, "NODE", target)
	}
}
