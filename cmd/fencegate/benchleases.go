package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/lease"
)

// benchHolder is whom others see.
const benchHolder = "fencegate bench"

// heldLeases are kept until they are closed, also after the caller's context has ended: the last writes need them.
type heldLeases struct {
	client *client.Client
	stop   context.CancelFunc
	atOnce int
	mu     sync.Mutex
	byName map[string]*lease.Kept // guarded by mu
}

// holdLeases takes the leases of resources; those that share one share its grant. It takes none from anybody.
func holdLeases(ctx context.Context, a *api, resources []*benchResource, atOnce int) (*heldLeases, error) {
	cl, err := client.New(client.Config{URL: a.url, AuthToken: a.auth, HTTP: a.client, Timeout: 10 * time.Second, MaxTries: 3})
	if err != nil {
		return nil, err
	}
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	h := &heldLeases{client: cl, stop: stop, atOnce: atOnce, byName: make(map[string]*lease.Kept)}
	keeper := lease.Keeper{Leases: cl, Holder: benchHolder}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	names := make(map[string]bool)
	for _, r := range resources {
		if names[r.lease] {
			continue
		}
		names[r.lease] = true
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			kept, err := keeper.Keep(keep, r.lease)
			if err != nil {
				return fmt.Errorf("acquire the lease %s: %w", shownName(r.lease), err)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.byName[r.lease] = kept
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, h.close())
	}
	for _, r := range resources {
		r.held = h.byName[r.lease]
	}
	return h, nil
}

// close gives all of them back. Those that cannot be run out by themselves.
func (h *heldLeases) close() error {
	defer h.stop()
	var group errgroup.Group
	group.SetLimit(h.atOnce)
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, kept := range h.byName {
		group.Go(func() error {
			if err := kept.Close(); err != nil {
				return fmt.Errorf("release the lease %s: %w", shownName(name), err)
			}
			return nil
		})
	}
	return group.Wait()
}
