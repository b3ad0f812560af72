package s3store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/minio/crc64nvme"

	"github.com/fencegate/fencegate/fence"
)

const (
	// maxParts is S3's limit, and maxBlob the longest object it has.
	maxParts = 10_000
	maxBlob  = 5 << 40
	// abortTimeout bounds giving up an upload that failed. What stays behind is for the bucket's lifecycle rule.
	abortTimeout = 10 * time.Second
)

// partSize is the least size in MiB, and at least least, of parts that a body of size bytes can be cut into.
func partSize(size, least int64) int64 {
	each := (size + maxParts - 1) / maxParts
	return max(least, (each+mebi-1)/mebi*mebi)
}

// bufferSize is the length of a buffered part: the first are short, since most bodies are, and later ones longer, so that a body of unknown
// length can be long. None takes more than a fourth of the memory, unless that is less than a part.
func (s *Store) bufferSize(number int) int64 {
	size := s.cfg.PartSize
	for n := number; n > s.sizes.growAfter && 2*size <= s.cfg.Memory/4; n -= s.sizes.growAfter {
		size *= 2
	}
	return size
}

// MaxUnknown is the length in bytes of the longest body that can be stored without saying its length beforehand: 273 GiB with the default
// memory and part size, more with more memory.
func (s *Store) MaxUnknown() int64 {
	var sum int64
	for n := 1; n <= maxParts; n++ {
		sum += s.bufferSize(n)
	}
	return min(sum, maxBlob)
}

// inParts lets the parts of an upload be sent, and completes it.
func (p *put) inParts(ctx context.Context, upload *string, send func() ([]types.CompletedPart, error)) (err error) {
	defer func() {
		if err != nil {
			p.abort(ctx, p.api, p.bucket, p.key(p.id), upload)
		}
	}()
	parts, err := send()
	if err != nil {
		return err
	}
	if err := p.complete(ctx, p.api, p.bucket, p.key(p.id), upload, parts, p.body.Len()); err != nil && apiCode(err) != "NoSuchUpload" {
		return failure(err, "store", p.bucket, p.id)
	}
	// That also settles a repeated request that found the upload completed by the first.
	return p.checkSize(ctx)
}

// beginBuffered begins an upload whose parts carry checksums: of the kind that is soon computed, here and there, or SHA-256 where the server
// does not know that one.
func (p *put) beginBuffered(ctx context.Context) (upload *string, sum types.ChecksumAlgorithm, err error) {
	sum = types.ChecksumAlgorithmCrc64nvme
	if !p.onlySHA.Load() {
		upload, known, err := p.begin(ctx, p.api, p.bucket, p.id, sum)
		switch {
		case err == nil && known:
			return upload, sum, nil
		case err == nil:
			p.abort(ctx, p.api, p.bucket, p.key(p.id), upload)
		case !refused(err):
			return nil, "", err
		}
	}
	sum = types.ChecksumAlgorithmSha256
	if upload, _, err = p.begin(ctx, p.api, p.bucket, p.id, sum); err == nil {
		p.onlySHA.Store(true)
	}
	return upload, sum, err
}

// refused tells whether the server does not know what it was asked for.
func refused(err error) bool {
	var answer *awshttp.ResponseError
	return errors.As(err, &answer) && (answer.HTTPStatusCode() == http.StatusBadRequest || answer.HTTPStatusCode() == http.StatusNotImplemented)
}

// begin begins an upload in parts, which carry checksums of this kind if there is one, and tells whether the server says that it knows it.
func (s *Store) begin(ctx context.Context, api *s3.Client, bucket, id string, sum types.ChecksumAlgorithm) (upload *string, known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	in := &s3.CreateMultipartUploadInput{
		Bucket: &bucket, Key: aws.String(s.key(id)), ContentType: aws.String("application/octet-stream"), ChecksumAlgorithm: sum,
	}
	switch sum {
	case types.ChecksumAlgorithmSha256:
		in.ChecksumType = types.ChecksumTypeComposite
	case types.ChecksumAlgorithmCrc64nvme: // there is no other type of it
		in.ChecksumType = types.ChecksumTypeFullObject
	}
	up, err := api.CreateMultipartUpload(ctx, in)
	if err != nil {
		return nil, false, failure(err, "store", bucket, id)
	}
	return up.UploadId, up.ChecksumAlgorithm == sum, nil
}

