package redislease_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/leasetest"
	"github.com/fencegate/fencegate/lease/redislease"
)

func TestCluster(t *testing.T) {
	cluster := testenv.RedisCluster(t, 1)
	l, _ := open(t, cluster.URL(), redislease.Config{})
	t.Run("Conformance", func(t *testing.T) {
		leasetest.Run(t, func(*testing.T) lease.Locker { return l })
	})
	var on []string
	spread := t.Run("LeasesAreSpread", func(t *testing.T) {
		for i := range 60 {
			take(t, l, fmt.Sprint("spread/", i), alice)
		}
		for _, node := range cluster.Primaries {
			on = append(on, leaseOn(t, node))
		}
	})
	if !spread {
		return
	}
	// A node that is gone does not make go-redis look for its successor: the map of the cluster is read again in time.
	t.Run("FailOver", func(t *testing.T) {
		cluster.Primaries[0].Kill()
		eventually(t, "the replica has taken over", func() bool { _, err := l.Take(t.Context(), on[0], bob); return err == nil })
	})
	t.Run("HungNode", func(t *testing.T) {
		if err := cluster.Primaries[2].Pause(); err != nil {
			t.Fatal(err)
		}
		take(t, l, on[1], alice)
		began := time.Now()
		_, err := l.Take(t.Context(), on[2], alice)
		unavailable(t, "take", err)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v to say so", took)
		}
		if err := cluster.Primaries[2].Resume(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "available again", func() bool { _, err := l.Look(t.Context(), on[2]); return err == nil })
	})
}

// leaseOn returns the name of a lease that a cluster's node keeps.
func leaseOn(t *testing.T, node *localservers.Redis) string {
	t.Helper()
	_, client := open(t, node.URL(), redislease.Config{})
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) < 10 {
		t.Fatalf("%s has %d leases of more than 60, %v", node.Address(), len(keys), err)
	}
	_, tag, _ := strings.Cut(strings.TrimSuffix(keys[0], "}"), "{")
	name, err := base64.RawURLEncoding.DecodeString(tag)
	if err != nil {
		t.Fatal(err)
	}
	return string(name)
}
