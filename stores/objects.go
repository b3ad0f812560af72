package stores

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/fence"
)

// ObjectsConfig tunes Objects.
type ObjectsConfig struct {
	// MaxSize is the length in bytes of the longest body. Defaults to 5 GiB.
	MaxSize int64
	// UploadLimit is how long storing one body may take. Defaults to 1 h.
	UploadLimit time.Duration
	// DownloadLimit is how long reading one body may take. Defaults to 1 h.
	DownloadLimit time.Duration
}

// The bounds that the collector's grace period is held against.
const (
	defaultUploadLimit   = time.Hour
	defaultDownloadLimit = time.Hour
)

const (
	defaultMaxSize = 5 << 30

	// abortTimeout bounds giving up an intent after a write came to nothing. When it does not succeed in time the
	// collector does it later.
	abortTimeout = 5 * time.Second
)

func (c ObjectsConfig) withDefaults() ObjectsConfig {
	c.MaxSize = cmp.Or(c.MaxSize, defaultMaxSize)
	c.UploadLimit = cmp.Or(c.UploadLimit, defaultUploadLimit)
	c.DownloadLimit = cmp.Or(c.DownloadLimit, defaultDownloadLimit)
	return c
}

func (c ObjectsConfig) validate() error {
	if c.MaxSize < 0 || c.UploadLimit < 0 || c.DownloadLimit < 0 {
		return fmt.Errorf("objects: the limits must be positive: size %d, upload %v, download %v", c.MaxSize, c.UploadLimit, c.DownloadLimit)
	}
	return nil
}

// Objects joins the ledger's pointers and a blob store.
type Objects struct {
	ledger Ledger
	blobs  Blobs
	// naturals is nil where the store has no objects but its own blobs.
	naturals Naturals
	// reserver is nil where the store keeps nothing of its own under keys of the bucket.
	reserver Reserver
	cfg      ObjectsConfig
}

// NewObjects returns Objects over a ledger and a blob store.
func NewObjects(l Ledger, b Blobs, cfg ObjectsConfig) (*Objects, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	naturals, _ := b.(Naturals)
	reserver, _ := b.(Reserver)
	return &Objects{ledger: l, blobs: b, naturals: naturals, reserver: reserver, cfg: cfg}, nil
}

// ObjectMark reads the mark of an object whether the object exists or not.
func (o *Objects) ObjectMark(ctx context.Context, name fence.ObjectName) (fence.State, error) {
	return o.ledger.ObjectMark(ctx, name)
}

// CheckWrite refuses, before its body is read, a write that would be refused anyway: by the ledger, or because of
// what it says of its body. What it returns is the write for WriteObject, which then does not ask again.
func (o *Objects) CheckWrite(ctx context.Context, w fence.ObjectWrite) (fence.ObjectWrite, error) {
	if w.Checked {
		return w, nil
	}
	if err := cmp.Or(o.checkKey(w), o.checkBody(w)); err != nil {
		return w, err
	}
	known, err := o.ledger.CheckWrite(ctx, w)
	if err != nil {
		return w, err
	}
	w.Checked, w.MayBeNatural = true, o.mayBeNatural(known)
	if w.MayBeNatural && (w.Op != fence.OpPut || w.If.Exists || w.If.Absent) {
		w.MayBeNatural = false
		w.Natural, err = o.isNatural(ctx, w.Object)
	}
	return w, err
}

// isNatural tells whether an object lies in the bucket under its own key.
func (o *Objects) isNatural(ctx context.Context, name fence.ObjectName) (bool, error) {
	_, err := o.naturals.Stat(ctx, name.Bucket, name.Key)
	if errors.Is(err, ErrMissing) {
		return false, nil
	}
	return err == nil, err
}

// checkKey refuses to make an object of a key that the store keeps for itself. It may be deleted, if it was made under another prefix.
func (o *Objects) checkKey(w fence.ObjectWrite) error {
	if w.Op != fence.OpDelete && o.reserver != nil && o.reserver.Reserved(w.Object.Key) {
		return fence.Errorf(fence.CodeInvalidRequest, "the bucket keeps keys that begin like this for itself").In("key")
	}
	return nil
}

func (o *Objects) checkBody(w fence.ObjectWrite) error {
	switch {
	case w.Op == fence.OpDelete || w.Op == fence.OpCopy:
		return nil
	case w.Op != fence.OpPut:
		return fence.Errorf(fence.CodeInvalidRequest, "an object can be put, copied and deleted, not %q", w.Op)
	case w.Size < -1:
		return fence.Errorf(fence.CodeInvalidRequest, "a body cannot have %d bytes", w.Size).In("size")
	case w.Size > o.cfg.MaxSize:
		return o.errTooLarge()
	}
	return checkLengths(w)
}

