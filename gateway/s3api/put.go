package s3api

import (
	"io"
	"strings"

	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3response"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

func (c *call) putObject(in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	none := s3response.PutObjectOutput{}
	if err := c.begin(*in.Bucket, *in.Key); err != nil {
		return none, err
	}
	write, err := c.write(fence.OpPut)
	if err != nil {
		return none, err
	}
	write.Size, write.WantETag = *in.ContentLength, true
	defer c.cfg.Shared.Transfer()()
	ctx, cancel := c.detached(c.cfg.UploadLimit + c.cfg.WriteTimeout)
	defer cancel()
	// Asked before the first byte is read: a client that sent Expect: 100-continue then keeps its body.
	if write, err = c.cfg.Objects.CheckWrite(ctx, write); err != nil {
		return none, err
	}
	c.readBody()
	if write.Body, err = checked(in.Body, append(putSums(in), c.presignedHash())); err != nil {
		return none, err
	}
	o, err := c.cfg.Objects.WriteObject(ctx, write)
	if err != nil {
		return none, gateway.Settled(err)
	}
	c.done(o)
	return s3response.PutObjectOutput{ETag: tagOf(o)}, nil
}

// write reads what a write says of itself, its body apart.
func (c *call) write(op fence.Op) (w fence.ObjectWrite, err error) {
	w = fence.ObjectWrite{Op: op, Object: c.name}
	if w.Access, err = c.writeAccess(); err != nil {
		return w, err
	}
	if w.If, err = c.condition(w.Access); err != nil {
		return w, err
	}
	w.Header, err = headerOf(c.r, c.cfg.MaxMeta)
	return w, err
}

// sum is a checksum that the client sent in a header, in base64.
type sum struct {
	kind  utils.HashType
	value *string
}

func putSums(in s3response.PutObjectInput) []sum {
	return []sum{
		{utils.HashTypeCRC32, in.ChecksumCRC32}, {utils.HashTypeCRC32C, in.ChecksumCRC32C}, {utils.HashTypeCRC64NVME, in.ChecksumCRC64NVME},
		{utils.HashTypeSha1, in.ChecksumSHA1}, {utils.HashTypeSha256, in.ChecksumSHA256}, {utils.HashTypeSha512, in.ChecksumSHA512},
		{utils.HashTypeMd5, in.ChecksumMD5}, {utils.HashTypeXXHASH64, in.ChecksumXXHASH64}, {utils.HashTypeXXHASH3, in.ChecksumXXHASH3},
		{utils.HashTypeXXHASH128, in.ChecksumXXHASH128},
	}
}

// checked fails at the end of a body that has not the checksums. Those of trailers are checked where chunks are taken apart.
func checked(body io.Reader, sums []sum) (io.Reader, error) {
	for _, s := range sums {
		if s.value == nil || strings.TrimSpace(*s.value) == "" {
			continue
		}
		var err error
		if body, err = utils.NewHashReader(body, *s.value, s.kind); err != nil {
			return nil, fence.Wrap(fence.CodeInvalidRequest, err, "there is no checksum %s", s.kind)
		}
	}
	return body, nil
}
