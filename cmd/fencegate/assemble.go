package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/dirstore"
	"github.com/fencegate/fencegate/stores/pgstore"
	"github.com/fencegate/fencegate/stores/s3store"
)

// The backends know nothing of the interfaces they serve; what is wired here must fit.
var (
	_ lease.Ledger      = (*pgstore.Store)(nil)
	_ stores.Ledger     = (*pgstore.Store)(nil)
	_ stores.Dump       = (*pgstore.Store)(nil)
	_ gateway.Rows      = (*pgstore.Store)(nil)
	_ stores.Committer  = (*pgstore.Store)(nil)
	_ gateway.Commits   = (*stores.Commits)(nil)
	_ gateway.Events    = (*pgstore.Store)(nil)
	_ gateway.Catalogue = (*pgstore.Store)(nil)
	_ gateway.Readiness = (*pgstore.Store)(nil)
	_ gateway.Objects   = (*stores.Objects)(nil)
	_ gateway.Leases    = (*lease.Manager)(nil)
)

// parts says what a gateway is made of.
type parts struct {
	databaseURL, redisURL string
	blobDir               string // unless s3 has an endpoint
	s3                    s3Flags
	backends              backendFlags
	locker                lockerFlags
	limits                limitFlags
	events                eventFlags
	rates                 rateFlags
	collect               collectFlags
	log                   *slog.Logger
	telemetry             *telemetry // nil if nobody wants any
	// loopbackOnly is for gateways that ask nobody who he is; authenticate is nil for them.
	loopbackOnly bool
	authenticate func(*http.Request) (gateway.Caller, error)
	// logins counts the requests that authenticate refused, and those it did not look at; nil if it does not.
	logins func() (failed, limited uint64)
	s3Keys s3Keys // nil without an S3 front
}

var _ lease.ExpiryNoter = (*pgstore.Store)(nil) // else the ends of leases would be told late

// assembly is a gateway with what stands behind it.
type assembly struct {
	*gateway.Gateway
	store     *pgstore.Store
	redis     redis.UniversalClient // nil unless Redis keeps the leases
	manager   *lease.Manager
	ledgerID  string
	prefix    string         // of the keys in Redis
	s3        *s3store.Store // nil when blobs are in a directory
	s3Front   http.Handler   // nil without
	collector *stores.Collector
	logins    func() (failed, limited uint64)
	log       *slog.Logger
	closers   []func() error
}

// assemble wires the backends into a gateway. The ledger must have been migrated: its id names the keys in Redis.
func assemble(ctx context.Context, p parts) (_ *assembly, err error) {
	a := &assembly{log: p.log, logins: p.logins}
	tell := cmp.Or(p.telemetry, &telemetry{})
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.store, err = pgstore.Open(pgstore.Config{
		URL: p.databaseURL, LockTimeout: p.backends.LockTimeout, Lanes: p.backends.lanes(), Pooled: p.backends.PgBouncer, Tracer: tell.traces.database(),
	}); err != nil {
		return nil, err
	}
	a.closers = append(a.closers, func() error { a.store.Close(); return nil })
	id, err := a.store.LedgerID(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	a.ledgerID, a.prefix = id, cmp.Or(p.backends.RedisPrefix, "fencegate:"+id)
	if err := a.openLeases(p, tell); err != nil {
		return nil, err
	}
	blobs, err := a.blobs(p, tell)
	if err != nil {
		return nil, err
	}
	objects, err := stores.NewObjects(a.store, blobs, stores.ObjectsConfig{
		MaxSize: p.limits.MaxObject, UploadLimit: p.limits.UploadLimit, DownloadLimit: p.limits.DownloadLimit,
	})
	if err != nil {
		return nil, err
	}
	collect := p.collect.collector(p.limits, p.log)
	if tell.metrics != nil {
		collect.Observe = tell.metrics.Swept
	}
	if a.collector, err = stores.NewCollector(a.store, blobs, collect); err != nil {
		return nil, err
	}
	cfg := p.limits.gateway()
	cfg.Events, cfg.MaxStreams, cfg.MaxStreamsEach = a.store, p.events.MaxEventStreams, p.events.MaxEventStreamsEach
	if err := a.limit(ctx, &cfg, p); err != nil {
		return nil, err
	}
	cfg.Leases, cfg.Rows, cfg.Objects, cfg.Commits, cfg.Readiness = a.manager, a.store, objects, objects.Commits(a.store), a.store
	cfg.Catalogue = a.store
	cfg.LoopbackOnly, cfg.Authenticate, cfg.Log = p.loopbackOnly, p.authenticate, p.log
	tell.instrument(&cfg)
	if a.Gateway, err = gateway.New(cfg); err != nil {
		return nil, err
	}
	if p.s3Keys != nil {
		if a.s3Front, err = newS3Front(a.Gateway, objects, a.manager, p.s3Keys, p.limits); err != nil {
			return nil, err
		}
	}
	tell.watch(a)
	return a, nil
}

func (a *assembly) blobs(p parts, tell *telemetry) (stores.Blobs, error) {
	if p.s3.S3Endpoint != "" {
		cfg := p.s3.store()
		cfg.Tracer = tell.traces.s3()
		var err error
		if a.s3, err = s3store.New(cfg); err != nil {
			return nil, err
		}
		a.closers = append(a.closers, a.s3.Close)
		return a.s3, nil
	}
	dir, err := dirstore.New(p.blobDir)
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, dir.Close)
	return dir, nil
}

// Close closes what assemble opened, last first.
func (a *assembly) Close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	return errors.Join(errs...)
}
