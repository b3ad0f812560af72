package s3store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/fencegate/fencegate/fence"
)

const (
	// maxParts is S3's limit.
	maxParts = 10_000
	// abortTimeout bounds giving up an upload that failed. What stays behind is for the bucket's lifecycle rule.
	abortTimeout = 10 * time.Second
)

// multipart sends the body in parts, of which first is the first.
func (p *put) multipart(ctx context.Context, first []byte) (err error) {
	create, cancel := context.WithTimeout(ctx, p.cfg.CallTimeout)
	defer cancel()
	up, err := p.api.CreateMultipartUpload(create, &s3.CreateMultipartUploadInput{
		Bucket:            &p.bucket,
		Key:               aws.String(p.key(p.id)),
		ContentType:       aws.String("application/octet-stream"),
		ChecksumAlgorithm: types.ChecksumAlgorithmSha256,
		ChecksumType:      types.ChecksumTypeComposite,
	})
	if err != nil {
		return failure(err, "store", p.bucket, p.id)
	}
	defer func() {
		if err != nil {
			p.abort(ctx, up.UploadId)
		}
	}()
	parts, err := p.sendParts(ctx, up.UploadId, first)
	if err != nil {
		return err
	}
	return p.complete(ctx, up.UploadId, parts)
}

type sentPart struct {
	part types.CompletedPart
	err  error
}

// sendParts sends part after part. With memory for a second buffer, one part is sent while the next is read.
func (p *put) sendParts(ctx context.Context, upload *string, buf []byte) (parts []types.CompletedPart, err error) {
	spare := buf
	double := p.memory.tryAcquire(p.cfg.PartSize)
	if double {
		p.reserved += p.cfg.PartSize
		spare = make([]byte, p.cfg.PartSize)
	}
	// At most one part is in flight, and it is waited for before its buffer is used again or this returns.
	ctx, cancel := context.WithCancel(ctx)
	sent, inFlight := make(chan sentPart), false
	wait := func() error {
		if !inFlight {
			return nil
		}
		inFlight = false
		done := <-sent
		parts = append(parts, done.part)
		return done.err
	}
	defer func() {
		cancel()
		_ = wait() // there is an error already if a part is still in flight
	}()
	for n, filled := int32(1), buf; len(filled) > 0; n++ {
		if n > maxParts {
			return nil, p.errTooLarge()
		}
		if err := wait(); err != nil {
			return nil, err
		}
		inFlight = true
		go func(part []byte) { sent <- p.sendPart(ctx, upload, n, part) }(filled)
		if p.body.Ended() {
			break
		}
		if !double {
			if err := wait(); err != nil {
				return nil, err
			}
		}
		buf, spare = spare, buf
		read, err := p.fill(buf)
		if err != nil {
			return nil, err
		}
		filled = buf[:read]
	}
	if err := wait(); err != nil {
		return nil, err
	}
	return parts, nil
}

func (p *put) sendPart(ctx context.Context, upload *string, n int32, part []byte) sentPart {
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
		return sentPart{err: failure(err, "store", p.bucket, p.id)}
	}
	return sentPart{part: types.CompletedPart{PartNumber: aws.Int32(n), ETag: out.ETag, ChecksumSHA256: checksum(sum)}}
}

// complete joins the parts and compares the length of what is there then. That also settles a repeated request that
// finds the upload completed by the first.
func (p *put) complete(ctx context.Context, upload *string, parts []types.CompletedPart) error {
	limited, cancel := context.WithTimeout(ctx, p.cfg.CallTimeout)
	defer cancel()
	_, err := p.api.CompleteMultipartUpload(limited, &s3.CompleteMultipartUploadInput{
		Bucket:          &p.bucket,
		Key:             aws.String(p.key(p.id)),
		UploadId:        upload,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	if err != nil && apiCode(err) != "NoSuchUpload" {
		return failure(err, "store", p.bucket, p.id)
	}
	size, err := p.Store.size(ctx, p.bucket, p.id)
	if err != nil {
		return fence.Wrap(fence.CodeStoreUnavailable, err, "check the stored length of blob %s", p.id)
	}
	if size != p.body.Len() {
		return fence.Errorf(fence.CodeStoreUnavailable, "the S3 has %d bytes of blob %s instead of %d", size, p.id, p.body.Len())
	}
	return nil
}

// abort frees what the server keeps of an upload that failed.
func (p *put) abort(ctx context.Context, upload *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	// The put has failed already; what is left is no blob, and is removed by a lifecycle rule of the bucket.
	_, _ = p.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: &p.bucket, Key: aws.String(p.key(p.id)), UploadId: upload,
	})
}
