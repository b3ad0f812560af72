package s3api

import (
	"slices"
	"strings"

	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"

	"github.com/fencegate/fencegate/fence"
)

const (
	headerHash      = "X-Amz-Content-Sha256"
	unsignedPayload = "UNSIGNED-PAYLOAD"
	chunkEncoding   = "aws-chunked"
)

// framing refuses an object's body that says it comes in chunks, where it would be stored with their framing: they are taken apart when the
// request's hash names them, and only a signature in the header tells how they are signed.
func (c *call) framing() error {
	hash := c.r.Header.Get(headerHash)
	switch streams := strings.HasPrefix(hash, "STREAMING-"); {
	case streams && c.presigned:
		return fence.Errorf(fence.CodeInvalidRequest, "a body in chunks needs a signature in the header Authorization").In(headerHash)
	case c.presigned && hash != "" && !utils.IsValidSha256PayloadHeader(hash):
		return s3err.GetInvalidArgumentErr(s3err.InvalidArgSHA256Payload, hash)
	case !streams && slices.ContainsFunc(encodings(c.r.Header.Values("Content-Encoding")), isChunks):
		return fence.Errorf(fence.CodeInvalidRequest, "a body that is encoded as %s needs a %s that begins with STREAMING-", chunkEncoding, headerHash).In("Content-Encoding")
	}
	return nil
}

// presignedHash is the body's hash that came with a presigned URL, which versitygw does not look at.
func (c *call) presignedHash() sum {
	hash := c.r.Header.Get(headerHash)
	if !c.presigned || hash == unsignedPayload {
		return sum{}
	}
	return sum{utils.HashTypeSha256Hex, &hash}
}

// encodings takes lists of encodings apart.
func encodings(lines []string) (found []string) {
	for e := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		if e = strings.TrimSpace(e); e != "" {
			found = append(found, e)
		}
	}
	return found
}

func isChunks(encoding string) bool { return strings.EqualFold(encoding, chunkEncoding) }

// withoutChunks takes aws-chunked out of a list of encodings: it is how a body travels, not how it is kept.
func withoutChunks(list string) string {
	return strings.Join(slices.DeleteFunc(encodings([]string{list}), isChunks), ",")
}
