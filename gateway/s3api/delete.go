package s3api

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/lease"
)

const (
	maxDeletes = 1000
	// deletesAtOnce bounds what one request may ask of the ledger at a time.
	deletesAtOnce = 8
	deleteHolder  = "S3 delete"
)

func (c *call) deleteObject(in *s3.DeleteObjectInput) error {
	if err := c.begin(*in.Bucket, *in.Key); err != nil {
		return err
	}
	if v := deref(in.VersionId); v != "" && v != "null" {
		return notImplemented("a delete of one version")
	}
	if in.IfMatchSize != nil || in.IfMatchLastModifiedTime != nil {
		return notImplemented("a delete with X-Amz-If-Match-*")
	}
	by, err := c.access()
	if err != nil {
		return err
	}
	cond, err := c.condition(by)
	if err != nil {
		return err
	}
	o, err := c.delete(c.name, by, cond)
	if err == nil && o.Resource != "" {
		c.done(o)
	}
	return err
}

// deleteObjects deletes objects, each by itself. What is refused is logged as if it had been asked for alone; the request counts as what became
// of the last that was refused.
func (c *call) deleteObjects(bucket string, named []types.ObjectIdentifier) (s3response.DeleteResult, error) {
	var answer s3response.DeleteResult
	if err := c.beginList(bucket, ""); err != nil {
		return answer, err
	}
	if len(named) > maxDeletes {
		return answer, s3err.GetAPIError(s3err.ErrMalformedXML)
	}
	by, err := c.access()
	if err != nil {
		return answer, err
	}
	outcomes := make([]error, len(named))
	var all errgroup.Group
	all.SetLimit(deletesAtOnce)
	for i, n := range named {
		all.Go(func() error {
			outcomes[i] = c.deleteOne(fence.ObjectName{Bucket: bucket, Key: deref(n.Key)}, deref(n.VersionId), by)
			return nil
		})
	}
	_ = all.Wait() // each says in the answer what became of it
	for i, n := range named {
		if outcomes[i] == nil {
			answer.Deleted = append(answer.Deleted, types.DeletedObject{Key: n.Key})
			continue
		}
		told := c.fail(outcomes[i]).(s3err.S3Error).BaseError()
		c.cfg.Shared.Refused(c.w, c.r, gateway.Refusal{Caller: c.caller, Verb: c.verb, Status: told.HTTPStatusCode, Err: c.err})
		answer.Error = append(answer.Error, types.Error{Key: n.Key, VersionId: n.VersionId, Code: &told.Code, Message: &told.Description})
	}
	return answer, nil
}

func (c *call) deleteOne(name fence.ObjectName, version string, by fence.Access) error {
	if err := fence.CheckObjectKey(name.Key); err != nil {
		return err
	}
	if err := c.may(gateway.VerbWrite, name); err != nil {
		return err
	}
	if version != "" && version != "null" {
		return notImplemented("a delete of one version")
	}
	_, err := c.delete(name, by, fence.Condition{})
	return err
}

// delete deletes an object. What is not there is deleted, to S3's clients. Most of those cannot send a token with a delete, so that a bucket may
// have it that the lease is taken for them.
func (c *call) delete(name fence.ObjectName, by fence.Access, cond fence.Condition) (fence.Object, error) {
	ctx, cancel := c.detached(c.cfg.WriteTimeout)
	defer cancel()
	if by.Token == 0 {
		o, err := c.cfg.Objects.Object(ctx, name, by)
		switch {
		case gone(err):
			return fence.Object{}, nil
		case err != nil:
			return fence.Object{}, err
		case !o.Options.TakeLease:
			return fence.Object{}, errNoToken(o.State)
		}
		held, err := c.takeLease(ctx, o.Lease)
		if err != nil {
			return fence.Object{}, err
		}
		// What was deleted stays deleted, and the lease runs out by itself.
		defer func() {
			_ = c.cfg.Leases.Release(ctx, lease.Ref{Name: held.Lease, Principal: by.Principal, ID: held.ID})
		}()
		by.Token = held.First()
	}
	o, err := c.cfg.Objects.WriteObject(ctx, fence.ObjectWrite{Op: fence.OpDelete, Object: name, Access: by, If: cond})
	if gone(err) && !cond.Exists && cond.Match == nil {
		return fence.Object{}, nil
	}
	return o, gateway.Settled(err)
}

// gone tells that an object is not there, though it is protected.
func gone(err error) bool {
	if fence.CodeOf(err) != fence.CodeNotFound {
		return false
	}
	e := asError(err)
	return e.State != nil && e.State.Lease != ""
}

// takeLease takes the lease of an object for a delete, if its caller may.
func (c *call) takeLease(ctx context.Context, name string) (*lease.Held, error) {
	if !c.caller.May(gateway.Action{Verb: gateway.VerbLease, Lease: name}) {
		return nil, fence.Errorf(fence.CodeForbidden, "this principal may not take the lease %s, which a delete without a token needs", name)
	}
	if err := c.cfg.Shared.AdmitGrant(ctx, c.caller.Principal()); err != nil {
		return nil, err
	}
	held, err := c.cfg.Leases.Acquire(ctx, lease.Request{Name: name, Principal: c.caller.Principal(), Holder: deleteHolder, TTL: c.cfg.DeleteTTL})
	if err != nil {
		return nil, err
	}
	return held, nil
}
