package stores

import (
	"context"
	"io"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Signed is a request that a client may send to the store itself.
type Signed = fence.SignedRequest

// Direct is a blob store whose clients can come past the gateway, with requests that the gateway signed.
type Direct interface {
	// SignPut signs a PUT of exactly size bytes with this SHA-256 to the staging key of a blob that is yet to be stored. The
	// staging key is not the blob's own, which no client ever learns.
	SignPut(ctx context.Context, bucket, id string, size int64, sha256 [32]byte, valid time.Duration) (Signed, error)
	// Adopt copies what lies under the staging key to the blob's own key, within the store, and verifies length and checksum of
	// the copy. ErrMissing is in the chain of the error when nothing was put there, fence.CodeChecksumMismatch is something else.
	Adopt(ctx context.Context, bucket, id string, size int64, sha256 [32]byte) error
	// SignGet signs a GET of a blob, whose answer has these headers.
	SignGet(ctx context.Context, bucket, id string, header fence.ObjectHeader, valid time.Duration) (Signed, error)
}

// Part is a part of a blob that is stored piece by piece.
type Part = fence.ObjectPart

// Assembler is a blob store that takes a blob in parts, in any order and from several gateways.
type Assembler interface {
	// BeginParts begins a blob and returns the store's name for it.
	BeginParts(ctx context.Context, bucket, id string) (upload string, err error)
	// PutPart stores a part of size bytes in constant memory, in place of one of the same number. An error of the body's
	// reader is returned as it is (wrapped).
	PutPart(ctx context.Context, bucket, id, upload string, number int, body io.Reader, size int64) (Part, error)
	// Parts lists up to limit parts with numbers behind after, in their order.
	Parts(ctx context.Context, bucket, id, upload string, after, limit int) (parts []Part, more bool, err error)
	// JoinParts makes the blob of the parts, and verifies its length. Joining twice is no error.
	JoinParts(ctx context.Context, bucket, id, upload string, parts []Part) error
	// DropParts gives the parts up; those of an upload that is gone are no error.
	DropParts(ctx context.Context, bucket, id, upload string) error
}
