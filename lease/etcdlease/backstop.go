package etcdlease

import (
	"context"
	"math/bits"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// signalTTL is how long signals stay at least. They are read at once or not at all.
const signalTTL = time.Second

// backstops are the etcd leases on which records hang, so that they do not outlive their holders for long. Each serves the
// records of about one TTL for a while, as a grant costs as much as a write. They are never renewed, and end by themselves.
type backstops struct {
	gate gate

	mu    sync.Mutex
	until map[int64]backstop // guarded by mu; by the class of TTL in seconds
}

type backstop struct {
	id      clientv3.LeaseID
	granted time.Time // before it was asked for
	wall    time.Time // the same by the wall clock alone, which counts the time, too, in which the machine slept
}

func newBackstops() *backstops { return &backstops{gate: newGate(), until: make(map[int64]backstop)} }

// class rounds a TTL up to seconds, of which the four highest bits count: 15, 16, 18, … 30, 32, 36.
func class(ttl time.Duration) int64 {
	seconds := int64((ttl + time.Second - 1) / time.Second)
	low := max(0, bits.Len64(uint64(seconds))-4)
	return (seconds + 1<<low - 1) >> low << low
}

// spare is for how long an etcd lease of a class is given to records. It lasts that much longer than they do.
func spare(class int64) int64 { return max(1, class/8) }

// usable tells whether the lease outlasts a record of its class that is written now.
func (b backstop) usable(class int64) bool {
	age := max(time.Since(b.granted), time.Since(b.wall))
	return b.id != clientv3.NoLease && age < time.Duration(spare(class))*time.Second
}

// lease returns an etcd lease that lasts for a TTL from now at least.
func (b *backstops) lease(ctx context.Context, c *clientv3.Client, ttl time.Duration) (clientv3.LeaseID, error) {
	class := class(ttl)
	if id, ok := b.known(class); ok {
		return id, nil
	}
	if err := b.gate.enter(ctx); err != nil {
		return clientv3.NoLease, err
	}
	defer b.gate.leave()
	if id, ok := b.known(class); ok {
		return id, nil
	}
	now := time.Now()
	granted, err := c.Grant(ctx, class+spare(class))
	if err != nil {
		return clientv3.NoLease, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until[class] = backstop{granted.ID, now, now.Round(0)}
	return granted.ID, nil
}

func (b *backstops) known(class int64) (clientv3.LeaseID, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.until[class]
	return found.id, found.usable(class)
}

// forget drops all leases that the server may have lost.
func (b *backstops) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.until)
}
