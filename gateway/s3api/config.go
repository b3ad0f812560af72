package s3api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/lease"
)

// Objects is what the front asks of objects.
type Objects interface {
	Reader
	Writer
	Parts
}

// Reader finds and reads objects.
type Reader interface {
	// Object reads an object's pointer and mark. One that does not exist is CodeNotFound with its State.
	Object(ctx context.Context, name fence.ObjectName, by fence.Access) (fence.Object, error)
	// Version reads a state of the object that is kept, by the token under which it was published.
	Version(ctx context.Context, name fence.ObjectName, by fence.Access, version fence.Token) (fence.Object, error)
	// Open reads length bytes of the object's body from offset.
	Open(ctx context.Context, o fence.Object, offset, length int64) (io.ReadCloser, error)
	// ListObjects returns a page of the objects of a bucket; CodeNotFound when nothing protects the bucket.
	ListObjects(ctx context.Context, q fence.ObjectQuery) (fence.ObjectPage, error)
	// Buckets names the buckets that something protects, in order.
	Buckets(ctx context.Context) ([]string, error)
}

// Writer writes objects.
type Writer interface {
	// CheckWrite refuses, before the body is read, a write that would be refused anyway. What it returns is the write for WriteObject.
	CheckWrite(ctx context.Context, w fence.ObjectWrite) (fence.ObjectWrite, error)
	WriteObject(ctx context.Context, w fence.ObjectWrite) (fence.Object, error)
}

// Parts stores bodies in parts.
type Parts interface {
	BeginParts(ctx context.Context, w fence.ObjectWrite) (fence.PartUpload, error)
	// UseParts returns an upload of a principal for an object; CodeUploadExpired when there is none, and with one that was given up.
	UseParts(ctx context.Context, id, principal string, name fence.ObjectName) (fence.PartUpload, error)
	ListParts(ctx context.Context, principal, bucket, prefix string, after fence.PartUpload, limit int) ([]fence.PartUpload, error)
	PutPart(ctx context.Context, u fence.PartUpload, number int, body io.Reader, size int64) (fence.ObjectPart, error)
	CopyPart(ctx context.Context, u fence.PartUpload, number int, from fence.Object, offset, length int64) (fence.ObjectPart, error)
	Parts(ctx context.Context, u fence.PartUpload, after, limit int) (parts []fence.ObjectPart, more bool, err error)
	AbortParts(ctx context.Context, u fence.PartUpload) error
	// JoinParts publishes the parts. To join again what is published still is no error.
	JoinParts(ctx context.Context, u fence.PartUpload, w fence.ObjectWrite, named []fence.ObjectPart) (fence.Object, error)
}

// Leases is what the front asks of leases, for deletes without a token.
type Leases interface {
	Acquire(ctx context.Context, r lease.Request) (*lease.Held, error)
	Release(ctx context.Context, ref lease.Ref) error
}

// Keys knows who signs with which key.
type Keys interface {
	// Key returns the secret of an access key, and whose it is.
	Key(access string) (secret string, caller gateway.Caller, found bool)
	// NoteFailed counts a request whose signature is wrong, or whose key is not known.
	NoteFailed()
}

// Shared is what the front has in common with the HTTP API; gateway.Front is one.
type Shared interface {
	Around(next http.Handler) http.Handler
	TraceID(ctx context.Context) string
	Admit(ctx context.Context, class, principal string) error
	AdmitGrant(ctx context.Context, principal string) error
	Transfer() (done func())
	Observe(ctx context.Context, o gateway.Observation)
	Refused(w http.ResponseWriter, r *http.Request, refusal gateway.Refusal) *fence.Error
	CutOff(ctx context.Context, name fence.ObjectName, cause error)
}

const (
	defaultTimeout   = 15 * time.Second
	defaultBodyLimit = time.Hour
	defaultDeleteTTL = 15 * time.Second
	// defaultMaxBody has room for the 10 000 parts of a completed upload, and for 1000 keys to delete.
	defaultMaxBody = 4 << 20
	defaultMaxMeta = 2 << 10
)

// Config says what a front serves and within which limits.
type Config struct {
	// Objects, Leases, Keys and Shared are required.
	Objects Objects
	Leases  Leases
	Keys    Keys
	Shared  Shared
	// MaxMeta bounds the names and values of an object's metadata together, in bytes. Defaults to 2 KiB, which is S3's own limit: more makes no
	// difference.
	MaxMeta int
	// MaxBody is the largest body in bytes that is no object's. Defaults to 4 MiB.
	MaxBody int64
	// WriteTimeout bounds a write whose body has been read. Defaults to 15 s.
	WriteTimeout time.Duration
	// UploadLimit and DownloadLimit bound the transfer of one body. Default to 1 h.
	UploadLimit, DownloadLimit time.Duration
	// DeleteTTL is for how long the lease is taken for a delete without a token. Defaults to 15 s.
	DeleteTTL time.Duration
	// DeleteWait is for how long one request waits for leases that others hold, in all. Defaults to a third of WriteTimeout; at most WriteTimeout.
	DeleteWait time.Duration
}

func (c Config) withDefaults() Config {
	c.MaxMeta = cmp.Or(c.MaxMeta, defaultMaxMeta)
	c.MaxBody = cmp.Or(c.MaxBody, defaultMaxBody)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, defaultTimeout)
	c.UploadLimit = cmp.Or(c.UploadLimit, defaultBodyLimit)
	c.DownloadLimit = cmp.Or(c.DownloadLimit, defaultBodyLimit)
	c.DeleteTTL = cmp.Or(c.DeleteTTL, defaultDeleteTTL)
	c.DeleteWait = cmp.Or(c.DeleteWait, c.WriteTimeout/3)
	return c
}

func (c Config) validate() error {
	switch {
	case c.Objects == nil, c.Leases == nil, c.Keys == nil, c.Shared == nil:
		return errors.New("s3api: Objects, Leases, Keys and Shared are required")
	case c.MaxMeta < 0, c.MaxBody < 0, c.WriteTimeout < 0, c.UploadLimit < 0, c.DownloadLimit < 0, c.DeleteTTL < 0, c.DeleteWait < 0:
		return errors.New("s3api: a limit is negative")
	case c.DeleteWait > c.WriteTimeout:
		return errors.New("s3api: DeleteWait is longer than WriteTimeout")
	}
	return nil
}
