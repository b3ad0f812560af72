package stores

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/fence"
)

// Committer carries several writes out in one transaction of the ledger.
type Committer interface {
	Commit(ctx context.Context, c fence.Commit) (fence.Committed, error)
}

// Commits is a Committer whose objects may lie in their buckets under their own keys.
type Commits struct {
	objects *Objects
	to      Committer
}

// Commits returns a Committer before another one.
func (o *Objects) Commits(to Committer) *Commits { return &Commits{objects: o, to: to} }

// commitLooks bounds how many keys of a commit the store is asked for at once.
const commitLooks = 8

// Commit looks up what the ledger cannot know, and carries the commit out.
func (c *Commits) Commit(ctx context.Context, commit fence.Commit) (fence.Committed, error) {
	for i, w := range commit.Writes {
		if w.Object == nil {
			continue
		}
		if err := c.objects.checkKey(*w.Object); err != nil {
			var e *fence.Error
			if errors.As(err, &e) {
				e.Write = i + 1
			}
			return fence.Committed{}, err
		}
	}
	if err := c.adopt(ctx, commit); err != nil {
		return fence.Committed{}, err
	}
	if c.objects.naturals == nil {
		return c.to.Commit(ctx, commit)
	}
	commit.Writes = slices.Clone(commit.Writes)
	taken, err := c.lookUp(ctx, commit)
	if err != nil {
		c.giveUp(ctx, taken)
		return fence.Committed{}, err
	}
	done, err := c.to.Commit(ctx, commit)
	if err != nil && fence.CodeOf(err) != fence.CodeOutcomeUnknown || done.Replayed {
		c.giveUp(ctx, taken)
	}
	return done, err
}

func (c *Commits) giveUp(ctx context.Context, blobs []string) {
	for _, id := range blobs {
		c.objects.abort(ctx, id)
	}
}

// lookUp finds the natural objects among those that are written, and copies those that are copied from to blobs, which it returns.
func (c *Commits) lookUp(ctx context.Context, commit fence.Commit) (taken []string, err error) {
	unknown, err := c.unknown(ctx, commit)
	if err != nil || len(unknown) == 0 {
		return nil, err
	}
	blobs := make([]string, len(commit.Writes))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(commitLooks)
	for i := range commit.Writes {
		w := &commit.Writes[i]
		if w.Object == nil {
			continue
		}
		all.Go(func() error {
			write := *w.Object
			w.Object = &write
			if err := c.lookUpOne(ctx, commit, w, unknown); err != nil {
				var e *fence.Error
				if errors.As(err, &e) {
					e.Write = i + 1
				}
				return err
			}
			blobs[i] = w.Taken
			return nil
		})
	}
	err = all.Wait()
	return slices.DeleteFunc(blobs, func(id string) bool { return id == "" }), err
}

func (c *Commits) lookUpOne(ctx context.Context, commit fence.Commit, w *fence.CommitWrite, unknown map[fence.ObjectName]bool) error {
	o := c.objects
	if name := w.Object.Object; unknown[name] {
		_, err := o.naturals.Stat(ctx, name.Bucket, name.Key)
		if w.Object.Natural = err == nil; err != nil && !errors.Is(err, ErrMissing) {
			return err
		}
	}
	if w.Object.Op != fence.OpCopy || w.Object.From.Version != 0 || !unknown[w.Object.From.Object] {
		return nil
	}
	from, err := o.Object(ctx, w.Object.From.Object, fence.Access{Principal: commit.Principal, As: commit.As})
	if err != nil || !from.Natural {
		return nil // the ledger tells
	}
	blob, err := o.take(ctx, from, commit.Principal)
	if err != nil {
		return err
	}
	w.Taken = blob.ID
	header := w.Object.Header
	if w.Object.KeepHeader {
		header = from.Header
	}
	return o.ledger.KeepBlob(ctx, blob, header)
}

// unknown are the objects of a commit that may be natural.
func (c *Commits) unknown(ctx context.Context, commit fence.Commit) (map[fence.ObjectName]bool, error) {
	keys := map[string][]string{}
	for _, w := range commit.Writes {
		if w.Object == nil {
			continue
		}
		keys[w.Object.Object.Bucket] = append(keys[w.Object.Object.Bucket], w.Object.Object.Key)
		if from := w.Object.From.Object; w.Object.Op == fence.OpCopy {
			keys[from.Bucket] = append(keys[from.Bucket], from.Key)
		}
	}
	unknown := map[fence.ObjectName]bool{}
	for bucket, keys := range keys {
		bindings, err := c.objects.ledger.Bindings(ctx, bucket)
		if fence.CodeOf(err) == fence.CodeNotFound {
			continue // as the ledger will say of the write
		} else if err != nil {
			return nil, err
		}
		known, err := c.objects.ledger.KnownKeys(ctx, bucket, keys)
		if err != nil {
			return nil, err
		}
		l := &listing{Objects: c.objects, bindings: bindings}
		for _, key := range keys {
			if l.existing(key) && !slices.Contains(known, key) {
				unknown[fence.ObjectName{Bucket: bucket, Key: key}] = true
			}
		}
	}
	return unknown, nil
}
