package s3store

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

var _ stores.Assembler = (*Store)(nil)

// BeginParts implements stores.Assembler.
func (s *Store) BeginParts(ctx context.Context, bucket, id string) (string, error) {
	if err := checkNames(bucket, id); err != nil {
		return "", err
	}
	api, err := s.client(ctx)
	if err != nil {
		return "", err
	}
	upload, _, err := s.begin(ctx, api, s.home(bucket), id, "")
	return aws.ToString(upload), err
}

// PutPart implements stores.Assembler. A part up to 64 KiB is buffered and can be repeated; a longer one is streamed. The bytes are compared
// with the MD5 that S3 answers as the ETag. Where ETags are no MD5, parts are buffered up to a fourth of the memory and carry theirs.
func (s *Store) PutPart(ctx context.Context, bucket, id, upload string, number int, body io.Reader, size int64) (stores.Part, error) {
	u, err := s.parts(ctx, bucket, id, upload)
	if err != nil {
		return stores.Part{}, err
	}
	switch {
	case number < 1 || number > maxParts:
		return stores.Part{}, fence.Errorf(fence.CodeInvalidRequest, "a part's number is 1 to %d, not %d", maxParts, number).In("part")
	case size < 0:
		return stores.Part{}, fence.Errorf(fence.CodeInvalidRequest, "a part cannot have %d bytes", size).In("size")
	case size > s.sizes.single:
		return stores.Part{}, fence.Errorf(fence.CodeTooLarge, "a part on S3 has at most %d bytes", s.sizes.single).In("size")
	}
	b := stores.NewBody(ctx, body, size)
	var etag string
	if size <= smallBody || s.buffers.Load() {
		etag, err = u.buffer(ctx, number, b, size)
	} else {
		etag, err = s.streamPart(ctx, u.api, u.bucket, u.key, upload, int32(number), newStream(b, size, true, newSums(&s.answersCRC.ofParts)))
	}
	switch {
	case err == nil:
		return stores.Part{Number: number, Size: size, ETag: etag, ModifiedAt: time.Now()}, nil
	case b.Err() != nil, fence.CodeOf(err) != fence.CodeInternal:
		return stores.Part{}, err
	}
	return stores.Part{}, u.failure(err, "store a part of")
}

// Parts implements stores.Assembler.
func (s *Store) Parts(ctx context.Context, bucket, id, upload string, after, limit int) (parts []stores.Part, more bool, err error) {
	u, err := s.parts(ctx, bucket, id, upload)
	if err != nil {
		return nil, false, err
	}
	if after < 0 || limit < 1 || limit > maxKeys {
		return nil, false, fence.Errorf(fence.CodeInvalidRequest, "1 to %d parts can be listed behind a number, not %d behind %d", maxKeys, limit, after)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	out, err := u.api.ListParts(ctx, &s3.ListPartsInput{
		Bucket: &u.bucket, Key: &u.key, UploadId: &upload, MaxParts: aws.Int32(int32(limit)), PartNumberMarker: aws.String(strconv.Itoa(after)),
	})
	if err != nil {
		return nil, false, u.failure(err, "list the parts of")
	}
	for _, p := range out.Parts {
		parts = append(parts, stores.Part{
			Number: int(aws.ToInt32(p.PartNumber)), Size: aws.ToInt64(p.Size), ETag: unquote(p.ETag), ModifiedAt: aws.ToTime(p.LastModified),
		})
	}
	return parts, aws.ToBool(out.IsTruncated), nil
}

// JoinParts implements stores.Assembler. S3 wants all parts but the last to have 5 MiB at least.
func (s *Store) JoinParts(ctx context.Context, bucket, id, upload string, parts []stores.Part) error {
	u, err := s.parts(ctx, bucket, id, upload)
	if err != nil {
		return err
	}
	var size int64
	completed := make([]types.CompletedPart, len(parts))
	for i, p := range parts {
		size += p.Size
		completed[i] = types.CompletedPart{PartNumber: aws.Int32(int32(p.Number)), ETag: quoted(p.ETag)}
	}
	err = s.complete(ctx, u.api, u.bucket, u.key, &upload, completed, size)
	switch apiCode(err) {
	case "NoSuchUpload":
		// It is joined if the answer to an earlier call was lost.
		if is, other := s.size(ctx, u.bucket, id); other == nil && is == size {
			return nil
		} else if other != nil && !errors.Is(other, stores.ErrMissing) {
			return other
		}
		return u.failure(err, "join the parts of")
	case "InvalidPart", "InvalidPartOrder", "EntityTooSmall", "MalformedXML", "InvalidRequest":
		return fence.Wrap(fence.CodeInvalidRequest, err, "the S3 does not join these parts").In("parts")
	}
	if err != nil {
		return u.failure(err, "join the parts of")
	}
	return s.checkStored(ctx, u.bucket, id, size)
}

// DropParts implements stores.Assembler.
func (s *Store) DropParts(ctx context.Context, bucket, id, upload string) error {
	u, err := s.parts(ctx, bucket, id, upload)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	_, err = u.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &u.bucket, Key: &u.key, UploadId: &upload})
	switch apiCode(err) {
	case "NoSuchUpload", "NoSuchKey", "NoSuchBucket", "NotFound":
		return nil
	}
	if err != nil {
		return u.failure(err, "drop the parts of")
	}
	return nil
}

