package s3store

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/minio/crc64nvme"

	"github.com/fencegate/fencegate/fence"
)

// sums are the checksums of bytes that go to S3, for comparison with what it answers. MD5 is what an ETag mostly is, but takes as long as all
// else that a stream takes here; CRC-64/NVME takes a tenth of that, and AWS answers it for every body that is sent without a checksum.
type sums struct {
	crc hash.Hash64
	// md5 is nil where the server is known to answer the other one.
	md5 hash.Hash
}

func newSums(known *crcKnown) *sums {
	s := &sums{crc: crc64nvme.New()}
	if !known.answered.Load() || known.missed.Load() {
		s.md5 = md5.New()
	}
	return s
}

// crcKnown is whether the server has answered a CRC-64/NVME of what it took without any checksum, and whether it has not once it was relied on:
// then there are several servers, and MD5 is computed too from then on.
type crcKnown struct{ answered, missed atomic.Bool }

func (s *sums) write(p []byte) {
	s.crc.Write(p)
	if s.md5 != nil {
		s.md5.Write(p)
	}
}

// answer is what S3 says of bytes that it took.
type answer struct {
	etag, crc *string
	by        types.ServerSideEncryption
	customer  *string
}

// confirm fails if the answer is one for other bytes, and returns false if it says nothing of them. It notes whether the server answers a CRC.
func (s *sums) confirm(a answer, known *crcKnown) (bool, error) {
	if a.crc != nil {
		known.answered.Store(true)
		return true, compare("CRC64NVME", *a.crc, crcText(s.crc.Sum64()))
	}
	etag := unquote(a.etag)
	switch {
	case s.md5 == nil:
		known.missed.Store(true)
		return false, nil
	case opaque(etag, a.by, a.customer):
		return false, nil
	}
	return true, compare("MD5", etag, hex.EncodeToString(s.md5.Sum(nil)))
}

// crcText is a CRC as S3 writes it.
func crcText(sum uint64) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, sum))
}

func compare(kind, got, sent string) error {
	if got != sent {
		return fence.Errorf(fence.CodeStoreUnavailable, "the S3 took bytes with %s %s instead of %s", kind, got, sent)
	}
	return nil
}
