package s3api

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/lease"
)

const deleteHolder = "S3 delete"

// waiting returns when a request that takes leases for its deletes ceases to wait for them, which is the same for all that it takes.
func (c *call) waiting() time.Time { return time.Now().Add(c.cfg.DeleteWait) }

// underLease takes a lease, in its turn among those that wait for it, and calls do with a token of it. That one token serves any number of
// resources; the error is that of do, or why the lease was not taken.
func (c *call) underLease(until time.Time, name string, by fence.Access, do func(fence.Access) error) error {
	if !c.caller.May(gateway.Action{Verb: gateway.VerbLease, Lease: name}) {
		return fence.Errorf(fence.CodeForbidden, "this principal may not take the lease %s, which a delete without a token needs", name)
	}
	if err := c.cfg.Shared.AdmitGrant(c.r.Context(), by.Principal); err != nil {
		return err
	}
	// A client that leaves gives up its place in the queue.
	ctx, cancel := context.WithTimeout(c.r.Context(), c.cfg.DeleteWait+c.cfg.WriteTimeout)
	defer cancel()
	held, err := c.cfg.Leases.Acquire(ctx, lease.Request{
		Name: name, Principal: by.Principal, Holder: deleteHolder, TTL: c.cfg.DeleteTTL, Wait: max(0, time.Until(until)),
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := c.detached(c.cfg.WriteTimeout)
		defer cancel()
		// What was deleted stays deleted, and the lease runs out by itself.
		_ = c.cfg.Leases.Release(ctx, lease.Ref{Name: held.Lease, Principal: by.Principal, ID: held.ID})
	}()
	by.Token = held.First()
	return do(by)
}
