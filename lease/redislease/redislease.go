// Package redislease keeps leases in Redis, and the queues of those that wait for them. Three keys belong to a lease, in
// one slot of a cluster:
//
//   - {lease}: a text, who holds the lease or has it reserved. Its expiry is the lease's.
//   - {lease}:q: a sorted set, the entries that wait, by their places.
//   - {lease}:n: a hash, their notes, and for which gateway the lease was last reserved.
//
// All of them expire by themselves: the queue 2 h after the last sign of one of its entries, which is longer than
// anybody waits. There is no counter, so there is nothing that a flush, a fail-over or a restore could turn back.
//
// Every call is one script. It can be repeated: the client retries what got no answer without taking, extending or
// dropping anybody else's lease. Each script first hands on a lease that has ended, and tells the gateway of the one
// that is next by a published message. A message that nobody receives says that the gateway is gone, and the next is
// tried. A gateway that receives and does not claim is stopped, or too slow: its other entries leave the queue too, so
// that it costs one window. It enters them again, at their places, when it looks.
//
// In a cluster the messages are those of shard channels, one for each lease and gateway, and a locker subscribes to a
// lease's before it enters the first value with waiters. Otherwise a locker has one channel.
//
// Signals can be lost, and the locker says so by lease.Resync whenever its connection was. One loss it cannot see: who
// empties the server (FLUSHALL) leaves the connections alone. Those that wait have to look now and then without being told.
package redislease

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/lease"
)

// Config tunes a Locker.
type Config struct {
	// Prefix stands before every key and channel, so that several deployments can share one Redis. Defaults to "fencegate".
	Prefix string
	// CallTimeout bounds each call, its retries included. Defaults to 1 s.
	CallTimeout time.Duration
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, "fencegate")
	c.CallTimeout = cmp.Or(c.CallTimeout, time.Second)
	return c
}

func (c Config) validate() error {
	switch {
	case c.CallTimeout < 0:
		return fmt.Errorf("redislease: CallTimeout %v is negative", c.CallTimeout)
	case strings.ContainsAny(c.Prefix, "{}"):
		// A brace in the prefix would decide the cluster slot in place of the lease.
		return fmt.Errorf("redislease: prefix %q has a brace", c.Prefix)
	}
	return nil
}

var _ lease.Locker = (*Locker)(nil)

// Locker keeps leases in Redis. It is safe for concurrent use. Others reach it only while it listens: until then, and
// afterwards, its entries are passed over.
type Locker struct {
	client  redis.UniversalClient
	config  Config
	scripts scripts
	// gateway is the locker's identity.
	gateway string
	// shards are nil unless the client is a cluster's.
	shards    *shards
	listening atomic.Bool
}

// New makes a Locker. The client stays the caller's to close; it must have ContextTimeoutEnabled, without which a
// server that hangs outlasts CallTimeout. Open makes such a client.
func New(client redis.UniversalClient, config Config) (*Locker, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	l := &Locker{client: client, config: config, scripts: loadScripts(), gateway: rand.Text()}
	switch client := client.(type) {
	case nil:
		return nil, errors.New("redislease: a Locker needs a client")
	case *redis.ClusterClient:
		l.shards = newShards(client, config.CallTimeout)
	case *redis.Ring:
		return nil, errors.New("redislease: a ring's servers know nothing of each other: use one of them, Sentinels or a cluster")
	}
	return l, nil
}
