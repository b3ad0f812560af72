package redislease_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/redislease"
)

// testShards looks at what the nodes of a cluster know of subscriptions.
func testShards(t *testing.T, cluster *localservers.RedisCluster) {
	l, _ := open(t, cluster.URL(), redislease.Config{Prefix: "shards"})
	channels := func() (all []string) {
		for _, node := range cluster.Primaries {
			_, client := open(t, node.URL(), redislease.Config{})
			found, err := client.PubSubShardChannels(t.Context(), "*").Result()
			if err != nil {
				t.Fatal(err)
			}
			for _, channel := range found {
				if strings.HasSuffix(channel, ":"+redislease.GatewayOf(l)) {
					all = append(all, channel)
				}
			}
		}
		slices.Sort(all)
		return all
	}
	// Before it listens it only notes what it will need.
	early := entry("early", 1)
	early.TTL = time.Hour
	if _, err := l.Enter(t.Context(), "early", early); err != nil {
		t.Fatal(err)
	}
	if got := channels(); len(got) != 0 {
		t.Fatalf("subscribed to %q without listening", got)
	}
	listener := listenTo(t, l)
	want := []string{redislease.ChannelOf(l, "early"), redislease.ChannelOf(l, "held"), redislease.ChannelOf(l, "waits")}
	slices.Sort(want)
	take(t, l, "alone", "alone")
	enter(t, l, "held", "held", 1)
	take(t, l, "waits", "other")
	enter(t, l, "waits", "waits", 1)
	eventually(t, "subscribed", func() bool { return slices.Equal(channels(), want) })
	if listener.resyncs() < 2 {
		t.Error("what it waited for before it listened came without a Resync")
	}
	// What is dropped is kept for a minute, what has ended is found out by looking.
	drop(t, l, "held", "held")
	drop(t, l, "waits", "waits")
	redislease.Forget(l, time.Now().Add(59*time.Second))
	if got := channels(); !slices.Equal(got, want) {
		t.Fatalf("subscribed to %q after less than a minute, want %q", got, want)
	}
	redislease.Forget(l, time.Now().Add(61*time.Second))
	eventually(t, "forgotten", func() bool { return slices.Equal(channels(), []string{redislease.ChannelOf(l, "early")}) })
	// Needed again, it is there again.
	take(t, l, "held", "other")
	enter(t, l, "held", "held", 1)
	drop(t, l, "held", "other")
	listener.pushed(t, "held", "held")
	drop(t, l, "held", "held")
	redislease.Forget(l, time.Now().Add(3*time.Hour))
	eventually(t, "forgotten", func() bool { return len(channels()) == 0 })
	if n := listener.heard(lease.Signal{Kind: lease.Resync}); n > 2 {
		t.Errorf("told Resync %d times though nothing was lost", n)
	}
}