// complete joins the parts of size bytes together. Its error is the SDK's.
func (s *Store) complete(ctx context.Context, api *s3.Client, bucket, key string, upload *string, parts []types.CompletedPart, size int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.copyTime(size))
	defer cancel()
	_, err := api.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &bucket, Key: &key, UploadId: upload, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	}, s.patient)
	return err
}

// abort frees what the server keeps of an upload that failed.
func (s *Store) abort(ctx context.Context, api *s3.Client, bucket, key string, upload *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	// The upload has failed already; what is left is no blob, and is removed by a lifecycle rule of the bucket.
	_, _ = api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &bucket, Key: &key, UploadId: upload})
}

// sendPart sends a part with a CRC, which the server compares and confirms.
func (p *put) sendPart(ctx context.Context, upload *string, n int32, part []byte) (types.CompletedPart, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.CallTimeout)
	defer cancel()
	sum := aws.String(crcText(crc64nvme.Checksum(part)))
	out, err := p.api.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &p.bucket, Key: aws.String(p.key(p.id)), UploadId: upload, PartNumber: aws.Int32(n),
		Body: bytes.NewReader(part), ContentLength: aws.Int64(int64(len(part))), ChecksumCRC64NVME: sum,
	}, unsigned)
	if err != nil {
		return types.CompletedPart{}, failure(err, "store", p.bucket, p.id)
	}
	if out.ChecksumCRC64NVME == nil {
		p.onlySHA.Store(true)
		return types.CompletedPart{}, fence.Errorf(fence.CodeStoreUnavailable, "the S3 does not confirm the checksum of a part; the next one carries another")
	}
	done := types.CompletedPart{PartNumber: aws.Int32(n), ETag: out.ETag, ChecksumCRC64NVME: sum}
	return done, compare("CRC64NVME", *out.ChecksumCRC64NVME, *sum)
}

// sendPartSHA sends a part with a SHA-256, which the server compares: it is in the signature, too.
func (p *put) sendPartSHA(ctx context.Context, upload *string, n int32, part []byte) (types.CompletedPart, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.CallTimeout)
	defer cancel()
	sum := sha256.Sum256(part)
	out, err := p.api.UploadPart(ctx, &s3.UploadPartInput{
		Bucket:         &p.bucket,
		Key:            aws.String(p.key(p.id)),
		UploadId:       upload,
		PartNumber:     aws.Int32(n),
		Body:           bytes.NewReader(part),
		ContentLength:  aws.Int64(int64(len(part))),
		ChecksumSHA256: checksum(sum),
	}, signed(sum))
	if err != nil {
		return types.CompletedPart{}, failure(err, "store", p.bucket, p.id)
	}
	return types.CompletedPart{PartNumber: aws.Int32(n), ETag: out.ETag, ChecksumSHA256: checksum(sum)}, nil
}

// checkSize compares the length of what is there with that of what was read.
func (p *put) checkSize(ctx context.Context) error {
	return p.checkStored(ctx, p.bucket, p.id, p.body.Len())
}

func (s *Store) checkStored(ctx context.Context, bucket, id string, want int64) error {
	size, err := s.size(ctx, bucket, id)
	if err != nil {
		return fence.Wrap(fence.CodeStoreUnavailable, err, "check the stored length of blob %s", id)
	}
	if size != want {
		return fence.Errorf(fence.CodeStoreUnavailable, "the S3 has %d bytes of blob %s instead of %d", size, id, want)
	}
	return nil
}
