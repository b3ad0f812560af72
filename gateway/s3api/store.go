package s3api

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"github.com/fencegate/fencegate/fence"
)

// store is versitygw's backend on the objects of the front. Its methods find the call that they belong to in their context.
type store struct{ backend.BackendUnsupported }

var _ backend.Backend = (*store)(nil)

// String names the backend.
func (*store) String() string { return "fencegate" }

// GetObjectLockConfiguration tells that no object is locked: versitygw asks before each write.
func (*store) GetObjectLockConfiguration(context.Context, string) ([]byte, error) {
	return nil, s3err.GetAPIError(s3err.ErrObjectLockConfigurationNotFound)
}

// result is what a method of the backend answers, its error as S3 tells it.
func result[T any](c *call, v T, err error) (T, error) {
	if err != nil {
		var none T
		return none, c.fail(err)
	}
	return v, nil
}

// ListBuckets lists the buckets of which the caller may read something.
func (*store) ListBuckets(ctx context.Context, in s3response.ListBucketsInput) (s3response.ListAllMyBucketsResult, error) {
	c := callOf(ctx)
	v, err := c.listBuckets(in)
	return result(c, v, err)
}

// HeadBucket tells whether there is a bucket for the caller.
func (*store) HeadBucket(ctx context.Context, in *s3.HeadBucketInput) (*s3.HeadBucketOutput, error) {
	c := callOf(ctx)
	return result(c, &s3.HeadBucketOutput{}, c.headBucket(*in.Bucket))
}

// PutObject stores an object.
func (*store) PutObject(ctx context.Context, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	c := callOf(ctx)
	v, err := c.putObject(in)
	return result(c, v, err)
}

// HeadObject describes an object.
func (*store) HeadObject(ctx context.Context, in *s3.HeadObjectInput) (*s3.HeadObjectOutput, error) {
	c := callOf(ctx)
	v, err := c.headObject(in)
	return result(c, v, err)
}

// GetObject reads an object.
func (*store) GetObject(ctx context.Context, in *s3.GetObjectInput) (*s3.GetObjectOutput, error) {
	c := callOf(ctx)
	v, err := c.getObject(in)
	return result(c, v, err)
}

// CopyObject points an object to another one's body.
func (*store) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (s3response.CopyObjectOutput, error) {
	c := callOf(ctx)
	v, err := c.copyObject(in)
	return result(c, v, err)
}

// DeleteObject deletes an object.
func (*store) DeleteObject(ctx context.Context, in *s3.DeleteObjectInput) (*s3.DeleteObjectOutput, error) {
	c := callOf(ctx)
	return result(c, &s3.DeleteObjectOutput{}, c.deleteObject(in))
}

// DeleteObjects deletes objects, each by itself.
func (*store) DeleteObjects(ctx context.Context, in *s3.DeleteObjectsInput) (s3response.DeleteResult, error) {
	c := callOf(ctx)
	v, err := c.deleteObjects(*in.Bucket, in.Delete.Objects)
	return result(c, v, err)
}

// ListObjects lists objects.
func (*store) ListObjects(ctx context.Context, in *s3.ListObjectsInput) (s3response.ListObjectsResult, error) {
	c := callOf(ctx)
	v, err := c.listObjects(in)
	return result(c, v, err)
}

// ListObjectsV2 lists objects.
func (*store) ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input) (s3response.ListObjectsV2Result, error) {
	c := callOf(ctx)
	v, err := c.listObjectsV2(in)
	return result(c, v, err)
}

func nameOf(bucket, key *string) fence.ObjectName {
	return fence.ObjectName{Bucket: *bucket, Key: *key}
}

func ptr[T any](v T) *T { return &v }

// text is a pointer to a text, nil for an empty one, which is how versitygw leaves a header out.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
