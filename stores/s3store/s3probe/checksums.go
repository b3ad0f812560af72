package s3probe

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/minio/crc64nvme"
)

const (
	payloadHash    = "x-amz-content-sha256"
	checksumSHA256 = "x-amz-checksum-sha256"
	checksumCRC32C = "x-amz-checksum-crc32c"
	checksumCRC64  = "x-amz-checksum-crc64nvme"
	contentMD5     = "Content-MD5"
)

func crc64NVME(b []byte) []byte {
	return binary.BigEndian.AppendUint64(nil, crc64nvme.Checksum(b))
}

func crc32C(b []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

func sumSHA256(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:]
}

func sumMD5(b []byte) []byte {
	sum := md5.Sum(b)
	return sum[:]
}

// tryChecksums sends each kind of checksum, the body's and another's.
func tryChecksums(ctx context.Context, t *trial) error {
	for _, c := range []struct {
		name string
		sum  func([]byte) []byte
		set  func(*s3.PutObjectInput, *string)
	}{
		{payloadHash, sumSHA256, nil},
		{checksumSHA256, sumSHA256, func(in *s3.PutObjectInput, v *string) { in.ChecksumSHA256 = v }},
		{checksumCRC32C, crc32C, func(in *s3.PutObjectInput, v *string) { in.ChecksumCRC32C = v }},
		{checksumCRC64, crc64NVME, func(in *s3.PutObjectInput, v *string) { in.ChecksumCRC64NVME = v }},
		{contentMD5, sumMD5, func(in *s3.PutObjectInput, v *string) { in.ContentMD5 = v }},
	} {
		body, key := random(bodySize), t.key("checksum-"+c.name)
		send := func(key string, of []byte) error {
			if c.set == nil {
				_, err := t.put(ctx, key, body, nil, signedAs(sha256.Sum256(of)))
				return err
			}
			_, err := t.put(ctx, key, body, func(in *s3.PutObjectInput) { c.set(in, checksum(c.sum(of))) })
			return err
		}
		wrongKey := t.key("wrong-" + c.name)
		outcome, note, err := contrast(
			func() error { return send(key, body) },
			func() error { return send(wrongKey, but(body)) },
		)
		if err != nil {
			return err
		}
		if outcome == Honours {
			if _, err := t.length(ctx, wrongKey); err == nil {
				outcome, note = Wrong, "a wrong one is refused, and its object is visible"
			} else if !hides(err) {
				return err
			}
		}
		t.find(c.name, outcome, note)
	}
	return nil
}
