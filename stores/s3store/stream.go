package s3store

import (
	"context"
	"crypto/md5"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/minio/crc64nvme"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

var (
	// errStalled is why a stream was broken off that S3 did not take.
	errStalled = errors.New("the S3 took no bytes for too long")
	errOver    = errors.New("the request is over")
)

// stream is a body, or the next part of one, that goes to S3 as it is read, and so cannot be sent again. S3 gets the last bytes of a body
// only when it has ended as announced: one of another length never arrives whole.
type stream struct {
	body *stores.Body
	size int64
	// final is whether the body ends with this stream.
	final bool
	n     int64
	*sums
}

func newStream(body *stores.Body, size int64, final bool, s *sums) *stream {
	return &stream{body: body, size: size, final: final, sums: s}
}

func (s *stream) read(p []byte) (int, error) {
	if s.n == s.size {
		return 0, io.EOF
	}
	n, err := s.body.Read(p[:min(int64(len(p)), s.size-s.n)])
	if err == nil && s.final && s.n+int64(n) == s.size {
		err = s.body.End()
	}
	if err != nil && err != io.EOF {
		return 0, err
	}
	s.n += int64(n)
	s.write(p[:n])
	return n, err
}

// attempt is a stream as the body of one request.
type attempt struct {
	*stream
	// idle breaks the request off when S3 does not ask for more within the patience.
	idle     *time.Timer
	patience time.Duration

	mu   sync.Mutex // held while the body is read
	over bool       // guarded by mu
}

// Read implements io.Reader. An HTTP client may read on after it has returned an answer: then there is nothing to read.
func (a *attempt) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return 0, errOver
	}
	a.idle.Stop()
	defer a.idle.Reset(a.patience)
	return a.read(p)
}

// end waits for a Read that is going on.
func (a *attempt) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.idle.Stop()
}

// send makes a request with the stream as its body. It repeats one that S3 refused before it took any of the body, and no other.
func (s *Store) send(ctx context.Context, api *s3.Client, b *stream, call func(context.Context, io.Reader, ...func(*s3.Options)) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	retryer := api.Options().Retryer
	for try := 1; ; try++ {
		a := &attempt{stream: b, patience: s.cfg.AnswerTimeout, idle: time.AfterFunc(s.cfg.AnswerTimeout, func() { cancel(errStalled) })}
		err := call(ctx, a, unsigned, onlyOnce, asked)
		a.end()
		switch {
		case err == nil && b.n < b.size:
			return errors.New("the S3 answered before it had the whole body")
		case err == nil:
			return nil
		case b.body.Err() != nil:
			return readError(b.body.Err())
		case ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), err)
		case b.n > 0 || try == attempts || !retryer.IsErrorRetryable(err):
			return err
		}
		wait, _ := retryer.RetryDelay(try, err)
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(wait):
		}
	}
}

// unsigned leaves the body out of the signature: its checksum is not known before it is sent.
func unsigned(o *s3.Options) {
	o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
}

func onlyOnce(o *s3.Options) { o.Retryer = aws.NopRetryer{} }

// asked makes the HTTP client wait for the server to ask for the body, so that a refusal finds it untouched. The SDK says so to the server,
// but leaves out the protocol's version, without which the client does not wait.
func asked(o *s3.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Build.Add(middleware.BuildMiddlewareFunc("ProtocolVersion", func(
			ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler,
		) (middleware.BuildOutput, middleware.Metadata, error) {
			if r, ok := in.Request.(*smithyhttp.Request); ok {
				r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
			}
			return next.HandleBuild(ctx, in)
		}), middleware.After)
	})
}

// opaque tells whether an ETag says nothing of the bytes. Under keys that S3 does not keep itself it is no MD5, and some servers have
// others.
func opaque(etag string, by types.ServerSideEncryption, customer *string) bool {
	return by != "" && by != types.ServerSideEncryptionAes256 || customer != nil ||
		len(etag) != 2*md5.Size || strings.Trim(etag, "0123456789abcdef") != ""
}

