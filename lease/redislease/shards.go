package redislease

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

const (
	// maxShards is for how many leases a locker waits at most.
	maxShards = 20_000
	// queueKept is how long Redis keeps a queue that nobody renews.
	queueKept = 2 * time.Hour
	// idleKept is how long a subscription is kept that no entry needs.
	idleKept = time.Minute
	// shardsInterval is how often those are looked for.
	shardsInterval = 10 * time.Second
)

// shards are the shard channels of a locker in a cluster: one for each lease for which it has entries with waiters. A nil
// *shards is that of a locker outside a cluster, and does nothing.
type shards struct {
	client  *redis.ClusterClient
	timeout time.Duration

	mu       sync.Mutex        // guards what follows, and what stands in it
	channels map[string]*shard // that are needed, or were not long ago
	listener *shardListener    // nil while nobody listens
}

// shard is a lease's channel.
type shard struct {
	holds map[fence.Digest]time.Time // of the entries, and until when each needs it
	until time.Time                  // when it is forgotten unless somebody needs it
	try   *shardTry                  // nil if it is not subscribed
	lost  bool                       // it has to be subscribed, and signals may have been missed meanwhile
}

// shardTry is a subscription that is under way, or done.
type shardTry struct {
	node *shardNode    // nil until it is known
	done chan struct{} // closed when it is known whether it worked
	err  error         // why it did not; read it after done
}

func newShards(client *redis.ClusterClient, timeout time.Duration) *shards {
	return &shards{client: client, timeout: timeout, channels: map[string]*shard{}}
}

// want subscribes to a lease for an entry and returns when the server has confirmed it. While nobody listens it only
// notes what to subscribe to then.
func (s *shards) want(ctx context.Context, channel string, value fence.Digest) error {
	if s == nil {
		return nil
	}
	known, err := s.note(channel, value)
	if err != nil {
		return err
	}
	// The second attempt is for a connection that was found dead by the first.
	for range 2 {
		if err = s.ready(ctx, channel); err == nil {
			return nil
		}
	}
	if !known {
		s.done(channel, value)
	}
	return unavailable(err)
}

// note remembers an entry, and tells whether it was known before.
func (s *shards) note(channel string, value fence.Digest) (known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.channels[channel]
	if sh == nil {
		if !s.room() {
			return false, fence.Errorf(fence.CodeRateLimited, "this gateway waits for %d leases already", maxShards)
		}
		sh = &shard{holds: map[fence.Digest]time.Time{}}
		s.channels[channel] = sh
	}
	_, known = sh.holds[lease.HoldOf(value)]
	sh.keep(value, time.Now().Add(queueKept))
	return known, nil
}

// keep remembers until when an entry needs the channel.
func (sh *shard) keep(value fence.Digest, until time.Time) {
	sh.holds[lease.HoldOf(value)] = until
	sh.until = time.Now().Add(idleKept)
	for _, u := range sh.holds {
		if u.After(sh.until) {
			sh.until = u
		}
	}
}

// holding says that the entry holds its lease, and for how long unless it is renewed.
func (s *shards) holding(channel string, value fence.Digest, left time.Duration) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh := s.channels[channel]; sh != nil {
		if _, had := sh.holds[lease.HoldOf(value)]; had {
			sh.keep(value, time.Now().Add(left+lease.Window))
		}
	}
}

// ready waits until a channel is subscribed.
func (s *shards) ready(ctx context.Context, channel string) error {
	s.mu.Lock()
	try := s.start(channel)
	s.mu.Unlock()
	if try == nil {
		return ctx.Err()
	}
	select {
	case <-try.done:
		return try.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// done says that the value has no entry any more.
func (s *shards) done(channel string, value fence.Digest) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.channels[channel]
	if sh == nil {
		return
	}
	if _, had := sh.holds[lease.HoldOf(value)]; !had {
		return
	}
	sh.keep(value, time.Time{})
	delete(sh.holds, lease.HoldOf(value))
}

// room tells whether there is room for one more lease, and has those forgotten that no entry needs. s.mu is held.
func (s *shards) room() bool {
	if len(s.channels) < maxShards {
		return true
	}
	found := false
	now := time.Now()
	for _, sh := range s.channels {
		if !sh.needed(now) {
			sh.until, found = time.Time{}, true
		}
	}
	if found && s.listener != nil {
		s.listener.wakeUp()
	}
	return found
}

// needed tells whether an entry needs the channel.
func (sh *shard) needed(now time.Time) bool {
	for _, until := range sh.holds {
		if now.Before(until) {
			return true
		}
	}
	return false
}

// start begins to subscribe to a channel unless that is done or under way; nil while nobody listens. s.mu is held.
func (s *shards) start(channel string) *shardTry {
	sh := s.channels[channel]
	switch {
	case sh == nil:
		return nil
	case s.listener == nil:
		sh.lost = true
		return nil
	case sh.try == nil:
		try := &shardTry{done: make(chan struct{})}
		sh.try = try
		l := s.listener
		l.running.Go(func() { l.subscribe(channel, try) })
	}
	return sh.try
}

// confirmed says that a lease's subscription stands.
func (s *shards) confirmed(channel string, node *shardNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh := s.on(channel, node); sh != nil && !sh.try.over() {
		sh.lost = false
		close(sh.try.done)
	}
}

// needs tells whether a channel should be subscribed on a node.
func (s *shards) needs(channel string, node *shardNode) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on(channel, node) != nil
}

// on returns the shard of a channel if it is a node's. s.mu is held.
func (s *shards) on(channel string, node *shardNode) *shard {
	sh := s.channels[channel]
	if sh == nil || sh.try == nil || sh.try.node != node {
		return nil
	}
	return sh
}

// fail gives up the subscription of a channel. s.mu is held.
func (sh *shard) fail(err error) {
	if !sh.try.over() {
		sh.try.err = err
		close(sh.try.done)
	}
	sh.try, sh.lost = nil, true
}

func (t *shardTry) over() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// listen owns everything that is subscribed until ctx is over.
func (s *shards) listen(ctx context.Context, f func(lease.Signal)) {
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.Mutex // each node has a reader of its own
	tell := func(signal lease.Signal) {
		telling.Lock()
		defer telling.Unlock()
		f(signal)
	}
	l := &shardListener{shards: s, ctx: ctx, f: tell, nodes: map[string]*shardNode{}, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	s.listener = l
	s.mu.Unlock()
	l.run()
	s.mu.Lock()
	s.listener = nil
	for _, sh := range s.channels {
		if sh.try != nil {
			sh.fail(context.Canceled)
		}
	}
	s.mu.Unlock()
	cancel()
	l.running.Wait()
}

// anyOn is some channel that is subscribed on a node, or nothing.
func (s *shards) anyOn(node *shardNode) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for channel, sh := range s.channels {
		if sh.try != nil && sh.try.node == node && sh.try.over() {
			return channel
		}
	}
	return ""
}
