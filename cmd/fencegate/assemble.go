package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/redislease"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/dirstore"
	"github.com/fencegate/fencegate/stores/pgstore"
	"github.com/fencegate/fencegate/stores/s3store"
)

// The backends know nothing of the interfaces they serve; what is wired here must fit.
var (
	_ lease.Ledger      = (*pgstore.Store)(nil)
	_ stores.Pointers   = (*pgstore.Store)(nil)
	_ gateway.Rows      = (*pgstore.Store)(nil)
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
	limits                limitFlags
	collect               collectFlags
	log                   *slog.Logger
	// loopbackOnly is for gateways that ask nobody who he is; authenticate is nil for them.
	loopbackOnly bool
	authenticate func(*http.Request) (gateway.Caller, error)
}

// assembly is a gateway with what stands behind it.
type assembly struct {
	*gateway.Gateway
	store     *pgstore.Store
	collector *stores.Collector
	log       *slog.Logger
	closers   []func() error
}

// assemble wires the backends into a gateway. The ledger must have been migrated: its id names the keys in Redis.
func assemble(ctx context.Context, p parts) (_ *assembly, err error) {
	a := &assembly{log: p.log}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.store, err = pgstore.Open(pgstore.Config{URL: p.databaseURL, LockTimeout: p.backends.LockTimeout}); err != nil {
		return nil, err
	}
	a.closers = append(a.closers, func() error { a.store.Close(); return nil })
	id, err := a.store.LedgerID(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	leases, err := a.leases(p, cmp.Or(p.backends.RedisPrefix, "fencegate:"+id))
	if err != nil {
		return nil, err
	}
	blobs, err := a.blobs(p)
	if err != nil {
		return nil, err
	}
	objects, err := stores.NewObjects(a.store, blobs, stores.ObjectsConfig{
		MaxSize: p.limits.MaxObject, UploadLimit: p.limits.UploadLimit, DownloadLimit: p.limits.DownloadLimit,
	})
	if err != nil {
		return nil, err
	}
	if a.collector, err = stores.NewCollector(a.store, blobs, p.collect.collector(p.limits, p.log)); err != nil {
		return nil, err
	}
	cfg := p.limits.gateway()
	cfg.Leases, cfg.Rows, cfg.Objects, cfg.Readiness = leases, a.store, objects, a.store
	cfg.LoopbackOnly, cfg.Authenticate, cfg.Log = p.loopbackOnly, p.authenticate, p.log
	a.Gateway, err = gateway.New(cfg)
	return a, err
}

func (a *assembly) leases(p parts, prefix string) (*lease.Manager, error) {
	cfg := redislease.Config{Prefix: prefix, CallTimeout: p.backends.RedisTimeout}
	client, err := redislease.Open(p.redisURL, cfg)
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, client.Close)
	locker, err := redislease.New(client, cfg)
	if err != nil {
		return nil, err
	}
	return lease.NewManager(locker, a.store, lease.Config{})
}

func (a *assembly) blobs(p parts) (stores.Blobs, error) {
	if p.s3.S3Endpoint != "" {
		s3, err := s3store.New(p.s3.store())
		if err != nil {
			return nil, err
		}
		a.closers = append(a.closers, s3.Close)
		return s3, nil
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
