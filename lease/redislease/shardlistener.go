package redislease

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/lease"
)

// shardListener is one call of Listen in a cluster.
type shardListener struct {
	shards  *shards
	ctx     context.Context
	f       func(lease.Signal)
	wake    chan struct{}
	running sync.WaitGroup

	nodes map[string]*shardNode // by address; guarded by shards.mu
}

// shardNode is the subscription to a node of the cluster.
type shardNode struct {
	pubsub *redis.PubSub
}

func (l *shardListener) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run mends what is lost and forgets what is not needed.
func (l *shardListener) run() {
	l.f(lease.Signal{Kind: lease.Resync})
	tick := time.NewTicker(shardsInterval)
	defer tick.Stop()
	retry := newRetry()
	l.wakeUp() // for what was wanted before
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.wake:
		case <-tick.C:
		}
		l.forget(time.Now())
		found, failed := l.mend()
		if found > failed {
			l.f(lease.Signal{Kind: lease.Resync})
			retry = newRetry()
		}
		if failed > 0 {
			if !retry.wait(l.ctx) {
				return
			}
			l.wakeUp()
		}
	}
}

// mend subscribes anew to what was lost, and tells how much that was and how much of it failed.
func (l *shardListener) mend() (found, failed int) {
	s := l.shards
	var tries []*shardTry
	s.mu.Lock()
	for channel, sh := range s.channels {
		if sh.lost && sh.try == nil {
			tries = append(tries, s.start(channel))
		}
	}
	s.mu.Unlock()
	for _, try := range tries {
		select {
		case <-try.done:
			if try.err != nil {
				failed++
			}
		case <-l.ctx.Done():
			return len(tries), len(tries)
		}
	}
	if failed > 0 {
		s.client.ReloadState(l.ctx)
	}
	return len(tries), failed
}

// forget unsubscribes from what nobody needs.
func (l *shardListener) forget(now time.Time) {
	s := l.shards
	old := map[string]*shardNode{}
	s.mu.Lock()
	for channel, sh := range s.channels {
		if now.Before(sh.until) {
			continue
		}
		delete(s.channels, channel)
		if sh.try != nil && sh.try.node != nil {
			old[channel] = sh.try.node
		}
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.ctx, s.timeout)
	defer cancel()
	for channel, node := range old {
		// Whatever goes wrong, the node's reader hears of it. Should somebody need the channel again meanwhile, he is
		// unsubscribed, which the reader hears too, and mends.
		node.pubsub.SUnsubscribe(ctx, channel)
	}
}

// subscribe sends the command; the node's reader hears of the outcome, in time or not at all.
func (l *shardListener) subscribe(channel string, try *shardTry) {
	ctx, cancel := context.WithTimeout(l.ctx, l.shards.timeout)
	defer cancel()
	err := l.send(ctx, channel, try)
	if err == nil {
		select {
		case <-try.done:
			return
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	s := l.shards
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh := s.channels[channel]; sh != nil && sh.try == try && !try.over() {
		sh.fail(err)
		l.wakeUp()
	}
}

func (l *shardListener) send(ctx context.Context, channel string, try *shardTry) error {
	primary, err := l.shards.client.MasterForKey(ctx, channel)
	if err != nil {
		return err
	}
	l.shards.mu.Lock()
	node := l.node(primary)
	try.node = node
	l.shards.mu.Unlock()
	return node.pubsub.SSubscribe(ctx, channel)
}

// node is the subscription to a node of the cluster, made if there is none. shards.mu is held.
func (l *shardListener) node(primary *redis.Client) *shardNode {
	addr := primary.Options().Addr
	node := l.nodes[addr]
	if node == nil {
		node = &shardNode{pubsub: primary.SSubscribe(l.ctx)}
		l.nodes[addr] = node
		l.running.Go(func() { l.read(addr, node) })
	}
	return node
}

// read tells what a node says until the connection fails, and then has its channels subscribed anew.
func (l *shardListener) read(addr string, node *shardNode) {
	s := l.shards
	ctx, cancel := context.WithCancel(l.ctx)
	var closing sync.WaitGroup
	closing.Go(func() { <-ctx.Done(); node.pubsub.Close() })
	err := subscription{pubsub: node.pubsub, timeout: s.timeout, reached: func(ctx context.Context) (int64, error) {
		channel := s.anyOn(node)
		if channel == "" {
			return 1, nil
		}
		primary, err := s.client.MasterForKey(ctx, channel)
		if err != nil {
			return 0, err
		}
		return primary.SPublish(ctx, channel, "").Result()
	}}.receive(ctx, func(message any) error { return l.hear(node, message) })
	cancel()
	closing.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.nodes[addr] == node {
		delete(l.nodes, addr)
	}
	for _, sh := range s.channels {
		if sh.try != nil && sh.try.node == node {
			sh.fail(err)
		}
	}
	l.wakeUp()
}

func (l *shardListener) hear(node *shardNode, message any) error {
	switch m := message.(type) {
	case *redis.Subscription:
		if m.Kind == "ssubscribe" {
			l.shards.confirmed(m.Channel, node)
		} else if l.shards.needs(m.Channel, node) {
			return errElsewhere // the slot has gone to another node
		}
	case *redis.Message:
		if signal, err := parseSignal(m.Payload); err == nil {
			l.f(signal)
		}
	}
	return nil
}
