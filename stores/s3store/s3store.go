// Package s3store keeps blobs on S3, in the bucket of the objects they are bodies of or in one of their own, below a prefix.
//
// Keys are never used twice and hold nothing that a user chose. A body up to one part is buffered and carries a SHA-256 that the server
// verifies; each part of one whose length nobody knows carries a CRC-64/NVME, or a SHA-256 where the server does not know that. Such requests
// can be repeated, and all their buffers come out of one budget. A longer body of known length is streamed: its CRC-64/NVME is compared with
// the one that the server answers, or its MD5 with the ETag, and its length with what is there then. A stream that breaks off cannot be
// repeated.
package s3store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// Store is blobs on an S3.
type Store struct {
	cfg    Config
	http   *awshttp.BuildableClient
	memory *budget
	sizes  sizes
	// buffers is set once a server's ETags turn out to say nothing of the bytes: then bodies carry their checksums, and are buffered.
	buffers atomic.Bool
	// answersCRC is what is known of the server's answers.
	answersCRC struct{ ofBodies, ofParts crcKnown }
	// onlySHA is set once a server does not take parts with a CRC-64/NVME.
	onlySHA atomic.Bool

	mu   sync.Mutex
	api  *s3.Client   // guarded by mu; nil until the first call that could read its configuration
	slow *http.Client // guarded by mu; nil as long as api is
}

// sizes are what S3 takes, in bytes.
type sizes struct {
	// single is the most that one request stores or copies.
	single int64
	// streamPart and copyPart are the least parts that a body is cut into which is longer than that.
	streamPart, copyPart int64
	// growAfter is after how many buffered parts the next ones are twice as long.
	growAfter int
}

var _ stores.Blobs = (*Store)(nil)

// New returns a Store. It connects to nothing.
func New(cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Store{
		cfg: cfg, http: newHTTP(cfg), memory: newBudget(cfg.Memory), sizes: sizes{single: 5 << 30, streamPart: 64 * mebi, copyPart: 512 * mebi, growAfter: maxParts / 10},
	}, nil
}

// Close ends idle connections.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.api != nil {
		if h, ok := s.api.Options().HTTPClient.(*http.Client); ok {
			h.CloseIdleConnections()
		}
	}
	if s.slow != nil {
		s.slow.CloseIdleConnections()
	}
	return nil
}

func (s *Store) client(ctx context.Context) (*s3.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.api == nil {
		api, err := newClient(ctx, s.cfg, s.http)
		if err != nil {
			return nil, fence.Wrap(fence.CodeStoreUnavailable, err, "read the AWS configuration")
		}
		s.api, s.slow = api, withoutAnswerTimeout(api)
	}
	return s.api, nil
}

// withoutAnswerTimeout returns a client of the same configuration that waits for answers as long as its call may take.
func withoutAnswerTimeout(api *s3.Client) *http.Client {
	h, ok := api.Options().HTTPClient.(*http.Client)
	if !ok {
		return nil
	}
	t, ok := h.Transport.(*http.Transport)
	if !ok {
		return nil
	}
	t = t.Clone()
	t.ResponseHeaderTimeout = 0
	return &http.Client{Transport: t, CheckRedirect: h.CheckRedirect}
}

// patient is for calls that the server answers when it has copied bytes, which takes as long as there are bytes.
func (s *Store) patient(o *s3.Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slow != nil {
		o.HTTPClient = s.slow
	}
}

// home is the bucket that has the blobs of a bucket's objects.
func (s *Store) home(bucket string) string { return cmp.Or(s.cfg.BlobBucket, bucket) }

func (s *Store) key(id string) string { return s.cfg.Prefix + "blobs/" + id }

// stagingKey is where a client puts a blob itself, before it is copied to the key that no client learns.
func (s *Store) stagingKey(id string) string { return s.cfg.Prefix + "staging/" + id }

// Open implements stores.Blobs.
func (s *Store) Open(ctx context.Context, bucket, id string, offset, length int64) (io.ReadCloser, error) {
	if err := checkNames(bucket, id); err != nil {
		return nil, err
	}
	if offset < 0 || length < 0 {
		return nil, fence.Errorf(fence.CodeInternal, "blob %s has no %d bytes from %d", id, length, offset)
	}
	bucket = s.home(bucket)
	if length == 0 {
		// There is no empty range to ask for.
		size, err := s.size(ctx, bucket, id)
		if err == nil && offset > size {
			err = errTooShort(id, offset, length)
		}
		return http.NoBody, err
	}
	api, err := s.client(ctx)
	if err != nil {
		return nil, err
	}
	out, err := api.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &bucket,
		Key:    aws.String(s.key(id)),
		Range:  aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)),
	})
	switch {
	case apiCode(err) == "InvalidRange":
		return nil, errTooShort(id, offset, length)
	case err != nil:
		return nil, failure(err, "read", bucket, id)
	case out.ContentLength == nil || *out.ContentLength != length:
		out.Body.Close()
		return nil, errTooShort(id, offset, length)
	}
	return out.Body, nil
}

// size asks the server how many bytes a blob has.
func (s *Store) size(ctx context.Context, bucket, id string) (int64, error) {
	api, err := s.client(ctx)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	out, err := api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: aws.String(s.key(id))})
	if err != nil {
		return 0, failure(err, "read", bucket, id)
	}
	return aws.ToInt64(out.ContentLength), nil
}

// Delete implements stores.Blobs. It also deletes what a client may have left under the blob's staging key. A bucket that is gone
// took its blobs along.
func (s *Store) Delete(ctx context.Context, bucket, id string) error {
	if err := checkNames(bucket, id); err != nil {
		return err
	}
	bucket = s.home(bucket)
	api, err := s.client(ctx)
	if err != nil {
		return err
	}
	for _, key := range []string{s.stagingKey(id), s.key(id)} {
		if err := s.remove(ctx, api, bucket, key); err != nil {
			return failure(err, "delete", bucket, id)
		}
	}
	return nil
}

// remove deletes a key; one that is absent is no error. Its error is the SDK's.
func (s *Store) remove(ctx context.Context, api *s3.Client, bucket, key string) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	_, err := api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: &key})
	switch apiCode(err) {
	case "NoSuchKey", "NotFound", "NoSuchBucket":
		return nil
	}
	return err
}

func checkNames(bucket, id string) error {
	if err := checkBucket(bucket); err != nil {
		return err
	}
	return stores.CheckBlobID(id)
}

func checkBucket(bucket string) error {
	if bucket == "" || bucket == "." || bucket == ".." || strings.ContainsAny(bucket, "/\\\x00") {
		return fence.Errorf(fence.CodeInvalidRequest, "%.40q cannot be a bucket's name on S3", bucket).In("bucket")
	}
	return nil
}

func errTooShort(id string, offset, length int64) error {
	return fence.Errorf(fence.CodeInternal, "blob %s does not have %d bytes from %d", id, length, offset)
}

// apiCode returns the error code of S3's answer; empty if it did not answer.
func apiCode(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}

// failure turns an error of a call into one of ours.
func failure(err error, verb, bucket, id string) error {
	switch apiCode(err) {
	case "NoSuchKey", "NotFound":
		return fence.Wrap(fence.CodeInternal, errors.Join(stores.ErrMissing, err), "%s blob %s in bucket %s", verb, id, bucket)
	case "NoSuchBucket":
		return fence.Wrap(fence.CodeStoreUnavailable, err, "the S3 has no bucket %s", bucket)
	}
	return fence.Wrap(fence.CodeStoreUnavailable, err, "%s blob %s in bucket %s on S3", verb, id, bucket)
}
