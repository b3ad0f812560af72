package stores

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// maxDirect is the longest body that S3 takes in one request, in bytes.
const maxDirect = 5 << 30

// SignUpload lets a client put a body of known size and SHA-256 into the store itself, for a commit of the same principal. The
// request is good for some time; the upload, as any, until the upload limit has passed.
func (o *Objects) SignUpload(ctx context.Context, w fence.ObjectWrite, valid time.Duration) (fence.Upload, Signed, error) {
	w.Op = fence.OpPut
	direct, ok := o.blobs.(Direct)
	switch {
	case !ok:
		return fence.Upload{}, Signed{}, fence.Errorf(fence.CodeInvalidRequest, "this gateway's blob store cannot be written to directly: only an S3 can").In("presign")
	case w.Size < 0 || w.SHA256 == nil:
		return fence.Upload{}, Signed{}, fence.Errorf(fence.CodeInvalidRequest, "a direct upload says its size and SHA-256 beforehand")
	case w.Size > maxDirect:
		return fence.Upload{}, Signed{}, fence.Errorf(fence.CodeTooLarge, "a direct upload has at most %d bytes", int64(maxDirect))
	}
	if err := o.checkBody(w); err != nil {
		return fence.Upload{}, Signed{}, err
	}
	if err := o.ledger.CheckBucket(ctx, w.Object.Bucket); err != nil {
		return fence.Upload{}, Signed{}, err
	}
	id, err := o.ledger.BeginBlob(ctx, w.Object.Bucket, w.Principal)
	if err != nil {
		return fence.Upload{}, Signed{}, fmt.Errorf("begin blob: %w", err)
	}
	blob := fence.Blob{ID: id, Size: w.Size, SHA256: [32]byte(w.SHA256)}
	valid = min(valid, o.cfg.UploadLimit)
	expires := time.Now().Add(valid)
	var signed Signed
	if err = o.ledger.StageBlob(ctx, blob, w.Header); err == nil {
		signed, err = direct.SignPut(ctx, w.Object.Bucket, id, w.Size, blob.SHA256, valid)
	}
	signed.Method, signed.ExpiresAt = http.MethodPut, expires
	if err != nil {
		o.abort(ctx, id)
		return fence.Upload{}, Signed{}, err
	}
	return fence.Upload{ID: id, Bucket: w.Object.Bucket, Size: w.Size, SHA256: hex.EncodeToString(w.SHA256)}, signed, nil
}

// SignRead lets a client read an object's body from the store itself. ok is false where it cannot.
func (o *Objects) SignRead(ctx context.Context, obj fence.Object, valid time.Duration) (s Signed, ok bool, err error) {
	direct, can := o.blobs.(Direct)
	if !can || obj.Natural {
		return Signed{}, false, nil
	}
	valid = min(valid, o.cfg.DownloadLimit)
	expires := time.Now().Add(valid)
	s, err = direct.SignGet(ctx, obj.BlobBucket, obj.Blob, obj.Header, valid)
	s.Method, s.ExpiresAt = http.MethodGet, expires
	return s, err == nil, err
}

// adopt moves what clients have put into the store for these blobs to where no client can reach it.
func (c *Commits) adopt(ctx context.Context, commit fence.Commit) error {
	direct, ok := c.objects.blobs.(Direct)
	if !ok {
		return nil
	}
	writes := map[string]int{}
	var ids []string
	for i, w := range commit.Writes {
		if w.Blob != "" {
			ids, writes[w.Blob] = append(ids, w.Blob), i
		}
	}
	if len(ids) == 0 {
		return nil
	}
	staged, err := c.objects.ledger.StagedBlobs(ctx, commit.Principal, ids)
	if err != nil {
		return err
	}
	for _, b := range staged {
		err := direct.Adopt(ctx, b.Bucket, b.ID, b.Size, b.SHA256)
		if errors.Is(err, ErrMissing) {
			err = fence.Wrap(fence.CodeUploadExpired, err, "nothing was put into the store for this upload, or not yet")
		}
		if err == nil {
			err = c.objects.ledger.AdoptBlob(ctx, b.ID)
		}
		if err != nil {
			var e *fence.Error
			if errors.As(err, &e) {
				e.Write, e.Field = writes[b.ID]+1, "blob"
			}
			return err
		}
	}
	return nil
}
