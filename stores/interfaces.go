package stores

import (
	"context"
	"io"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Blobs keeps bytes under ids that are never rewritten. A blob store that does not answer is
// fence.CodeStoreUnavailable.
type Blobs interface {
	// Put stores the body, of size bytes (-1: unknown beforehand), in constant memory. It returns nil only when the
	// store has confirmed the whole body, durably, with the length and checksum of what was read. An error of the
	// body's reader is returned as it is (wrapped).
	Put(ctx context.Context, bucket, id string, body io.Reader, size int64) error
	// Open reads length bytes from offset. A blob that is missing is an error.
	Open(ctx context.Context, bucket, id string, offset, length int64) (io.ReadCloser, error)
	// Delete removes the blob; one that is absent is no error.
	Delete(ctx context.Context, bucket, id string) error
}

// Pointers is the ledger's side of objects.
type Pointers interface {
	// Object reads an object's pointer and mark in one statement. An object that does not exist is CodeNotFound
	// with its State. With a token, a grant that is no longer good is refused.
	Object(ctx context.Context, name fence.ObjectName, by fence.Access) (fence.Object, error)
	// ObjectMark reads the mark of an object whether the object exists or not.
	ObjectMark(ctx context.Context, name fence.ObjectName) (fence.State, error)
	// CheckWrite refuses a write that would be refused anyway, before its body is read. It changes nothing, and
	// says nothing about a write whose token is the mark (it may be a replay).
	CheckWrite(ctx context.Context, w fence.ObjectWrite) error
	// BeginBlob records the intent to store a blob and returns its id, unique for ever.
	BeginBlob(ctx context.Context, bucket, principal string) (string, error)
	// PutObject admits the write and flips the pointer to the blob, whose intent must be pending. Anything but
	// success and CodeOutcomeUnknown left the pointer alone.
	PutObject(ctx context.Context, w fence.ObjectWrite, blob fence.Blob) (fence.Object, error)
	// DeleteObject admits the delete and hides the object.
	DeleteObject(ctx context.Context, w fence.ObjectWrite) (fence.Object, error)
	// CheckBucket is CodeNotFound when nothing of the bucket is protected.
	CheckBucket(ctx context.Context, bucket string) error
	// KeepBlob notes what was stored of a pending intent, for the commit that publishes it, and begins its time anew.
	// CodeUploadExpired when it is not pending any more.
	KeepBlob(ctx context.Context, blob fence.Blob, header fence.ObjectHeader) error
	// AbortBlob gives a pending intent up: its blob may be collected after the grace period. One that is not
	// pending is left alone.
	AbortBlob(ctx context.Context, id string) error

	// AbortStale gives up the pending intents that are older than age and returns how many.
	AbortStale(ctx context.Context, age time.Duration, limit int) (int, error)
	// Collectable returns blobs that nothing refers to and that have been garbage or aborted, or deleted once, for
	// longer than grace, by the ledger's clock.
	Collectable(ctx context.Context, grace time.Duration, limit int) ([]fence.Garbage, error)
	// Collected records that the blob's bytes were deleted, unless another collector has recorded this deletion. After
	// the second one the ledger forgets the blob.
	Collected(ctx context.Context, g fence.Garbage) error
}
