package s3api

import (
	"cmp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3response"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

func (c *call) createUpload(in s3response.CreateMultipartUploadInput) (s3response.InitiateMultipartUploadResult, error) {
	none := s3response.InitiateMultipartUploadResult{}
	if err := c.begin(*in.Bucket, *in.Key); err != nil {
		return none, err
	}
	write, err := c.write(fence.OpPut)
	if err != nil {
		return none, err
	}
	ctx, cancel := c.detached(c.cfg.WriteTimeout)
	defer cancel()
	u, err := c.cfg.Objects.BeginParts(ctx, write)
	if err != nil {
		return none, gateway.Settled(err)
	}
	return s3response.InitiateMultipartUploadResult{Bucket: *in.Bucket, Key: *in.Key, UploadId: u.ID}, nil
}

// useUpload finds an upload that the caller began for the object. One that was given up is returned with the error.
func (c *call) useUpload(bucket, key, id *string) (fence.PartUpload, error) {
	if err := c.begin(*bucket, *key); err != nil {
		return fence.PartUpload{}, err
	}
	return c.cfg.Objects.UseParts(c.r.Context(), deref(id), c.caller.Principal(), c.name)
}

func (c *call) uploadPart(in *s3.UploadPartInput) (*s3.UploadPartOutput, error) {
	u, err := c.useUpload(in.Bucket, in.Key, in.UploadId)
	if err != nil {
		return nil, err
	}
	defer c.cfg.Shared.Transfer()()
	ctx, cancel := c.detached(c.cfg.UploadLimit + c.cfg.WriteTimeout)
	defer cancel()
	c.readBody()
	body, err := checked(in.Body, []sum{
		{utils.HashTypeCRC32, in.ChecksumCRC32}, {utils.HashTypeCRC32C, in.ChecksumCRC32C}, {utils.HashTypeCRC64NVME, in.ChecksumCRC64NVME},
		{utils.HashTypeSha1, in.ChecksumSHA1}, {utils.HashTypeSha256, in.ChecksumSHA256}, {utils.HashTypeSha512, in.ChecksumSHA512},
		{utils.HashTypeMd5, in.ChecksumMD5}, {utils.HashTypeXXHASH64, in.ChecksumXXHASH64}, {utils.HashTypeXXHASH3, in.ChecksumXXHASH3},
		{utils.HashTypeXXHASH128, in.ChecksumXXHASH128}, c.presignedHash(),
	})
	if err != nil {
		return nil, err
	}
	part, err := c.cfg.Objects.PutPart(ctx, u, int(*in.PartNumber), body, *in.ContentLength)
	if err != nil {
		return nil, err
	}
	return &s3.UploadPartOutput{ETag: ptr(`"` + part.ETag + `"`)}, nil
}

func (c *call) copyPart(in *s3.UploadPartCopyInput) (s3response.CopyPartResult, error) {
	none := s3response.CopyPartResult{}
	u, err := c.useUpload(in.Bucket, in.Key, in.UploadId)
	if err != nil {
		return none, err
	}
	from, err := c.source(*in.CopySource)
	if err != nil {
		return none, err
	}
	o, err := c.sourceObject(from)
	if err != nil {
		return none, err
	}
	offset, length, err := backend.ParseCopySourceRange(o.Size, deref(in.CopySourceRange))
	if err != nil {
		return none, err
	}
	length = min(length, o.Size-offset) // of bytes=5- versitygw counts one too many
	defer c.cfg.Shared.Transfer()()
	ctx, cancel := c.detached(c.cfg.UploadLimit + c.cfg.WriteTimeout)
	defer cancel()
	part, err := c.cfg.Objects.CopyPart(ctx, u, int(*in.PartNumber), o, offset, length)
	if err != nil {
		return none, err
	}
	return s3response.CopyPartResult{ETag: ptr(`"` + part.ETag + `"`), LastModified: part.ModifiedAt}, nil
}

// completeUpload publishes an upload. Each part was checked when it came; what a client says of the whole is not checked again.
func (c *call) completeUpload(in *s3.CompleteMultipartUploadInput) (s3response.CompleteMultipartUploadResult, error) {
	none := s3response.CompleteMultipartUploadResult{}
	u, err := c.useUpload(in.Bucket, in.Key, in.UploadId)
	if fence.CodeOf(err) == fence.CodeUploadExpired && u.ID != "" {
		return none, c.givenUp(u, err)
	} else if err != nil {
		return none, err
	}
	write := fence.ObjectWrite{Op: fence.OpPut, Object: c.name}
	if write.Access, err = c.access(); err != nil {
		return none, err
	}
	if write.If, err = c.condition(write.Access); err != nil {
		return none, err
	}
	named := make([]fence.ObjectPart, len(in.MultipartUpload.Parts))
	for i, p := range in.MultipartUpload.Parts {
		named[i] = fence.ObjectPart{Number: int(deref(p.PartNumber)), ETag: strings.Trim(deref(p.ETag), `"`)}
	}
	ctx, cancel := c.detached(c.cfg.UploadLimit + c.cfg.WriteTimeout) // a store may have to copy bytes
	defer cancel()
	o, err := c.cfg.Objects.JoinParts(ctx, u, write, named)
	if err != nil {
		return none, gateway.Settled(err)
	}
	c.done(o)
	return s3response.CompleteMultipartUploadResult{Bucket: in.Bucket, Key: in.Key, ETag: ptr(tagOf(o))}, nil
}

// givenUp says why an upload that was given up is not completed: a token that has passed is told as such, as long as the upload is known.
func (c *call) givenUp(u fence.PartUpload, gone error) error {
	by, err := c.access()
	if err != nil {
		return err
	}
	by.Token = cmp.Or(by.Token, u.Token)
	_, err = c.cfg.Objects.CheckWrite(c.r.Context(), fence.ObjectWrite{Op: fence.OpPut, Object: c.name, Access: by, Size: -1})
	if fence.CodeOf(err) == fence.CodeStaleToken {
		return err
	}
	return gone
}

func (c *call) abortUpload(in *s3.AbortMultipartUploadInput) error {
	u, err := c.useUpload(in.Bucket, in.Key, in.UploadId)
	if err != nil {
		return err
	}
	ctx, cancel := c.detached(c.cfg.WriteTimeout)
	defer cancel()
	return c.cfg.Objects.AbortParts(ctx, u)
}

func (c *call) listParts(in *s3.ListPartsInput) (s3response.ListPartsResult, error) {
	none := s3response.ListPartsResult{}
	u, err := c.useUpload(in.Bucket, in.Key, in.UploadId)
	if err != nil {
		return none, err
	}
	after, err := partMarker(deref(in.PartNumberMarker))
	if err != nil {
		return none, err
	}
	limit := int(deref(in.MaxParts))
	parts, more, err := c.cfg.Objects.Parts(c.r.Context(), u, after, max(limit, 1))
	if err != nil {
		return none, err
	}
	answer := s3response.ListPartsResult{
		Bucket: *in.Bucket, Key: *in.Key, UploadID: u.ID, PartNumberMarker: after, MaxParts: limit, IsTruncated: more && limit > 0,
		StorageClass: types.StorageClassStandard, Owner: s3response.Owner{ID: u.Principal}, Initiator: s3response.Initiator{ID: u.Principal},
	}
	for _, p := range parts[:min(len(parts), limit)] {
		answer.Parts = append(answer.Parts, s3response.Part{PartNumber: p.Number, ETag: `"` + p.ETag + `"`, Size: p.Size, LastModified: p.ModifiedAt})
		answer.NextPartNumberMarker = p.Number
	}
	return answer, nil
}

// listUploads lists the caller's own uploads.
func (c *call) listUploads(in *s3.ListMultipartUploadsInput) (s3response.ListMultipartUploadsResult, error) {
	prefix, limit := deref(in.Prefix), int(deref(in.MaxUploads))
	none := s3response.ListMultipartUploadsResult{}
	if deref(in.Delimiter) != "" {
		return none, notImplemented("a delimiter in a list of uploads")
	}
	if err := c.beginList(*in.Bucket, prefix); err != nil {
		return none, err
	}
	after := fence.PartUpload{ID: deref(in.UploadIdMarker), Object: fence.ObjectName{Key: deref(in.KeyMarker)}}
	found, err := c.cfg.Objects.ListParts(c.r.Context(), c.caller.Principal(), *in.Bucket, prefix, after, limit+1)
	if err != nil {
		return none, err
	}
	answer := s3response.ListMultipartUploadsResult{
		Bucket: *in.Bucket, Prefix: prefix, KeyMarker: after.Object.Key, UploadIDMarker: after.ID, MaxUploads: limit, IsTruncated: len(found) > limit,
	}
	for _, u := range found[:min(len(found), limit)] {
		answer.NextKeyMarker, answer.NextUploadIDMarker = u.Object.Key, u.ID
		if c.may(gateway.VerbWrite, u.Object) != nil {
			continue // no more, though it began it
		}
		answer.Uploads = append(answer.Uploads, s3response.Upload{
			Key: u.Object.Key, UploadID: u.ID, Initiated: u.BegunAt, StorageClass: types.StorageClassStandard,
			Owner: s3response.Owner{ID: u.Principal}, Initiator: s3response.Initiator{ID: u.Principal},
		})
	}
	return answer, nil
}
