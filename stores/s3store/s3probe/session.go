package s3probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
)

// bodySize is the length in bytes of most objects.
const bodySize = 4096

// session is one run against a bucket.
type session struct {
	cfg Config
	api *s3.Client
	// root is what the keys of all the session's objects begin with.
	root string

	// marked: a delete left a version behind.
	marked atomic.Bool
	// cut: a probe ended without an answer, so that what it asked for may be done yet.
	cut atomic.Bool

	mu      sync.Mutex
	keys    []string // guarded by mu
	uploads []upload // guarded by mu
}

type upload struct{ key, id string }

func newSession(cfg Config) *session {
	return &session{
		cfg: cfg,
		api: s3.New(cfg.Client.Options(), func(o *s3.Options) {
			// Checksums are what is probed: the SDK adds none of its own.
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
			o.DisableLogOutputChecksumValidationSkipped = true
		}),
		root: cfg.Prefix + ".fencegate-doctor/" + strings.ToLower(rand.Text()) + "/",
	}
}

// key returns the key of a name below the root, and remembers that it is to be removed.
func (s *session) key(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.root + name
	s.keys = append(s.keys, key)
	return key
}

func (s *session) ours(key string) bool { return strings.HasPrefix(key, s.root) }

// once makes a call in one attempt, where a second one would be answered differently.
func once(o *s3.Options) { o.Retryer = aws.NopRetryer{} }

// first stores an object, without which there is nothing to probe.
func (s *session) first(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ProbeTimeout)
	defer cancel()
	if _, err := s.put(ctx, s.key("first"), []byte("fencegate doctor"), nil); err != nil {
		return fmt.Errorf("store an object in bucket %s: %s", s.cfg.Bucket, brief(err))
	}
	return nil
}

// put stores a body in one request, with what change adds to it.
func (s *session) put(ctx context.Context, key string, body []byte, change func(*s3.PutObjectInput), options ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	in := &s3.PutObjectInput{
		Bucket: &s.cfg.Bucket, Key: &key,
		Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))), ContentType: aws.String("application/octet-stream"),
	}
	if change != nil {
		change(in)
	}
	return s.api.PutObject(ctx, in, options...)
}

// putBlob stores a body as the gateway stores a blob: with its SHA-256 as a checksum and in the signature.
func (s *session) putBlob(ctx context.Context, key string, body []byte) error {
	sum := sha256.Sum256(body)
	_, err := s.put(ctx, key, body, func(in *s3.PutObjectInput) { in.ChecksumSHA256 = checksum(sum[:]) }, signedAs(sum))
	return err
}

func checksum(sum []byte) *string { return aws.String(base64.StdEncoding.EncodeToString(sum)) }

// signedAs signs a request for the body of that SHA-256, whatever its body is.
func signedAs(sum [sha256.Size]byte) func(*s3.Options) {
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

// length asks how long an object is.
func (s *session) length(ctx context.Context, key string) (int64, error) {
	out, err := s.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.cfg.Bucket, Key: &key})
	if err != nil {
		return 0, err
	}
	return aws.ToInt64(out.ContentLength), nil
}

// get reads an object, or a range of it. What is longer than most is cut off there.
func (s *session) get(ctx context.Context, key, span string, most int) ([]byte, error) {
	in := &s3.GetObjectInput{Bucket: &s.cfg.Bucket, Key: &key}
	if span != "" {
		in.Range = &span
	}
	out, err := s.api.GetObject(ctx, in)
	if err != nil {
		return nil, err
	}
	defer out.Body.Close()
	return io.ReadAll(io.LimitReader(out.Body, int64(most)+1))
}

func (s *session) delete(ctx context.Context, key string) error {
	out, err := s.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.cfg.Bucket, Key: &key})
	if err == nil && aws.ToBool(out.DeleteMarker) {
		s.marked.Store(true)
	}
	return err
}

// random returns bytes that no other object has.
func random(n int) []byte {
	b := make([]byte, n)
	// It never returns an error.
	_, _ = rand.Read(b)
	return b
}

// but returns the bytes with one of them changed.
func but(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)/2] ^= 1
	return b
}
