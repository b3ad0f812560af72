package main

import (
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/leasetest"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// The candidates' names, as they stand in the tables.
const (
	bsm        = "bsm/redislock"
	redsyncs   = "redsync"
	rueidis1   = "rueidislock, 1 client"
	rueidis4   = "rueidislock, 4 clients"
	rueidis32  = "rueidislock, 32 clients"
	etcd       = "etcd mutex"
	ours       = "fencegate"
	locker     = ours + ", locker alone"
	gateway1   = ours + ", 1 gateway"
	gateways4  = ours + ", 4 gateways"
	gateways32 = ours + ", 32 gateways"
	certified1 = ours + " certified, 1 gateway"
	certified4 = ours + " certified, 4 gateways"
	pgCommit   = "one PostgreSQL commit"
)

// field makes all candidates, on the same servers.
func field(s *servers, admin redisInfo, done *closers) ([]candidate, error) {
	shared := openRedis(s.redis.Address(), done)
	all := []candidate{
		{name: bsm, contends: true, alone: true, clients: []acquire{bsmRedislock(shared)}, calls: redisCalls(admin, "eval", "evalsha")},
		{name: redsyncs, contends: true, alone: true, clients: []acquire{redsyncMutex(shared)}, calls: redisCalls(admin, "eval", "evalsha", "set", "setnx")},
	}
	scripts := redisCalls(admin, "eval", "evalsha")
	for _, r := range []struct {
		name    string
		clients int
	}{{rueidis1, 1}, {rueidis4, 4}, {rueidis32, 32}} {
		c := candidate{name: r.name, contends: true, alone: r.clients == 1, calls: scripts}
		for range r.clients {
			take, end, err := rueidisLocker(s.redis.Address())
			if err != nil {
				return nil, err
			}
			done.add(end)
			c.clients = append(c.clients, take)
		}
		all = append(all, c)
	}
	mutex, err := etcdMutex(s.etcd.URL(), mostWorkers, done)
	if err != nil {
		return nil, err
	}
	all = append(all, mutex)

	alone, err := openLocker(s.redis.URL(), locker, done)
	if err != nil {
		return nil, err
	}
	all = append(all, candidate{name: locker, alone: true, clients: []acquire{bare(alone)}, calls: scripts})
	memory := leasetest.NewLedger()
	inMemory := func() (lease.Ledger, error) { return memory, nil }
	inPostgres := func() (lease.Ledger, error) {
		store, err := pgstore.Open(pgstore.Config{URL: s.postgres.URL("")})
		if err != nil {
			return nil, err
		}
		done.add(func() error { store.Close(); return nil })
		return store, nil
	}
	for _, g := range []struct {
		name   string
		n      int
		ledger func() (lease.Ledger, error)
	}{{gateway1, 1, inMemory}, {gateways4, 4, inMemory}, {gateways32, 32, inMemory}, {certified1, 1, inPostgres}, {certified4, 4, inPostgres}} {
		c := candidate{name: g.name, contends: true, alone: g.n == 1, calls: scripts}
		if c.clients, err = gateways(s.redis.URL(), g.name, g.n, g.ledger, done); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}
