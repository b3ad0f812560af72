package s3api

import (
	"context"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/s3response"

	"github.com/fencegate/fencegate/fence"
)

// CreateMultipartUpload begins a body in parts.
func (*store) CreateMultipartUpload(ctx context.Context, in s3response.CreateMultipartUploadInput) (s3response.InitiateMultipartUploadResult, error) {
	c := callOf(ctx)
	v, err := c.createUpload(in)
	return result(c, v, err)
}

// UploadPart stores a part.
func (*store) UploadPart(ctx context.Context, in *s3.UploadPartInput) (*s3.UploadPartOutput, error) {
	c := callOf(ctx)
	v, err := c.uploadPart(in)
	return result(c, v, err)
}

// UploadPartCopy stores bytes of an object as a part.
func (*store) UploadPartCopy(ctx context.Context, in *s3.UploadPartCopyInput) (s3response.CopyPartResult, error) {
	c := callOf(ctx)
	v, err := c.copyPart(in)
	return result(c, v, err)
}

// CompleteMultipartUpload publishes the parts as an object.
func (*store) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput) (s3response.CompleteMultipartUploadResult, string, error) {
	c := callOf(ctx)
	v, err := c.completeUpload(in)
	v, err = result(c, v, err)
	return v, "", err
}

// AbortMultipartUpload gives an upload up.
func (*store) AbortMultipartUpload(ctx context.Context, in *s3.AbortMultipartUploadInput) error {
	c := callOf(ctx)
	return c.fail(c.abortUpload(in))
}

// ListParts lists the parts of an upload.
func (*store) ListParts(ctx context.Context, in *s3.ListPartsInput) (s3response.ListPartsResult, error) {
	c := callOf(ctx)
	v, err := c.listParts(in)
	return result(c, v, err)
}

// ListMultipartUploads lists uploads.
func (*store) ListMultipartUploads(ctx context.Context, in *s3.ListMultipartUploadsInput) (s3response.ListMultipartUploadsResult, error) {
	c := callOf(ctx)
	v, err := c.listUploads(in)
	return result(c, v, err)
}

// partMarker is behind which part a list goes on.
func partMarker(marker string) (int, error) {
	if marker == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(marker)
	if err != nil || n < 0 {
		return 0, fence.Errorf(fence.CodeInvalidRequest, "a part number marker is a number").In("part-number-marker")
	}
	return n, nil
}
