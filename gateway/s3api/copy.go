package s3api

import (
	"cmp"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3response"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

func (c *call) copyObject(in s3response.CopyObjectInput) (s3response.CopyObjectOutput, error) {
	none := s3response.CopyObjectOutput{}
	if err := c.begin(*in.Bucket, *in.Key); err != nil {
		return none, err
	}
	write, err := c.write(fence.OpCopy)
	if err != nil {
		return none, err
	}
	if write.KeepHeader = in.MetadataDirective != types.MetadataDirectiveReplace; write.KeepHeader {
		write.Header = fence.ObjectHeader{}
	}
	if write.From, err = c.source(*in.CopySource); err != nil {
		return none, err
	}
	ctx, cancel := c.detached(c.cfg.UploadLimit + c.cfg.WriteTimeout) // a store may have to copy bytes
	defer cancel()
	o, err := c.cfg.Objects.WriteObject(ctx, write)
	if err != nil {
		return none, gateway.Settled(err)
	}
	c.done(o)
	return s3response.CopyObjectOutput{CopyObjectResult: &s3response.CopyObjectResult{ETag: ptr(tagOf(o)), LastModified: &o.ModifiedAt}}, nil
}

// source reads what is copied. Where there are conditions on it, the copy is of the very version that met them.
func (c *call) source(header string) (from fence.ObjectSource, err error) {
	bucket, key, version, err := backend.ParseCopySource(header)
	if err != nil {
		return from, err
	}
	from.Object = fence.ObjectName{Bucket: bucket, Key: key}
	if err := fence.CheckObjectKey(key); err != nil {
		return from, err
	}
	if err := c.may(gateway.VerbRead, from.Object); err != nil {
		return from, err
	}
	if version != "" && version != "null" {
		if from.Version, err = fence.ParseVersion(version); err != nil {
			return from, fence.Errorf(fence.CodeInvalidRequest, "a version is the token under which it was published").In("versionId")
		}
	}
	conditional := false
	for _, name := range []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"} {
		conditional = conditional || c.r.Header.Get(sourcePrefix+name) != ""
	}
	if !conditional {
		return from, nil
	}
	o, err := c.sourceObject(from)
	if err != nil {
		return from, err
	}
	from.Version = cmp.Or(from.Version, o.Version)
	return from, nil
}

const sourcePrefix = "X-Amz-Copy-Source-"

// sourceObject reads what is copied, and holds it against the conditions.
func (c *call) sourceObject(from fence.ObjectSource) (o fence.Object, err error) {
	by := fence.Access{Principal: c.caller.Principal(), As: c.caller.Identity()}
	if from.Version == 0 {
		o, err = c.cfg.Objects.Object(c.r.Context(), from.Object, by)
	} else {
		o, err = c.cfg.Objects.Version(c.r.Context(), from.Object, by, from.Version)
	}
	if err == nil {
		err = judge(c.r.Header, sourcePrefix, o)
	}
	return o, err
}
