package s3api

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

// reading is an object that is read, and the run of its bytes.
type reading struct {
	fence.Object
	offset, length int64
	partial        bool
	// parts is of how many the object was made, for who asks for one of them; nil for one that came in one piece.
	parts *int32
}

func (c *call) headObject(in *s3.HeadObjectInput) (*s3.HeadObjectOutput, error) {
	r, err := c.read(nameOf(in.Bucket, in.Key), deref(in.VersionId), in.PartNumber)
	if err != nil {
		return nil, err
	}
	h := r.Header
	return &s3.HeadObjectOutput{
		AcceptRanges: ptr("bytes"), ContentLength: &r.length, ContentRange: r.contentRange(), PartsCount: r.parts, ETag: ptr(tagOf(r.Object)), LastModified: &r.ModifiedAt,
		ContentType: ptr(cmp.Or(h.ContentType, defaultContentType)), ContentEncoding: text(h.ContentEncoding), ContentDisposition: text(h.ContentDisposition),
		CacheControl: text(h.CacheControl), Metadata: h.Meta, ChecksumSHA256: r.sum(in.ChecksumMode), ChecksumType: r.sumType(in.ChecksumMode),
	}, nil
}

func (c *call) getObject(in *s3.GetObjectInput) (*s3.GetObjectOutput, error) {
	r, err := c.read(nameOf(in.Bucket, in.Key), deref(in.VersionId), in.PartNumber)
	if err != nil {
		return nil, err
	}
	// Opened before a body is promised.
	body := io.NopCloser(io.Reader(bytes.NewReader(nil)))
	if r.length > 0 {
		if body, err = c.cfg.Objects.Open(c.r.Context(), r.Object, r.offset, r.length); err != nil {
			return nil, err
		}
	}
	h := r.Header
	return &s3.GetObjectOutput{
		Body: body, AcceptRanges: ptr("bytes"), ContentLength: &r.length, ContentRange: r.contentRange(), PartsCount: r.parts, ETag: ptr(tagOf(r.Object)), LastModified: &r.ModifiedAt,
		ContentType: ptr(cmp.Or(h.ContentType, defaultContentType)), ContentEncoding: text(h.ContentEncoding), ContentDisposition: text(h.ContentDisposition),
		CacheControl: text(h.CacheControl), Metadata: h.Meta, ChecksumSHA256: r.sum(in.ChecksumMode), ChecksumType: r.sumType(in.ChecksumMode),
	}, nil
}

// read finds the object, or a version that is kept, and applies the conditions and the range.
func (c *call) read(name fence.ObjectName, version string, part *int32) (r reading, err error) {
	if err := c.begin(name.Bucket, name.Key); err != nil {
		return r, err
	}
	for name, values := range c.r.URL.Query() {
		if strings.HasPrefix(name, "response-") && (len(values[0]) > maxContentHeader || !printable(values[0])) {
			return r, fence.Errorf(fence.CodeInvalidRequest, "%s has at most %d bytes of printable UTF-8", name, maxContentHeader).In(name)
		}
	}
	if r.Object, err = c.find(name, version); err != nil {
		return r, err
	}
	h := c.w.Header()
	gateway.SetLease(h, r.Lease)
	h.Set(headerToken, r.Mark.String())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
	if err := judge(c.r.Header, "", r.Object); err != nil {
		h.Set("ETag", tagOf(r.Object)) // also of an answer without the object
		return r, err
	}
	if part != nil {
		return r, r.part(*part)
	}
	asked := c.r.Header.Get("Range")
	if tags := tagsOf(c.r.Header, "If-Range"); tags.given && (tags.any || !tags.has(tagOf(r.Object))) {
		asked = "" // also for a date, within whose second two bodies may have been published (I6)
	}
	r.offset, r.length, r.partial, err = backend.ParseObjectRange(r.Size, asked)
	return r, err
}

// part makes the run of bytes that of a part. An object that came in one piece is its own only part, as in S3. Where the parts of others met is
// not kept.
func (r *reading) part(n int32) error {
	count := int32(1)
	if sum, told, _ := strings.Cut(r.ETag, "-"); len(sum) == etagDigits && told != "" {
		if parsed, err := strconv.ParseInt(told, 10, 32); err == nil {
			count = int32(parsed)
			r.parts = &count
		}
	}
	switch {
	case n > count:
		return s3err.GetInvalidPartNumberRangeErr(count, n)
	case count > 1:
		return notImplemented("?partNumber in a read of an object that was uploaded in parts")
	}
	r.length, r.partial = r.Size, r.Size > 0
	return nil
}

func (c *call) find(name fence.ObjectName, version string) (fence.Object, error) {
	by, err := c.access()
	if err != nil {
		return fence.Object{}, err
	}
	if version == "" || version == "null" {
		return c.cfg.Objects.Object(c.r.Context(), name, by)
	}
	token, err := fence.ParseVersion(version)
	if err != nil {
		return fence.Object{}, fence.Errorf(fence.CodeInvalidRequest, "a version is the token under which it was published").In("versionId")
	}
	return c.cfg.Objects.Version(c.r.Context(), name, by, token)
}

func (r reading) contentRange() *string {
	if !r.partial {
		return nil
	}
	return ptr(fmt.Sprintf("bytes %d-%d/%d", r.offset, r.offset+r.length-1, r.Size))
}

// sum is the SHA-256 of the whole object, for clients that ask for a checksum.
func (r reading) sum(mode types.ChecksumMode) *string {
	raw, err := hex.DecodeString(r.SHA256)
	if mode == "" || r.length != r.Size || err != nil || len(raw) == 0 {
		return nil
	}
	return ptr(base64.StdEncoding.EncodeToString(raw))
}

func (r reading) sumType(mode types.ChecksumMode) types.ChecksumType {
	if r.sum(mode) == nil {
		return ""
	}
	return types.ChecksumTypeFullObject
}
