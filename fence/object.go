package fence

import (
	"io"
	"time"
)

// ObjectName names an object.
type ObjectName struct{ Bucket, Key string }

// ObjectHeader is what is kept beside an object's bytes. The JSON names are those of the ledger.
type ObjectHeader struct {
	ContentType        string            `json:"content_type,omitempty"`
	ContentEncoding    string            `json:"content_encoding,omitempty"`
	ContentDisposition string            `json:"content_disposition,omitempty"`
	CacheControl       string            `json:"cache_control,omitempty"`
	Meta               map[string]string `json:"meta,omitempty"`
}

// ObjectSource is what an OpCopy copies: the present body of an object, or that of a version which is kept.
type ObjectSource struct {
	Object ObjectName
	// Version is the token under which the body was published, or ImportedVersion; 0 for the present one.
	Version Token
}

// ImportedVersion is what an object was before its first fenced write, if it was imported: no token published it, so that it is told as
// version 0.
const ImportedVersion Token = -1

// ParseVersion reads a version as it is told: a token, or 0 for ImportedVersion.
func ParseVersion(s string) (Token, error) {
	if s == "0" {
		return ImportedVersion, nil
	}
	return ParseToken(s)
}

// VersionText is a version as ParseVersion reads it.
func VersionText(version Token) string { return max(version, 0).String() }

// ObjectWrite is a fenced write of one object.
type ObjectWrite struct {
	Op     Op
	Object ObjectName
	Access
	If Condition
	// Header is kept beside the body. An OpCopy with KeepHeader keeps those of its source.
	Header     ObjectHeader
	KeepHeader bool
	// From is the source of an OpCopy.
	From ObjectSource
	// Natural says that the bucket has an object under the key itself, which stands until the key is written. Checked says that it,
	// and whether the write would be refused, was looked up already.
	Natural, Checked bool
	// MayBeNatural says that whether there is such an object is still to be looked up.
	MayBeNatural bool
	// Body is read to its end or to the first error; nil for a delete.
	Body io.Reader
	// Size is the body's length in bytes, -1 when it is not known beforehand.
	Size int64
	// SHA256, MD5, CRC32C and CRC64NVME are what the client says of its body, the latter two in network byte order; nil when it says
	// nothing.
	SHA256, MD5, CRC32C, CRC64NVME []byte
	// WantETag keeps the body's MD5 as its ETag, for clients that compare it.
	WantETag bool
}

// Object is an object's pointer as it stands after a read or a write.
type Object struct {
	State
	ObjectName
	// Blob names the bytes in the blob store, and BlobBucket the bucket that they were stored for; both are empty after a delete, and
	// where the body is Natural: that of an object which somebody put into the bucket, under the key itself.
	Blob, BlobBucket string
	Natural          bool
	Size             int64
	SHA256           string // in hex; empty when it is not known
	// ETag is what S3's clients compare, without quotes: the store's own of a natural object; empty when there is none.
	ETag   string
	Header ObjectHeader
	// Version is the token under which the present body was published, 0 for one that was imported, or natural.
	Version Token
	// Written tells whether the ledger knows the key: a natural object counts until it does.
	Written bool
	Options BucketOptions
	// ModifiedAt is when the object's present bytes were published, by the ledger's clock.
	ModifiedAt time.Time
	// Created tells a first body from a replacement, Replayed an answer that is given again.
	Created, Replayed bool
}

// BucketOptions are what is set for the objects below a protected prefix.
type BucketOptions struct {
	// Keep is how long the bodies that were replaced or deleted are kept as versions; 0 is not at all.
	Keep time.Duration
	// Redirect sends readers to the store, where it can be read directly.
	Redirect bool
	// Existing serves the objects that lie in the bucket under their own keys.
	Existing bool
	// TakeLease lets S3 clients that cannot send a token delete: the gateway takes the lease for them.
	TakeLease bool
}

// Blob is a stored body whose length was verified, and whose checksum, where it is known.
type Blob struct {
	ID   string
	Size int64
	// SHA256 is zero when it is not known: of what was stored in parts or copied within the store.
	SHA256 [32]byte
	// ETag is as in Object.
	ETag string
	// Bucket is that which it was stored for; empty is the object's own.
	Bucket string
}

// Garbage is a blob that no object refers to, and how often its bytes were deleted so far.
type Garbage struct {
	ID, Bucket string
	Deletions  int
	// Upload is the store's name for it while it is stored in parts; empty if it was not.
	Upload string
}

// ObjectVersion is a former state of an object, or the present one.
type ObjectVersion struct {
	// Version is the token under which it was published.
	Version Token
	// Deleted tells that there was no object then; the fields of a body are zero.
	Deleted bool
	Size    int64
	SHA256  string // in hex; empty when it is not known
	Header  ObjectHeader
	// ModifiedAt is when it was published, SupersededAt when another state followed, and KeepUntil how long it is kept; the last two
	// are zero for the present state.
	ModifiedAt, SupersededAt, KeepUntil time.Time
}

// ObjectQuery asks for the objects of a bucket, in the order of the bytes of their keys.
type ObjectQuery struct {
	Bucket string
	// Prefix is what keys begin with, and Delimiter where, behind it, they are cut off and grouped; both may be empty.
	Prefix, Delimiter string
	// After is the last key or group of the page before; empty for the first.
	After string
	// Limit is at most how many objects and groups a page has, from 1 to MaxObjects.
	Limit int
}

// MaxObjects is how many objects and groups a page of a list has at most.
const MaxObjects = 1000

// ObjectEntry is an object of a list, or a group of keys.
type ObjectEntry struct {
	// Key is the object's, or what the keys of the group begin with, up to and with the delimiter.
	Key   string
	Group bool
	// The rest is as in Object, and zero for a group.
	Size        int64
	SHA256      string
	ETag        string
	ContentType string
	Version     Token
	Natural     bool
	ModifiedAt  time.Time
}

// ObjectPage is a part of a list.
type ObjectPage struct {
	Entries []ObjectEntry
	// More tells that there are others behind the last entry.
	More bool
}

// BucketBinding is a protected prefix of a bucket.
type BucketBinding struct {
	Prefix  string
	Options BucketOptions
}

// PartUpload is a body that is stored in parts, for one write.
type PartUpload struct {
	// ID names it. It is good for the principal, bucket and key that it was begun for only.
	ID        string
	Object    ObjectName
	Principal string
	// Token is that of the write which publishes it, and Header what is kept with the object.
	Token  Token
	Header ObjectHeader
	// Upload is the store's own name for it.
	Upload string
	// BegunAt is when it was begun, or last used.
	BegunAt time.Time
	// Size and ETag are those of what its parts are joined to; zero before that is tried.
	Size int64
	ETag string
	// Published tells that it was completed before.
	Published bool
}

// ObjectPart is a part of a body that is stored piece by piece.
type ObjectPart struct {
	Number int
	Size   int64
	// ETag is the part's MD5 in hex, which is what S3's clients compare.
	ETag       string
	ModifiedAt time.Time
}

// SignedRequest is one that a client may send to the blob store itself, past the gateway, for some time.
type SignedRequest struct {
	Method, URL string
	// Header holds what must be sent with it, as it stands.
	Header map[string][]string
	// ExpiresAt is until when the store takes it.
	ExpiresAt time.Time
}
