package stores

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fencegate/fencegate/fence"
)

// Object reads an object's pointer and mark. A key that the ledger does not know may be that of an object which lies in the bucket.
func (o *Objects) Object(ctx context.Context, name fence.ObjectName, by fence.Access) (fence.Object, error) {
	obj, err := o.ledger.Object(ctx, name, by)
	if fence.CodeOf(err) != fence.CodeNotFound || !o.mayBeNatural(obj) {
		return obj, err
	}
	n, statErr := o.naturals.Stat(ctx, name.Bucket, name.Key)
	switch {
	case errors.Is(statErr, ErrMissing):
		return fence.Object{}, err
	case statErr != nil:
		return fence.Object{}, statErr
	}
	obj.Natural, obj.Size, obj.ETag, obj.Header, obj.ModifiedAt = true, n.Size, n.ETag, n.Header, n.ModifiedAt
	return obj, nil
}

// mayBeNatural tells whether the bucket is to be asked for the key itself: it is protected, and the ledger does not know it.
func (o *Objects) mayBeNatural(obj fence.Object) bool {
	return o.naturals != nil && obj.Lease != "" && !obj.Written && obj.Options.Existing
}

func natural(obj fence.Object) Natural {
	return Natural{Key: obj.Key, Size: obj.Size, ETag: obj.ETag, ModifiedAt: obj.ModifiedAt, Header: obj.Header}
}

// open reads from where the object's body is.
func (o *Objects) open(ctx context.Context, obj fence.Object, offset, length int64) (io.ReadCloser, error) {
	if !obj.Natural {
		return o.blobs.Open(ctx, obj.BlobBucket, obj.Blob, offset, length)
	}
	r, err := o.naturals.OpenNatural(ctx, obj.Bucket, natural(obj), offset, length)
	if errors.Is(err, ErrChanged) || errors.Is(err, ErrMissing) {
		return nil, fence.Wrap(fence.CodeContention, err, "the object was replaced past the gateway while it was read")
	}
	return r, err
}

// Version reads a state of the object that is kept, by the token under which it was published.
func (o *Objects) Version(ctx context.Context, name fence.ObjectName, by fence.Access, version fence.Token) (fence.Object, error) {
	return o.ledger.Version(ctx, name, by, version)
}

// History lists states of an object, newest first.
func (o *Objects) History(ctx context.Context, name fence.ObjectName, before fence.Token, limit int) ([]fence.ObjectVersion, error) {
	return o.ledger.History(ctx, name, before, limit)
}

// copyObject points the object to its source's body. One that lies in the bucket under its own key is copied to a blob first, within
// the store.
func (o *Objects) copyObject(ctx context.Context, w fence.ObjectWrite) (fence.Object, error) {
	obj, err := o.ledger.CopyObject(ctx, w)
	var e *fence.Error
	if !errors.As(err, &e) || e.Code != fence.CodeNotFound || e.Field != fieldFrom || w.From.Version != 0 {
		return obj, err
	}
	from, readErr := o.Object(ctx, w.From.Object, fence.Access{Principal: w.Principal, As: w.As})
	switch {
	case fence.CodeOf(readErr) == fence.CodeNotFound:
		return obj, err
	case readErr != nil:
		return obj, readErr
	case !from.Natural: // it was written in between
		return o.ledger.CopyObject(ctx, w)
	}
	blob, err := o.take(ctx, from, w.Principal)
	if err != nil {
		return obj, err
	}
	if w.KeepHeader {
		w.Header = from.Header
	}
	return o.publish(ctx, w, blob)
}

const fieldFrom = "from"

// take copies a natural object to a blob.
func (o *Objects) take(ctx context.Context, from fence.Object, principal string) (fence.Blob, error) {
	id, err := o.ledger.BeginBlob(ctx, from.Bucket, principal)
	if err != nil {
		return fence.Blob{}, fmt.Errorf("begin blob: %w", err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, o.cfg.UploadLimit, errUploadLimit)
	defer cancel()
	if err := o.naturals.Take(limited, from.Bucket, natural(from), id); err != nil {
		o.abort(ctx, id)
		switch {
		case errors.Is(err, ErrMissing), errors.Is(err, ErrChanged):
			return fence.Blob{}, fence.Wrap(fence.CodeContention, err, "the object was replaced past the gateway while it was copied")
		case context.Cause(limited) == errUploadLimit:
			return fence.Blob{}, fence.Wrap(fence.CodeUploadExpired, err, "the object was not copied within %v", o.cfg.UploadLimit)
		}
		return fence.Blob{}, err
	}
	return fence.Blob{ID: id, Size: from.Size, ETag: from.ETag}, nil
}
