package s3store

import (
	"cmp"
	"context"
	"fmt"
	"mime"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/encoding/httpbinding"
	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

const (
	// copiesAtOnce is how many parts of one copy the server makes at once.
	copiesAtOnce = 4
	// copyRate is the slowest copying within a server that is waited for, in bytes a second.
	copyRate = 8 * mebi
)

// Take implements stores.Naturals.
func (s *Store) Take(ctx context.Context, bucket string, n stores.Natural, id string) error {
	if err := s.checkNatural(bucket, n.Key); err != nil {
		return err
	}
	if err := checkNames(bucket, id); err != nil {
		return err
	}
	api, err := s.client(ctx)
	if err != nil {
		return err
	}
	fail := func(err error) error { return naturalFailure(err, "copy", bucket) }
	from, err := s.head(ctx, api, bucket, n.Key, n.ETag)
	if err != nil {
		return fail(err)
	}
	if !same(n, stores.Natural{ETag: from.etag, Size: from.size, ModifiedAt: from.modified}) {
		return errChanged(bucket, nil)
	}
	c := copying{api: api, bucket: bucket, key: n.Key, was: from, toBucket: s.home(bucket), toKey: s.key(id), fail: fail}
	_, err = s.copy(ctx, c)
	return err
}

// Give implements stores.Naturals.
func (s *Store) Give(ctx context.Context, bucket string, blob fence.Blob, key string, header fence.ObjectHeader) (stores.Natural, error) {
	if err := s.checkNatural(bucket, key); err != nil {
		return stores.Natural{}, fence.Errorf(fence.CodeInvalidRequest, "no object can be put there past the gateway").In("key")
	}
	if err := checkNames(bucket, blob.ID); err != nil {
		return stores.Natural{}, err
	}
	stored := s.home(cmp.Or(blob.Bucket, bucket))
	api, err := s.client(ctx)
	if err != nil {
		return stores.Natural{}, err
	}
	if folds(key) {
		if err := s.checkUnfolded(ctx, api, bucket, blob.ID); err != nil {
			return stores.Natural{}, err
		}
	}
	fail := func(err error) error { return failure(err, "copy", stored, blob.ID) }
	from, err := s.head(ctx, api, stored, s.key(blob.ID), "")
	if err != nil {
		return stores.Natural{}, fail(err)
	}
	if from.size != blob.Size {
		return stores.Natural{}, fence.Errorf(fence.CodeStoreUnavailable, "the S3 has %d bytes of blob %s instead of %d", from.size, blob.ID, blob.Size)
	}
	c := copying{api: api, bucket: stored, key: s.key(blob.ID), was: from, toBucket: bucket, toKey: key, header: header, fail: fail}
	to, err := s.copy(ctx, c)
	if err != nil {
		return stores.Natural{}, err
	}
	return stores.Natural{Key: key, Size: to.size, ETag: to.etag, ModifiedAt: to.modified, Header: to.header}, nil
}

// checkUnfolded refuses a server that takes one key for another: putting an object under a//b would replace a/b. It tries that where only
// blobs lie.
func (s *Store) checkUnfolded(ctx context.Context, api *s3.Client, bucket, id string) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	odd := s.cfg.Prefix + "keys/./" + id + "//x"
	_, err := api.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &odd})
	if err != nil {
		return naturalFailure(err, "try a key for", bucket)
	}
	listed, err := s.listed(ctx, api, bucket, odd)
	if err != nil {
		return err
	}
	if _, err := api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: &odd}); err != nil {
		return naturalFailure(err, "delete", bucket)
	}
	if !listed {
		return fence.Errorf(fence.CodeInvalidRequest, "this S3 does not keep keys with empty segments, . and .. apart").In("key")
	}
	return nil
}

// copying is a copy within the server.
type copying struct {
	api         *s3.Client
	bucket, key string
	was         head
	toBucket    string
	toKey       string
	header      fence.ObjectHeader
	sum         types.ChecksumAlgorithm // the one that the copy must have; "" for the source's
	fail        func(error) error       // tells what went wrong with the source
}

func (c copying) source() *string {
	return aws.String(httpbinding.EscapePath(c.bucket+"/"+c.key, false))
}

// copy copies what was described, verifies the copy and returns it.
func (s *Store) copy(ctx context.Context, c copying) (head, error) {
	limited, cancel := context.WithTimeout(ctx, s.copyTime(c.was.size))
	defer cancel()
	whole := s.copyWhole
	if c.was.size > s.sizes.single {
		whole = s.copyParts
	}
	if err := whole(limited, c); err != nil {
		return head{}, c.fail(err)
	}
	to, err := s.head(limited, c.api, c.toBucket, c.toKey, "")
	if err == nil {
		err = c.was.compare(to)
	}
	if err != nil {
		return head{}, fence.Wrap(fence.CodeStoreUnavailable, err, "check a copy in bucket %s", c.toBucket)
	}
	return to, nil
}

// copyTime is how long the server may take to copy so many bytes.
func (s *Store) copyTime(size int64) time.Duration {
	return s.cfg.CallTimeout + time.Duration(size/copyRate)*time.Second
}

