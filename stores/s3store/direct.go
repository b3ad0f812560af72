package s3store

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

var _ stores.Direct = (*Store)(nil)

// maxValid is how long S3 lets a signed request be good.
const maxValid = 7 * 24 * time.Hour

// SignPut implements stores.Direct. The signature covers the length and the checksum; a store that does not heed them is found out by
// Adopt.
func (s *Store) SignPut(ctx context.Context, bucket, id string, size int64, sum [sha256.Size]byte, valid time.Duration) (stores.Signed, error) {
	switch {
	case size < 0:
		return stores.Signed{}, fence.Errorf(fence.CodeInvalidRequest, "a body cannot have %d bytes", size).In("size")
	case size > s.sizes.single:
		return stores.Signed{}, fence.Errorf(fence.CodeTooLarge, "one PUT to S3 has at most %d bytes", s.sizes.single).In("size")
	}
	expires := time.Now().Add(valid)
	sign, err := s.presigner(ctx, bucket, id, valid)
	if err != nil {
		return stores.Signed{}, err
	}
	out, err := sign.PresignPutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String(s.home(bucket)), Key: aws.String(s.stagingKey(id)), ContentLength: aws.Int64(size), ChecksumSHA256: checksum(sum),
	})
	if err != nil {
		return stores.Signed{}, fence.Wrap(fence.CodeStoreUnavailable, err, "sign an upload")
	}
	return stores.Signed{Method: out.Method, URL: out.URL, Header: withoutHost(out.SignedHeader), ExpiresAt: expires}, nil
}

// SignGet implements stores.Direct. Metadata is not among the headers that a URL can ask for.
func (s *Store) SignGet(ctx context.Context, bucket, id string, h fence.ObjectHeader, valid time.Duration) (stores.Signed, error) {
	expires := time.Now().Add(valid)
	sign, err := s.presigner(ctx, bucket, id, valid)
	if err != nil {
		return stores.Signed{}, err
	}
	out, err := sign.PresignGetObject(ctx, &s3.GetObjectInput{
		Bucket: aws.String(s.home(bucket)), Key: aws.String(s.key(id)),
		ResponseContentType: optional(h.ContentType), ResponseContentDisposition: optional(h.ContentDisposition),
		ResponseContentEncoding: optional(h.ContentEncoding), ResponseCacheControl: optional(h.CacheControl),
	})
	if err != nil {
		return stores.Signed{}, fence.Wrap(fence.CodeStoreUnavailable, err, "sign a download")
	}
	return stores.Signed{Method: out.Method, URL: out.URL, Header: withoutHost(out.SignedHeader), ExpiresAt: expires}, nil
}

func (s *Store) presigner(ctx context.Context, bucket, id string, valid time.Duration) (*s3.PresignClient, error) {
	if err := checkNames(bucket, id); err != nil {
		return nil, err
	}
	if valid < time.Second || valid > maxValid {
		return nil, fence.Errorf(fence.CodeInvalidRequest, "a signed request is good for 1s to %v, not %v", maxValid, valid)
	}
	api, err := s.client(ctx)
	if err != nil {
		return nil, err
	}
	reached := func(o *s3.Options) {
		if s.cfg.PublicEndpoint != "" {
			o.BaseEndpoint = &s.cfg.PublicEndpoint
		}
	}
	return s3.NewPresignClient(api, s3.WithPresignExpires(valid), s3.WithPresignClientFromClientOptions(reached)), nil
}

// withoutHost leaves out what is in the URL already.
func withoutHost(signed http.Header) http.Header {
	h := signed.Clone()
	h.Del("Host")
	return h
}

// Adopt implements stores.Direct. What lies under the staging key is verified before it is copied, so that a second call can never
// replace what the first one published, whatever a client put there meanwhile.
func (s *Store) Adopt(ctx context.Context, bucket, id string, size int64, sum [sha256.Size]byte) error {
	if err := checkNames(bucket, id); err != nil {
		return err
	}
	api, err := s.client(ctx)
	if err != nil {
		return err
	}
	bucket = s.home(bucket)
	a := adoption{Store: s, api: api, bucket: bucket, id: id, size: size, sum: sum}
	_, err = a.verify(ctx, s.key(id))
	switch {
	case err == nil:
		// An earlier call did it, and its answer was lost.
	case errors.Is(err, stores.ErrMissing), fence.CodeOf(err) == fence.CodeChecksumMismatch:
		if err := a.copy(ctx); err != nil {
			return err
		}
	default:
		return err
	}
	// What stays behind is deleted with the blob.
	_ = s.remove(ctx, api, bucket, s.stagingKey(id))
	return nil
}

// adoption is the copy of a staging key to a blob's own.
type adoption struct {
	*Store
	api        *s3.Client
	bucket, id string
	size       int64
	sum        [sha256.Size]byte
}

func (a adoption) copy(ctx context.Context) error {
	staged, err := a.verify(ctx, a.stagingKey(a.id))
	if err != nil {
		return err
	}
	_, err = a.Store.copy(ctx, copying{
		api: a.api, bucket: a.bucket, key: a.stagingKey(a.id), was: staged, toBucket: a.bucket, toKey: a.key(a.id),
		sum: types.ChecksumAlgorithmSha256, fail: a.failure,
	})
	if err != nil {
		return err
	}
	_, err = a.verify(ctx, a.key(a.id))
	return err
}

// verify compares length and checksum of what lies under a key. Where S3 knows no SHA-256 of it, it is read.
func (a adoption) verify(ctx context.Context, key string) (head, error) {
	h, err := a.head(ctx, a.api, a.bucket, key, "")
	if err != nil {
		return head{}, a.failure(err)
	}
	if h.size != a.size {
		return head{}, fence.Errorf(fence.CodeChecksumMismatch, "the upload has %d bytes, not %d", h.size, a.size).In("size")
	}
	got, known := h.sums[types.ChecksumAlgorithmSha256]
	if !known {
		if got, err = a.read(ctx, key, h.etag); err != nil {
			return head{}, err
		}
	}
	if got != base64.StdEncoding.EncodeToString(a.sum[:]) {
		return head{}, fence.Errorf(fence.CodeChecksumMismatch, "the upload's SHA-256 is not %x", a.sum).In("sha256")
	}
	return h, nil
}

// read returns the SHA-256, in base64, of what lies under a key.
func (a adoption) read(ctx context.Context, key, etag string) (string, error) {
	out, err := a.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &a.bucket, Key: &key, IfMatch: quoted(etag)})
	if err != nil {
		return "", a.failure(err)
	}
	defer out.Body.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(out.Body, a.size+1))
	if err == nil && n != a.size {
		err = fmt.Errorf("it had %d bytes of %d", n, a.size)
	}
	if err != nil {
		return "", fence.Wrap(fence.CodeStoreUnavailable, err, "read an upload back")
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil)), nil
}

func (a adoption) failure(err error) error {
	if statusOf(err) == http.StatusPreconditionFailed {
		return fence.Wrap(fence.CodeChecksumMismatch, err, "the upload was replaced while it was looked at")
	}
	return failure(err, "adopt", a.bucket, a.id)
}
