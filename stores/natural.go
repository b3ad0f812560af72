package stores

import (
	"context"
	"io"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Natural is an object that lies in a bucket under its own key, where somebody put it past the gateway.
type Natural struct {
	Key  string
	Size int64
	// ETag is the store's own, without its quotes.
	ETag       string
	ModifiedAt time.Time
	// Header is empty in lists, and has no [ExportedMeta].
	Header fence.ObjectHeader
	// Exported is the version that an export copied here, of [ExportedMeta]; empty for what is no such copy, and in lists.
	Exported string
}

// NaturalQuery asks for natural objects, in the order of the bytes of their keys.
type NaturalQuery struct {
	Bucket string
	// Prefix is what keys begin with, and Delimiter where, behind it, they are cut off and grouped; both may be empty.
	Prefix, Delimiter string
	// After is where the page begins: behind this key, and, if what it has behind the prefix ends with the delimiter, behind all keys
	// of that group.
	After string
	// Limit is at most how many objects and groups there are, from 1 to 1000.
	Limit int
}

// NaturalPage is a part of a list.
type NaturalPage struct {
	Objects []Natural
	// Groups are the keys up to and with the delimiter.
	Groups []string
	// More tells that there are others behind the last object or group.
	More bool
}

// Reserver is a blob store that keeps something of its own under keys of the bucket, which no object can have.
type Reserver interface {
	Reserved(key string) bool
}

// Naturals is a blob store whose buckets also hold natural objects. Keys below the store's reserved prefix are none of them: they are
// neither found nor listed.
type Naturals interface {
	// Stat describes a natural object. ErrMissing is in the chain of the error when there is none.
	Stat(ctx context.Context, bucket, key string) (Natural, error)
	// OpenNatural reads length bytes from offset of the object that Stat described. ErrChanged is in the chain of the error when
	// it is another one now, ErrMissing when it is gone.
	OpenNatural(ctx context.Context, bucket string, n Natural, offset, length int64) (io.ReadCloser, error)
	// ListNatural returns a page of a list.
	ListNatural(ctx context.Context, q NaturalQuery) (NaturalPage, error)
	// Take copies the natural object that Stat described to a blob, within the store, and verifies the copy. ErrChanged and ErrMissing
	// as in OpenNatural.
	Take(ctx context.Context, bucket string, n Natural, id string) error
	// Give copies a blob, whichever bucket it was stored for, to a natural object, within the store, and returns it as it is then.
	Give(ctx context.Context, bucket string, blob fence.Blob, key string, header fence.ObjectHeader) (Natural, error)
	// Remove deletes a natural object; one that is absent is no error.
	Remove(ctx context.Context, bucket, key string) error
}
