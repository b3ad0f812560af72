package main

import (
	"cmp"
	"context"

	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/etcdlease"
	"github.com/fencegate/fencegate/lease/pglease"
)

// checkLocker takes a lease of its own in the system that keeps the leases, and gives it back.
func (c *doctorCmd) checkLocker(ctx context.Context, r *report, ledgerID string) {
	prefix := "fencegate:" + ledgerID
	switch what := "leases in " + lockerName(c.Locker); c.Locker {
	case "postgres":
		l, err := pglease.Open(pglease.Config{URL: c.DatabaseURL, Pooled: c.PgBouncer, ListenURL: c.ListenURL})
		if err == nil {
			defer l.Close()
		}
		checkLease(ctx, r, what, "in the ledger's database", l, err)
		if c.PgBouncer && c.ListenURL == "" {
			r.warn(what, "those that wait look every 100 ms: --listen-url, without a pooler in between, tells them")
		}
	case "etcd":
		prefix = cmp.Or(c.EtcdPrefix, prefix)
		l, err := etcdlease.Open(c.EtcdURL, etcdlease.Config{Prefix: prefix})
		if err == nil {
			defer l.Close()
		}
		checkLease(ctx, r, what, "below "+prefix, l, err)
	default:
		if c.RedisURL != "" {
			checkRedis(ctx, r, c.RedisURL, cmp.Or(c.RedisPrefix, prefix))
		}
	}
}

func checkLease(ctx context.Context, r *report, what, where string, l lease.Locker, err error) {
	if err != nil {
		r.fail(what, "%v", err)
		return
	}
	if err := tryLease(ctx, l); err != nil {
		r.fail(what, "a lease cannot be taken and given back: %v", err)
		return
	}
	r.ok(what, "a lease can be taken and given back, %s", where)
}