// streamPart sends one part and returns its ETag. A server whose ETags are opaque is noted, for it to be sent checksums from then on.
func (s *Store) streamPart(ctx context.Context, api *s3.Client, bucket, key, upload string, number int32, b *stream) (string, error) {
	var out *s3.UploadPartOutput
	err := s.send(ctx, api, b, func(ctx context.Context, body io.Reader, options ...func(*s3.Options)) (err error) {
		out, err = api.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: &bucket, Key: &key, UploadId: &upload, PartNumber: &number, Body: body, ContentLength: aws.Int64(b.size),
		}, options...)
		return err
	})
	if err != nil {
		return "", err
	}
	confirmed, err := b.confirm(answer{out.ETag, out.ChecksumCRC64NVME, out.ServerSideEncryption, out.SSECustomerAlgorithm}, &s.answersCRC.ofParts)
	if err == nil && !confirmed {
		if b.md5 != nil {
			s.buffers.Store(true)
		}
		err = fence.Errorf(fence.CodeStoreUnavailable, "the S3 does not confirm the checksum of a part; the next one is sent otherwise")
	}
	return unquote(out.ETag), err
}

// stream sends the body in one request.
func (p *put) stream(ctx context.Context) (err error) {
	key := p.key(p.id)
	defer func() {
		if err != nil {
			p.sweep(ctx, key)
		}
	}()
	b := newStream(p.body, p.size, true, newSums(&p.answersCRC.ofBodies))
	var out *s3.PutObjectOutput
	err = p.send(ctx, p.api, b, func(ctx context.Context, body io.Reader, options ...func(*s3.Options)) (err error) {
		out, err = p.api.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &p.bucket, Key: &key, Body: body, ContentLength: &p.size, ContentType: aws.String("application/octet-stream"),
		}, options...)
		return err
	})
	if err != nil {
		return p.blame(err)
	}
	confirmed, err := b.confirm(answer{out.ETag, out.ChecksumCRC64NVME, out.ServerSideEncryption, out.SSECustomerAlgorithm}, &p.answersCRC.ofBodies)
	if err == nil && !confirmed {
		if b.md5 != nil {
			p.buffers.Store(true)
		}
		err = p.readBack(ctx, key, crcText(b.crc.Sum64()))
	}
	if err != nil {
		return err
	}
	return p.checkSize(ctx)
}

// streamParts sends a body that is too long for one request.
func (p *put) streamParts(ctx context.Context) error {
	upload, _, err := p.begin(ctx, p.api, p.bucket, p.id, "")
	if err != nil {
		return err
	}
	return p.inParts(ctx, upload, func() (parts []types.CompletedPart, err error) {
		each := partSize(p.size, p.sizes.streamPart)
		for n := int32(1); p.body.Len() < p.size; n++ {
			left := p.size - p.body.Len()
			b := newStream(p.body, min(each, left), left <= each, newSums(&p.answersCRC.ofParts))
			etag, err := p.streamPart(ctx, p.api, p.bucket, p.key(p.id), *upload, n, b)
			if err != nil {
				return nil, p.blame(err)
			}
			parts = append(parts, types.CompletedPart{PartNumber: aws.Int32(n), ETag: aws.String(`"` + etag + `"`)})
		}
		return parts, nil
	})
}

// blame leaves the errors of the body's reader, and our own, as they are.
func (p *put) blame(err error) error {
	if p.body.Err() != nil || fence.CodeOf(err) != fence.CodeInternal {
		return err
	}
	return failure(err, "store", p.bucket, p.id)
}

// sweep deletes what is left of a body that did not arrive whole: some servers keep it. One that does so later than this leaves it to the
// collector.
func (p *put) sweep(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_ = p.remove(ctx, p.api, p.bucket, key)
}

// readBack compares the CRC of what was stored.
func (p *put) readBack(ctx context.Context, key, sent string) error {
	out, err := p.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &p.bucket, Key: &key})
	if err != nil {
		return failure(err, "read back", p.bucket, p.id)
	}
	defer out.Body.Close()
	h := crc64nvme.New()
	if _, err := io.Copy(h, out.Body); err != nil {
		return failure(err, "read back", p.bucket, p.id)
	}
	return compare("CRC64NVME", crcText(h.Sum64()), sent)
}