func (o *Objects) errTooLarge() error {
	return fence.Errorf(fence.CodeTooLarge, "an object has at most %d bytes", o.cfg.MaxSize)
}

// WriteObject puts, copies or deletes an object. A put stores its body under a new id and publishes it only when length
// and checksums are right (I6); every error but fence.CodeOutcomeUnknown published nothing (I7).
func (o *Objects) WriteObject(ctx context.Context, w fence.ObjectWrite) (fence.Object, error) {
	w, err := o.CheckWrite(ctx, w)
	if err != nil {
		return fence.Object{}, err
	}
	switch w.Op {
	case fence.OpDelete:
		return o.ledger.DeleteObject(ctx, w)
	case fence.OpCopy:
		return o.copyObject(ctx, w)
	}
	id, err := o.ledger.BeginBlob(ctx, w.Object.Bucket, w.Principal)
	if err != nil {
		return fence.Object{}, fmt.Errorf("begin blob: %w", err)
	}
	var (
		look    errgroup.Group
		natural = w.Natural
	)
	if w.MayBeNatural { // the answer is not needed before the body is stored
		look.Go(func() (err error) {
			natural, err = o.isNatural(ctx, w.Object)
			return err
		})
	}
	blob, err := o.store(ctx, id, w)
	if err := cmp.Or(err, look.Wait()); err != nil {
		o.abort(ctx, id)
		return fence.Object{}, err
	}
	w.Natural = natural
	return o.publish(ctx, w, blob)
}

// publish flips the pointer to a stored blob, and gives up one that came to nothing.
func (o *Objects) publish(ctx context.Context, w fence.ObjectWrite, blob fence.Blob) (fence.Object, error) {
	obj, err := o.ledger.PutObject(ctx, w, blob)
	switch {
	case fence.CodeOf(err) == fence.CodeOutcomeUnknown:
		// The pointer may refer to the blob by now, or soon.
	case err != nil, obj.Replayed && obj.Blob != blob.ID:
		o.abort(ctx, blob.ID)
	}
	return obj, err
}

// Upload stores a body without publishing it, for a commit of the same principal. Of the write it takes the bucket, the headers, the body and
// what the client says of it. An upload that is not committed within the upload limit is given up.
func (o *Objects) Upload(ctx context.Context, w fence.ObjectWrite) (fence.Upload, error) {
	w.Op = fence.OpPut
	if err := o.checkBody(w); err != nil {
		return fence.Upload{}, err
	}
	if err := o.ledger.CheckBucket(ctx, w.Object.Bucket); err != nil {
		return fence.Upload{}, err
	}
	id, err := o.ledger.BeginBlob(ctx, w.Object.Bucket, w.Principal)
	if err != nil {
		return fence.Upload{}, fmt.Errorf("begin blob: %w", err)
	}
	blob, err := o.store(ctx, id, w)
	if err == nil {
		err = o.ledger.KeepBlob(ctx, blob, w.Header)
	}
	if err != nil {
		o.abort(ctx, id)
		return fence.Upload{}, err
	}
	return fence.Upload{ID: id, Bucket: w.Object.Bucket, Size: blob.Size, SHA256: hex.EncodeToString(blob.SHA256[:])}, nil
}

// abort gives up the intent of a blob that nothing refers to. The ledger leaves one alone that is not pending, so
// that no answer of a flip can make this lose a published blob.
func (o *Objects) abort(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	// An error is of no consequence to the write: the collector gives up what stays pending too long.
	_ = o.ledger.AbortBlob(ctx, id)
}

// Open reads length bytes of the object's body from offset. Reading fails once the download limit has passed, after
// which the collector may delete bytes that were replaced meanwhile.
func (o *Objects) Open(ctx context.Context, obj fence.Object, offset, length int64) (io.ReadCloser, error) {
	if offset < 0 || length < 0 || offset > obj.Size-length {
		return nil, fence.Errorf(fence.CodeRangeNotSatisfiable, "the object has %d bytes, not %d from %d", obj.Size, length, offset)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.cfg.DownloadLimit, errDownloadLimit)
	r, err := o.open(ctx, obj, offset, length)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("open blob: %w", err)
	}
	return &download{body: NewBody(ctx, r, length), length: length, close: r.Close, cancel: cancel}, nil
}