// pieces is a blob that is stored piece by piece.
type pieces struct {
	*Store
	api                     *s3.Client
	bucket, key, id, upload string
}

func (s *Store) parts(ctx context.Context, bucket, id, upload string) (pieces, error) {
	if err := checkNames(bucket, id); err != nil {
		return pieces{}, err
	}
	if upload == "" {
		return pieces{}, fence.Errorf(fence.CodeInternal, "an upload in parts has a name")
	}
	api, err := s.client(ctx)
	return pieces{s, api, s.home(bucket), s.key(id), id, upload}, err
}

// buffer sends a part with its checksums, which the server verifies.
func (u pieces) buffer(ctx context.Context, number int, body *stores.Body, size int64) (string, error) {
	if size > smallBody {
		if most := max(u.cfg.PartSize, u.cfg.Memory/4); size > most {
			return "", fence.Errorf(fence.CodeTooLarge, "this S3 confirms no checksums, so a part has at most %d bytes", most).In("size")
		}
		if err := u.memory.acquire(ctx, size); err != nil {
			return "", errors.Join(context.Cause(ctx), err)
		}
		defer u.memory.release(size)
	}
	part := make([]byte, size)
	if _, err := io.ReadFull(body, part); err != nil && body.Err() != nil {
		return "", readError(body.Err())
	}
	if err := body.End(); err != nil {
		return "", readError(err)
	}
	ctx, cancel := context.WithTimeout(ctx, u.cfg.CallTimeout)
	defer cancel()
	sum := md5.Sum(part)
	out, err := u.api.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &u.bucket, Key: &u.key, UploadId: &u.upload, PartNumber: aws.Int32(int32(number)),
		Body: bytes.NewReader(part), ContentLength: &size, ContentMD5: aws.String(base64.StdEncoding.EncodeToString(sum[:])),
	}, signed(sha256.Sum256(part)))
	if err != nil {
		return "", err
	}
	etag := unquote(out.ETag)
	if !opaque(etag, out.ServerSideEncryption, out.SSECustomerAlgorithm) && etag != hex.EncodeToString(sum[:]) {
		return "", compare("MD5", etag, hex.EncodeToString(sum[:]))
	}
	return etag, nil
}

func (u pieces) failure(err error, verb string) error {
	if apiCode(err) == "NoSuchUpload" {
		return fence.Wrap(fence.CodeNotFound, errors.Join(stores.ErrMissing, err), "%s blob %s: there is no such upload", verb, u.id)
	}
	return failure(err, verb, u.bucket, u.id)
}
