package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/redislease"
)

// gateways makes n gateways on one Redis, each with a client, a Locker and a Manager of its own. ledger is asked once for each.
func gateways(redisURL, prefix string, n int, ledger func() (lease.Ledger, error), done *closers) ([]acquire, error) {
	var all []acquire
	for range n {
		locker, err := openLocker(redisURL, prefix, done)
		if err != nil {
			return nil, err
		}
		l, err := ledger()
		if err != nil {
			return nil, err
		}
		m, err := lease.NewManager(locker, l, lease.Config{})
		if err != nil {
			return nil, err
		}
		done.add(m.Close)
		all = append(all, managed(m))
	}
	return all, nil
}

func openLocker(redisURL, prefix string, done *closers) (*redislease.Locker, error) {
	config := redislease.Config{Prefix: prefix}
	client, err := redislease.Open(fmt.Sprintf("%s?pool_size=%d", redisURL, poolSize), config)
	if err != nil {
		return nil, err
	}
	done.add(client.Close)
	return redislease.New(client, config)
}

func managed(m *lease.Manager) acquire {
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		held, err := m.Acquire(ctx, lease.Request{Name: name, Principal: "bench", TTL: ttl, Wait: time.Minute})
		if err != nil {
			return nil, err
		}
		ref := lease.Ref{Name: name, Principal: "bench", ID: held.ID}
		return func(ctx context.Context) error { return m.Release(ctx, ref) }, nil
	}
}

// bare is the locker alone, which is only asked for leases that nobody holds.
func bare(locker lease.Locker) acquire {
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		var value fence.Digest
		rand.Read(value[:])
		standing, err := locker.Enter(ctx, name, lease.Entry{Value: value, Holder: "bench", TTL: ttl})
		if err != nil {
			return nil, err
		}
		if standing.Value != value {
			return nil, errors.New("somebody else holds the lease")
		}
		return func(ctx context.Context) error {
			dropped, err := locker.Drop(ctx, name, value)
			if err == nil && !dropped.Had {
				err = errors.New("the lease was not held")
			}
			return err
		}, nil
	}
}

// poolSize is how many connections each client of go-redis may have, ours and the peers': one for each worker.
const poolSize = 64

func openRedis(address string, done *closers) redis.UniversalClient {
	client := redis.NewClient(&redis.Options{Addr: address, PoolSize: poolSize})
	done.add(client.Close)
	return client
}
