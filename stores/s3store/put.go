package s3store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// smallBody is what every upload may buffer without asking the budget.
const smallBody = 64 << 10

// Put implements stores.Blobs. A body of known length above a part is streamed, up to 5 TiB; another is buffered part by part, up to
// [Store.MaxUnknown].
func (s *Store) Put(ctx context.Context, bucket, id string, body io.Reader, size int64) error {
	if err := checkNames(bucket, id); err != nil {
		return err
	}
	if size > maxBlob || s.buffers.Load() && size > s.MaxUnknown() {
		return s.errTooLarge()
	}
	api, err := s.client(ctx)
	if err != nil {
		return err
	}
	p := &put{Store: s, api: api, bucket: s.home(bucket), id: id, body: stores.NewBody(ctx, body, size), size: size}
	defer p.release()
	switch {
	case size <= s.cfg.PartSize || s.buffers.Load():
	case size <= s.sizes.single:
		return p.stream(ctx)
	default:
		return p.streamParts(ctx)
	}
	first, err := p.readFirst(ctx)
	if err != nil {
		return err
	}
	if p.body.Ended() {
		return p.single(ctx, first)
	}
	upload, sum, err := p.beginBuffered(ctx)
	if err != nil {
		return err
	}
	return p.inParts(ctx, upload, func() ([]types.CompletedPart, error) { return p.sendParts(ctx, upload, sum, first) })
}

func (s *Store) errTooLarge() error {
	return fence.Errorf(fence.CodeTooLarge, "a blob on S3 has at most %d bytes, and %d if its length is not said beforehand", int64(maxBlob), s.MaxUnknown())
}

// put is one upload.
type put struct {
	*Store
	api        *s3.Client
	bucket, id string
	body       *stores.Body
	size       int64
	// reserved is this upload's share of the memory.
	reserved int64
}

func (p *put) release() {
	p.memory.release(p.reserved)
}

// reserve waits for a share of the memory. An upload calls it once: one that waited for a second share while it
// holds the first could wait for another that does the same.
func (p *put) reserve(ctx context.Context, n int64) error {
	if err := p.memory.acquire(ctx, n); err != nil {
		return failure(context.Cause(ctx), "wait for memory to store", p.bucket, p.id)
	}
	p.reserved = n
	return nil
}

// readFirst reads the body up to one part. The buffer grows in steps, so that a small body of unknown size takes
// little memory.
func (p *put) readFirst(ctx context.Context) ([]byte, error) {
	limit := p.cfg.PartSize
	if p.size >= 0 {
		limit = min(limit, p.size)
	}
	steps := []int64{limit}
	switch {
	case limit <= smallBody:
	case p.size >= 0:
		if err := p.reserve(ctx, limit); err != nil {
			return nil, err
		}
	default:
		steps = []int64{smallBody, mebi, limit}
	}
	var buf []byte
	for i, step := range steps {
		if i == 1 {
			if err := p.reserve(ctx, limit); err != nil {
				return nil, err
			}
		}
		grown := make([]byte, step)
		n := copy(grown, buf)
		m, err := p.fill(grown[n:])
		if err != nil || p.body.Ended() {
			return grown[:n+m], err
		}
		buf = grown
	}
	if p.size == int64(len(buf)) {
		return buf, readError(p.body.End())
	}
	return buf, nil
}

// fill reads until the buffer is full or the body ends, and returns how much it read.
func (p *put) fill(buf []byte) (int, error) {
	n, err := io.ReadFull(p.body, buf)
	if p.body.Ended() {
		return n, nil
	}
	return n, readError(err)
}

func readError(err error) error {
	if err != nil {
		return fmt.Errorf("read body: %w", err)
	}
	return nil
}

func (p *put) single(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.CallTimeout)
	defer cancel()
	sum := sha256.Sum256(body)
	_, err := p.api.PutObject(ctx, &s3.PutObjectInput{
		Bucket:         &p.bucket,
		Key:            aws.String(p.key(p.id)),
		Body:           bytes.NewReader(body),
		ContentLength:  aws.Int64(int64(len(body))),
		ContentType:    aws.String("application/octet-stream"),
		ChecksumSHA256: checksum(sum),
	}, signed(sum))
	if err != nil {
		return failure(err, "store", p.bucket, p.id)
	}
	return nil
}

func checksum(sum [sha256.Size]byte) *string {
	return aws.String(base64.StdEncoding.EncodeToString(sum[:]))
}

// signed puts the checksum into the signature too, instead of letting the SDK hash the bytes a second time (over
// http) or not at all (over https).
func signed(sum [sha256.Size]byte) func(*s3.Options) {
	swap := middleware.FinalizeMiddlewareFunc("ComputePayloadHash", func(
		ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
	) (middleware.FinalizeOutput, middleware.Metadata, error) {
		return next.HandleFinalize(v4.SetPayloadHash(ctx, hex.EncodeToString(sum[:])), in)
	})
	return func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			_, err := stack.Finalize.Swap(swap.ID(), swap)
			return err
		})
	}
}
