package gateway

import (
	"context"
	"errors"

	"github.com/fencegate/fencegate/fence"
)

// rename copies an object and deletes its source, in one commit. One token can only be one lease's, so both keys must have the same.
func (g *Gateway) rename(ctx context.Context, w fence.ObjectWrite) (fence.Object, error) {
	if g.cfg.Commits == nil {
		return fence.Object{}, fence.Errorf(fence.CodeInvalidRequest, "this gateway takes no commits, and so cannot rename").In("rename")
	}
	to, err := g.cfg.Objects.ObjectMark(ctx, w.Object)
	if err != nil {
		return fence.Object{}, err
	}
	from, err := g.cfg.Objects.ObjectMark(ctx, w.From.Object)
	if err != nil {
		return fence.Object{}, withField(err, "rename")
	}
	if to.Lease != from.Lease {
		return fence.Object{}, withState(fence.Errorf(fence.CodeInvalidRequest,
			"an object is renamed under one lease, and the two keys have %s and %s: copy it, then delete the old one", from.Lease, to.Lease).In("rename"), to)
	}
	gone := fence.ObjectWrite{Op: fence.OpDelete, Object: w.From.Object, Access: w.Access}
	done, err := g.cfg.Commits.Commit(ctx, fence.Commit{Principal: w.Principal, As: w.As, Writes: []fence.CommitWrite{{Object: &w}, {Object: &gone}}})
	if err != nil {
		var e *fence.Error
		if errors.As(err, &e) {
			e.Write = 0 // to the client there is one
		}
		return fence.Object{}, err
	}
	o := *done.Results[0].Object
	o.Replayed = done.Replayed
	return o, nil
}
