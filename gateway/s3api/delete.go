package s3api

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

const (
	maxDeletes = 1000
	// deletesAtOnce bounds what one request may ask of the ledger at a time.
	deletesAtOnce = 8
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
	var done fence.Object
	remove := func(by fence.Access) error {
		o, err := c.delete(c.name, by, cond)
		done = o
		return err
	}
	if by.Token != 0 {
		err = remove(by)
	} else if lease, found := c.leaseToDelete(c.name, by, cond); lease != "" {
		err = c.underLease(c.waiting(), lease, by, remove)
	} else {
		err = found
	}
	if err == nil && done.Resource != "" {
		c.done(done)
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
	for i, err := range c.deleteEach(bucket, named, by) {
		n := named[i]
		if err == nil {
			answer.Deleted = append(answer.Deleted, types.DeletedObject{Key: n.Key})
			continue
		}
		if left := c.r.Context().Err(); left != nil && errors.Is(err, left) {
			return answer, left // there is nobody to tell, and nothing was refused
		}
		told := c.fail(err).(s3err.S3Error).BaseError()
		c.cfg.Shared.Refused(c.w, c.r, gateway.Refusal{Caller: c.caller, Verb: c.verb, Status: told.HTTPStatusCode, Err: c.err})
		answer.Error = append(answer.Error, types.Error{Key: n.Key, VersionId: n.VersionId, Code: &told.Code, Message: &told.Description})
	}
	return answer, nil
}

// deleteEach deletes objects and returns what became of each. Those that need their lease taken are told apart by it first: keys that share one
// are deleted under one grant, instead of finding it held by each other.
func (c *call) deleteEach(bucket string, named []types.ObjectIdentifier, by fence.Access) []error {
	outcomes, leases := make([]error, len(named)), make([]string, len(named))
	name := func(i int) fence.ObjectName { return fence.ObjectName{Bucket: bucket, Key: deref(named[i].Key)} }
	all := make([]int, len(named))
	for i := range all {
		all[i] = i
	}
	each(all, deletesAtOnce, outcomes, func(i int) error {
		if err := c.mayDelete(name(i), deref(named[i].VersionId)); err != nil {
			return err
		}
		if by.Token != 0 {
			_, err := c.delete(name(i), by, fence.Condition{})
			return err
		}
		var err error
		leases[i], err = c.leaseToDelete(name(i), by, fence.Condition{})
		return err
	})
	shared := map[string][]int{}
	var first []int // of each lease
	for i, lease := range leases {
		if lease == "" {
			continue
		}
		if len(shared[lease]) == 0 {
			first = append(first, i)
		}
		shared[lease] = append(shared[lease], i)
	}
	wait := c.waiting()
	each(first, deletesAtOnce, outcomes, func(i int) error {
		keys := shared[leases[i]]
		err := guarded(func() error {
			return c.underLease(wait, leases[i], by, func(by fence.Access) error {
				each(keys, max(1, deletesAtOnce/len(first)), outcomes, func(i int) error {
					_, err := c.delete(name(i), by, fence.Condition{})
					return err
				})
				return nil
			})
		})
		if err != nil { // no key was tried, or it is not known
			for _, k := range keys {
				outcomes[k] = err
			}
		}
		return outcomes[i]
	})
	return outcomes
}

// each calls do for each of some numbers, so many at once, and keeps what it returns under them. A panic is the outcome of the one that it came
// from: here it would end the process.
func each(numbers []int, atOnce int, outcomes []error, do func(int) error) {
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, i := range numbers {
		all.Go(func() error {
			outcomes[i] = guarded(func() error { return do(i) })
			return nil
		})
	}
	_ = all.Wait() // each has its outcome
}

// guarded makes of a panic an error whose outcome is not known.
func guarded(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = gateway.Settled(fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
		}
	}()
	return do()
}

func (c *call) mayDelete(name fence.ObjectName, version string) error {
	if err := fence.CheckObjectKey(name.Key); err != nil {
		return err
	}
	if err := c.may(gateway.VerbWrite, name); err != nil {
		return err
	}
	if version != "" && version != "null" {
		return notImplemented("a delete of one version")
	}
	return nil
}

// delete deletes an object under a token. What is not there is deleted, to S3's clients, unless it had to be there.
func (c *call) delete(name fence.ObjectName, by fence.Access, cond fence.Condition) (fence.Object, error) {
	ctx, cancel := c.detached(c.cfg.WriteTimeout)
	defer cancel()
	o, err := c.cfg.Objects.WriteObject(ctx, fence.ObjectWrite{Op: fence.OpDelete, Object: name, Access: by, If: cond})
	if gone(err, cond) {
		return fence.Object{}, nil
	}
	return o, gateway.Settled(err)
}

// gone tells that an object is not there, though it is protected, and that it need not be.
func gone(err error, cond fence.Condition) bool {
	if fence.CodeOf(err) != fence.CodeNotFound || cond.Exists || cond.Match != nil {
		return false
	}
	e := asError(err)
	return e.State != nil && e.State.Lease != ""
}

// leaseToDelete names the lease that is to be taken for a delete without a token: most of S3's clients cannot send one with a delete, so that a
// bucket may have it so. It names none where there is nothing to delete, or an error.
func (c *call) leaseToDelete(name fence.ObjectName, by fence.Access, cond fence.Condition) (string, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), c.cfg.WriteTimeout)
	defer cancel()
	o, err := c.cfg.Objects.Object(ctx, name, by)
	switch {
	case gone(err, cond):
		return "", nil
	case err != nil:
		return "", err
	case !o.Options.TakeLease:
		return "", errNoToken(o.State)
	}
	return o.Lease, nil
}
