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

// Ledger is the ledger's side of objects.
type Ledger interface {
	Pointers
	Lister
	Intents
	PartIntents
}

// Pointers says which bytes an object has.
type Pointers interface {
	// Object reads an object's pointer and mark in one statement. An object that does not exist is CodeNotFound
	// with its State; what is known of its key is returned all the same. With a token, a grant that is no longer good is refused.
	Object(ctx context.Context, name fence.ObjectName, by fence.Access) (fence.Object, error)
	// ObjectMark reads the mark of an object whether the object exists or not.
	ObjectMark(ctx context.Context, name fence.ObjectName) (fence.State, error)
	// Version reads a state of the object that is kept, by the token under which it was published; CodeNotFound when it had no body
	// then, or is kept no more.
	Version(ctx context.Context, name fence.ObjectName, by fence.Access, version fence.Token) (fence.Object, error)
	// History lists up to limit states of an object, the present one and those that are kept, newest first, behind before (0 is from
	// the present one on).
	History(ctx context.Context, name fence.ObjectName, before fence.Token, limit int) ([]fence.ObjectVersion, error)
	// CheckWrite refuses a write that would be refused anyway, before its body is read. It changes nothing, and
	// says nothing about a write whose token is the mark (it may be a replay). It returns what is known of the key.
	CheckWrite(ctx context.Context, w fence.ObjectWrite) (fence.Object, error)
	// PutObject admits the write and flips the pointer to the blob, whose intent must be pending. Anything but
	// success and CodeOutcomeUnknown left the pointer alone.
	PutObject(ctx context.Context, w fence.ObjectWrite, blob fence.Blob) (fence.Object, error)
	// CopyObject admits the write and points the object to its source's body. A source that the ledger does not have is CodeNotFound
	// in the field "from".
	CopyObject(ctx context.Context, w fence.ObjectWrite) (fence.Object, error)
	// DeleteObject admits the delete and hides the object.
	DeleteObject(ctx context.Context, w fence.ObjectWrite) (fence.Object, error)
}

// Lister lists what the ledger has of a bucket.
type Lister interface {
	// Buckets names the buckets that something protects, in the order of their bytes.
	Buckets(ctx context.Context) ([]string, error)
	// Bindings lists the protected prefixes of a bucket in the order of their bytes; none is CodeNotFound.
	Bindings(ctx context.Context, bucket string) ([]fence.BucketBinding, error)
	// ListObjects returns a page of the objects that the ledger knows, whatever protects them.
	ListObjects(ctx context.Context, q fence.ObjectQuery) (fence.ObjectPage, error)
	// KnownKeys returns those of the keys that the ledger knows, also as deleted.
	KnownKeys(ctx context.Context, bucket string, keys []string) ([]string, error)
	// AnyDeleted tells whether the ledger knows a deleted object below a prefix.
	AnyDeleted(ctx context.Context, bucket, prefix string) (bool, error)
}

// Intents keeps what is stored and not published yet.
type Intents interface {
	// BeginBlob records the intent to store a blob and returns its id, unique for ever.
	BeginBlob(ctx context.Context, bucket, principal string) (string, error)
	// CheckBucket is CodeNotFound when nothing of the bucket is protected.
	CheckBucket(ctx context.Context, bucket string) error
	// KeepBlob notes what was stored of a pending intent, for the commit that publishes it, and begins its time anew.
	// CodeUploadExpired when it is not pending any more.
	KeepBlob(ctx context.Context, blob fence.Blob, header fence.ObjectHeader) error
	// AbortBlob gives a pending intent up: its blob may be collected after the grace period. One that is not
	// pending is left alone.
	AbortBlob(ctx context.Context, id string) error
}

// PartIntents keeps what is stored in parts, or put into the store by the client itself.
type PartIntents interface {
	// KeepParts notes what a pending intent is stored in parts for.
	KeepParts(ctx context.Context, u fence.PartUpload) error
	// JoiningParts notes what the parts of a pending intent are about to be joined to.
	JoiningParts(ctx context.Context, blob fence.Blob) error
	// UseParts returns an intent that is stored in parts, pending or published, and begins its time anew. CodeUploadExpired when
	// there is none of this principal, bucket and key.
	UseParts(ctx context.Context, id, principal string, name fence.ObjectName) (fence.PartUpload, error)
	// ListParts lists up to limit pending intents of a principal that are stored in parts, whose keys begin with prefix, in the order
	// of their keys and ids behind that of after.
	ListParts(ctx context.Context, principal, bucket, prefix string, after fence.PartUpload, limit int) ([]fence.PartUpload, error)
	// StageBlob notes what a client was allowed to put into the store for a pending intent.
	StageBlob(ctx context.Context, blob fence.Blob, header fence.ObjectHeader) error
	// StagedBlobs returns those of the blobs that are the principal's and lie under their staging keys still.
	StagedBlobs(ctx context.Context, principal string, ids []string) ([]StagedBlob, error)
	// AdoptBlob notes that a blob lies under its own key now.
	AdoptBlob(ctx context.Context, id string) error
}

// StagedBlob is a blob that a client puts into the store itself.
type StagedBlob struct {
	fence.Blob
	Bucket string
}

// Dump is what the ledger does not need any more.
type Dump interface {
	// AbortStale gives up the pending intents that are older than age and returns how many.
	AbortStale(ctx context.Context, age time.Duration, limit int) (int, error)
	// ExpireVersions forgets versions that are kept no longer and returns how many.
	ExpireVersions(ctx context.Context, limit int) (int, error)
	// Collectable returns blobs that nothing refers to and that have been garbage or aborted, or deleted once, for
	// longer than grace, by the ledger's clock.
	Collectable(ctx context.Context, grace time.Duration, limit int) ([]fence.Garbage, error)
	// Collected records that the blob's bytes were deleted, unless another collector has recorded this deletion. After
	// the second one the ledger forgets the blob.
	Collected(ctx context.Context, g fence.Garbage) error
}
