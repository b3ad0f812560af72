package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/etcdlease"
	"github.com/fencegate/fencegate/lease/pglease"
	"github.com/fencegate/fencegate/lease/redislease"
)

// lockerPlace says which system keeps the leases, and where it is. What is promised of tokens is the same for all: PostgreSQL
// certifies.
type lockerPlace struct {
	Locker     string `enum:"redis,postgres,etcd" default:"redis" help:"What keeps the leases: redis, postgres (the ledger's database) or etcd. All gateways of a deployment name the same."`
	EtcdURL    string `name:"etcd-url" secret:"" placeholder:"URL" help:"etcd that keeps the leases: etcd://HOST:PORT[,HOST:PORT…] or etcds://; for --locker=etcd."`
	EtcdPrefix string `name:"etcd-prefix" placeholder:"PREFIX" help:"Prefix of the keys in etcd. Defaults to fencegate: and the id of the ledger."`
	ListenURL  string `name:"listen-url" secret:"" placeholder:"URL" help:"The ledger's database without a pooler in between, for --locker=postgres with --pgbouncer: one session listens there. Without it those that wait look every 100 ms."`
}

// lockerFlags are the place, and how many may wait.
type lockerFlags struct {
	lockerPlace
	LeaseQueue  int `default:"1000" help:"How many acquires may wait for one lease at this gateway; further ones are told 429."`
	LeaseWaiter int `name:"lease-waiters" default:"10000" help:"How many acquires may wait for all leases together at this gateway."`
}

func (f lockerFlags) validate(redisURL string) error {
	switch {
	case f.Locker == "redis" && redisURL == "":
		return errors.New("--locker=redis needs --redis-url")
	case f.Locker == "etcd" && f.EtcdURL == "":
		return errors.New("--locker=etcd needs --etcd-url")
	case f.Locker != "etcd" && (f.EtcdURL != "" || f.EtcdPrefix != ""):
		return errors.New("--etcd-url and --etcd-prefix are for --locker=etcd")
	case f.Locker != "postgres" && f.ListenURL != "":
		return errors.New("--listen-url is for --locker=postgres")
	case f.LeaseQueue < 1 || f.LeaseWaiter < 1:
		return errors.New("--lease-queue and --lease-waiters must be positive")
	}
	return nil
}

// openers has a row for each locker.
func (a *assembly) openers() map[string]func(parts, *telemetry) (lease.Locker, error) {
	return map[string]func(parts, *telemetry) (lease.Locker, error){
		"":         a.openRedis, // fencegate dev
		"redis":    a.openRedis,
		"postgres": a.openPostgres,
		"etcd":     a.openEtcd,
	}
}

// openLeases opens the locker, and a manager on it. The manager is closed first.
func (a *assembly) openLeases(p parts, tell *telemetry) error {
	locker, err := a.openers()[p.locker.Locker](p, tell)
	if err != nil {
		return err
	}
	if a.manager, err = lease.NewManager(locker, a.store, lease.Config{MaxQueue: p.locker.LeaseQueue, MaxWaiting: p.locker.LeaseWaiter}); err != nil {
		return err
	}
	a.closers = append(a.closers, a.manager.Close)
	return nil
}

func (a *assembly) openRedis(p parts, tell *telemetry) (_ lease.Locker, err error) {
	cfg := redislease.Config{Prefix: a.prefix, CallTimeout: p.backends.RedisTimeout}
	if a.redis, err = redislease.Open(p.redisURL, cfg); err != nil {
		return nil, err
	}
	a.closers = append(a.closers, a.redis.Close)
	if err := tell.traces.redis(a.redis); err != nil {
		return nil, err
	}
	return redislease.New(a.redis, cfg)
}

func (a *assembly) openPostgres(p parts, tell *telemetry) (lease.Locker, error) {
	l, err := pglease.Open(pglease.Config{
		URL: p.databaseURL, Pooled: p.backends.PgBouncer, ListenURL: p.locker.ListenURL, Tracer: tell.traces.database(),
	})
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, func() error { l.Close(); return nil })
	return l, nil
}

func (a *assembly) openEtcd(p parts, _ *telemetry) (lease.Locker, error) {
	l, err := etcdlease.Open(p.locker.EtcdURL, etcdlease.Config{Prefix: cmp.Or(p.locker.EtcdPrefix, "fencegate:"+a.ledgerID)})
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, l.Close)
	return l, nil
}

// pingLocker tells why leases cannot be had at present.
func (a *assembly) pingLocker(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if a.redis != nil {
		return a.redis.Ping(ctx).Err()
	}
	_, err := a.manager.Inspect(ctx, "fencegate serve")
	if err != nil && fence.CodeOf(err) != fence.CodeNotFound {
		return fmt.Errorf("look at a lease: %w", err)
	}
	return nil
}

// redisStats are nothing where no Redis keeps the leases.
func (a *assembly) redisStats() *redis.PoolStats {
	if a.redis == nil {
		return &redis.PoolStats{}
	}
	return a.redis.PoolStats()
}

func lockerName(locker string) string {
	return map[string]string{"redis": "Redis", "postgres": "PostgreSQL", "etcd": "etcd"}[locker]
}
