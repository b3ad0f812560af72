package stores

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"

	"github.com/fencegate/fencegate/fence"
)

var errUploadLimit = errors.New("the upload took too long")

// upload is a body that is hashed while the blob store reads it.
type upload struct {
	*Body
	sha256 hash.Hash
	md5    hash.Hash // nil unless the client wants it kept
	sent   []checksum
	max    int64
	tooBig error
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.Body.Read(p)
	if u.Len() > u.max {
		u.Body.err = u.tooBig
		return 0, u.tooBig
	}
	u.sha256.Write(p[:n])
	if u.md5 != nil {
		u.md5.Write(p[:n])
	}
	for _, c := range u.sent {
		c.Write(p[:n])
	}
	return n, err
}

// store streams the body into the blob store and returns what was verified. Nothing refers to the blob yet.
func (o *Objects) store(ctx context.Context, id string, w fence.ObjectWrite) (fence.Blob, error) {
	limited, cancel := context.WithTimeoutCause(ctx, o.cfg.UploadLimit, errUploadLimit)
	defer cancel()
	u := &upload{Body: NewBody(limited, w.Body, w.Size), sha256: sha256.New(), sent: checksums(w), max: o.cfg.MaxSize, tooBig: o.errTooLarge()}
	if w.WantETag {
		u.md5 = md5.New()
	}
	err := o.blobs.Put(limited, w.Object.Bucket, id, u, w.Size)
	if err == nil {
		err = u.End()
	}
	if err != nil {
		return fence.Blob{}, o.blame(limited, u.Body, err)
	}
	blob := fence.Blob{ID: id, Size: u.Len()}
	u.sha256.Sum(blob.SHA256[:0])
	if w.SHA256 != nil && !bytes.Equal(w.SHA256, blob.SHA256[:]) {
		return fence.Blob{}, fence.Errorf(fence.CodeChecksumMismatch, "the body's SHA-256 is %x, not %x", blob.SHA256, w.SHA256).In("sha256")
	}
	for _, c := range u.sent {
		if err := c.differs(); err != nil {
			return fence.Blob{}, err
		}
	}
	if w.WantETag {
		blob.ETag = hex.EncodeToString(u.md5.Sum(nil))
	}
	return blob, nil
}

// blame tells whose fault it is that the body was not stored: that of the time limit, of whoever sends the body, or
// of the store.
func (o *Objects) blame(ctx context.Context, b *Body, err error) error {
	var known *fence.Error
	switch cause := b.Err(); {
	case context.Cause(ctx) == errUploadLimit:
		return fence.Wrap(fence.CodeUploadExpired, err, "the body was not stored within %v", o.cfg.UploadLimit)
	case errors.As(cause, &known):
		return cause
	case cause != nil:
		return fence.Wrap(fence.CodeInvalidRequest, cause, "the body broke off after %d bytes", b.Len())
	case ctx.Err() != nil && !b.Ended():
		return fence.Wrap(fence.CodeInvalidRequest, err, "the request ended after %d bytes of its body", b.Len())
	case errors.As(err, &known):
		return fmt.Errorf("store blob: %w", err)
	}
	return fence.Wrap(fence.CodeStoreUnavailable, err, "the blob store did not take the body")
}