func (s *Store) copyWhole(ctx context.Context, c copying) error {
	_, err := c.api.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: &c.toBucket, Key: &c.toKey, CopySource: c.source(), CopySourceIfMatch: quoted(c.was.etag),
		MetadataDirective: types.MetadataDirectiveReplace, TaggingDirective: types.TaggingDirectiveReplace, ChecksumAlgorithm: c.sum,
		ContentType:     aws.String(contentType(c.header)),
		ContentEncoding: optional(c.header.ContentEncoding), ContentDisposition: optional(c.header.ContentDisposition),
		CacheControl: optional(c.header.CacheControl), Metadata: metaOf(c.header),
	}, s.patient)
	return err
}

// copyParts copies what is too long for one request.
func (s *Store) copyParts(ctx context.Context, c copying) (err error) {
	up, err := c.api.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &c.toBucket, Key: &c.toKey, ContentType: aws.String(contentType(c.header)),
		ContentEncoding: optional(c.header.ContentEncoding), ContentDisposition: optional(c.header.ContentDisposition),
		CacheControl: optional(c.header.CacheControl), Metadata: metaOf(c.header),
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.abort(ctx, c.api, c.toBucket, c.toKey, up.UploadId)
		}
	}()
	size := partSize(c.was.size, s.sizes.copyPart)
	parts := make([]types.CompletedPart, (c.was.size+size-1)/size)
	all, group := errgroup.WithContext(ctx)
	all.SetLimit(copiesAtOnce)
	for i := range parts {
		all.Go(func() error {
			from := int64(i) * size
			out, err := c.api.UploadPartCopy(group, &s3.UploadPartCopyInput{
				Bucket: &c.toBucket, Key: &c.toKey, UploadId: up.UploadId, PartNumber: aws.Int32(int32(i + 1)),
				CopySource: c.source(), CopySourceIfMatch: quoted(c.was.etag),
				CopySourceRange: aws.String(fmt.Sprintf("bytes=%d-%d", from, min(from+size, c.was.size)-1)),
			}, s.patient)
			if err != nil {
				return err
			}
			if out.CopyPartResult == nil {
				return fmt.Errorf("part %d of a copy has no ETag", i+1)
			}
			parts[i] = types.CompletedPart{PartNumber: aws.Int32(int32(i + 1)), ETag: out.CopyPartResult.ETag}
			return nil
		})
	}
	if err = all.Wait(); err != nil {
		return err
	}
	err = s.complete(ctx, c.api, c.toBucket, c.toKey, up.UploadId, parts, c.was.size)
	if apiCode(err) == "NoSuchUpload" {
		// An answer was lost; what is there is compared next.
		return nil
	}
	return err
}

// head is what S3 says of something it has.
type head struct {
	size     int64
	etag     string
	modified time.Time
	header   fence.ObjectHeader
	// sums are the checksums of the whole, by their algorithms.
	sums map[types.ChecksumAlgorithm]string
}

// head describes an object with its checksums; with an ETag, only the one that has it. Its error is the SDK's.
func (s *Store) head(ctx context.Context, api *s3.Client, bucket, key, etag string) (head, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	out, err := api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: &key, IfMatch: quoted(etag), ChecksumMode: types.ChecksumModeEnabled})
	if err != nil {
		return head{}, err
	}
	h := head{
		size: aws.ToInt64(out.ContentLength), etag: unquote(out.ETag), modified: aws.ToTime(out.LastModified), header: headerOf(out),
		sums: make(map[types.ChecksumAlgorithm]string),
	}
	for algorithm, sum := range map[types.ChecksumAlgorithm]*string{
		types.ChecksumAlgorithmCrc32: out.ChecksumCRC32, types.ChecksumAlgorithmCrc32c: out.ChecksumCRC32C,
		types.ChecksumAlgorithmCrc64nvme: out.ChecksumCRC64NVME,
		types.ChecksumAlgorithmSha1:      out.ChecksumSHA1, types.ChecksumAlgorithmSha256: out.ChecksumSHA256,
	} {
		// A checksum of checksums says nothing of the bytes.
		if sum != nil && *sum != "" && out.ChecksumType != types.ChecksumTypeComposite && !strings.Contains(*sum, "-") {
			h.sums[algorithm] = *sum
		}
	}
	return h, nil
}

// compare looks for a difference between what was copied and its copy: in length, or in a checksum that both have.
func (h head) compare(to head) error {
	if h.size != to.size {
		return fmt.Errorf("the copy has %d bytes instead of %d", to.size, h.size)
	}
	for algorithm, sum := range h.sums {
		if got, ok := to.sums[algorithm]; ok && got != sum {
			return fmt.Errorf("the copy's %s is %s instead of %s", algorithm, got, sum)
		}
	}
	return nil
}

func contentType(h fence.ObjectHeader) string {
	if h.ContentType == "" {
		return "application/octet-stream"
	}
	return h.ContentType
}

// metaOf returns metadata as S3 takes it: what is not ASCII in the encoding of mails.
func metaOf(h fence.ObjectHeader) map[string]string {
	meta := make(map[string]string, len(h.Meta))
	for name, value := range h.Meta {
		meta[name] = mime.BEncoding.Encode("utf-8", value)
	}
	return meta
}
