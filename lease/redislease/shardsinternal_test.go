package redislease

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
)

func TestShardsAreBounded(t *testing.T) {
	s := newShards(nil, time.Second)
	value := fence.DigestOf("value")
	for i := range maxShards {
		if err := s.want(t.Context(), fmt.Sprint(i), value); err != nil {
			t.Fatalf("lease %d: %v", i, err)
		}
	}
	if err := s.want(t.Context(), "one more", value); fence.CodeOf(err) != fence.CodeRateLimited {
		t.Fatalf("one more: %v, want %s", err, fence.CodeRateLimited)
	}
	if err := s.want(t.Context(), "0", fence.DigestOf("another")); err != nil {
		t.Fatalf("one more value of a lease: %v", err)
	}
	s.done("0", value)
	s.holding("0", value, 0)
	if err := s.want(t.Context(), "one more", value); fence.CodeOf(err) != fence.CodeRateLimited {
		t.Fatalf("with all leases needed still: %v, want %s", err, fence.CodeRateLimited)
	}
	s.done("0", fence.DigestOf("another"))
	if err := s.want(t.Context(), "one more", value); err != nil {
		t.Fatalf("with one that nobody needs: %v", err)
	}
	if until := s.channels["0"].until; time.Now().Before(until) {
		t.Fatalf("the one that nobody needs is kept until %v", until)
	}
	// A hold that nobody drops here needs it no longer than it lasts.
	delete(s.channels, "0")
	if err := s.want(t.Context(), "another", value); err == nil {
		t.Fatal("more than there may be")
	}
	s.holding("1", value, -time.Hour)
	if err := s.want(t.Context(), "another", value); err != nil {
		t.Fatalf("with one whose lease has ended: %v", err)
	}
}

// TestOnlyNeededShardsAreMissed hears that a node has ended a subscription: a slot has moved, or nobody needs it.
func TestOnlyNeededShardsAreMissed(t *testing.T) {
	s := newShards(nil, time.Second)
	node, another := &shardNode{}, &shardNode{}
	try := &shardTry{node: node, done: make(chan struct{})}
	s.channels["needed"] = &shard{try: try}
	l := &shardListener{shards: s}
	hear := func(kind, channel string, node *shardNode) error {
		return l.hear(node, &redis.Subscription{Kind: kind, Channel: channel})
	}
	if err := hear("ssubscribe", "needed", another); err != nil || try.over() {
		t.Fatalf("confirmed by another node: %v", err)
	}
	if err := hear("ssubscribe", "needed", node); err != nil || !try.over() {
		t.Fatalf("not confirmed by its node: %v", err)
	}
	for _, n := range []*shardNode{node, another} {
		if err := hear("sunsubscribe", "forgotten", n); err != nil {
			t.Errorf("what nobody needs is missed: %v", err)
		}
	}
	if err := hear("sunsubscribe", "needed", another); err != nil {
		t.Errorf("missed on a node where it is not any more: %v", err)
	}
	if err := hear("sunsubscribe", "needed", node); err == nil {
		t.Error("what is needed is not missed")
	}
}
