package main

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// bsmRedislock asks every 2 ms: more often costs the server more than it gains.
func bsmRedislock(client redis.UniversalClient) acquire {
	locker := redislock.New(client)
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(2 * time.Millisecond)}
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		lock, err := locker.Obtain(ctx, "redislock:"+name, ttl, options)
		if err != nil {
			return nil, err
		}
		return lock.Release, nil
	}
}

// redsyncMutex asks every 1 to 3 ms, where its default is 50 to 250 ms.
func redsyncMutex(client redis.UniversalClient) acquire {
	rs := redsync.New(goredis.NewPool(client))
	delay := func(int) time.Duration { return time.Millisecond + rand.N(2*time.Millisecond) }
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		mutex := rs.NewMutex("redsync:"+name, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt32), redsync.WithRetryDelayFunc(delay))
		if err := mutex.LockContext(ctx); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			ok, err := mutex.UnlockContext(ctx)
			if err == nil && !ok {
				err = errors.New("the mutex was not held")
			}
			return err
		}, nil
	}
}

// rueidisLocker is set as its README advises for one server of Redis 7.
func rueidisLocker(address string) (acquire, func() error, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{address}},
		KeyMajority:    1,
		NoLoopTracking: true,
	})
	if err != nil {
		return nil, nil, err
	}
	take := func(ctx context.Context, name string) (func(context.Context) error, error) {
		_, release, err := locker.WithContext(ctx, name)
		if err != nil {
			return nil, err
		}
		return func(context.Context) error { release(); return nil }, nil
	}
	return take, func() error { locker.Close(); return nil }, nil
}
