package stores

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"hash"
	"hash/crc32"

	"github.com/minio/crc64nvme"

	"github.com/fencegate/fencegate/fence"
)

// checksum is one that a client sent, and what its body comes to.
type checksum struct {
	name, field string
	want        []byte
	hash.Hash
}

// checksums are those that a client sent, other than its SHA-256, which every body is hashed with.
func checksums(w fence.ObjectWrite) (list []checksum) {
	add := func(name, field string, want []byte, make func() hash.Hash) {
		if want != nil {
			list = append(list, checksum{name, field, want, make()})
		}
	}
	add("MD5", "md5", w.MD5, md5.New)
	add("CRC32C", "crc32c", w.CRC32C, func() hash.Hash { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) })
	add("CRC64NVME", "crc64nvme", w.CRC64NVME, func() hash.Hash { return crc64nvme.New() })
	return list
}

// checkLengths refuses checksums that have not the length of their kind.
func checkLengths(w fence.ObjectWrite) error {
	if w.SHA256 != nil && len(w.SHA256) != sha256.Size {
		return wrongLength("SHA-256", "sha256", sha256.Size, w.SHA256)
	}
	for _, c := range checksums(w) {
		if len(c.want) != c.Size() {
			return wrongLength(c.name, c.field, c.Size(), c.want)
		}
	}
	return nil
}

func wrongLength(name, field string, size int, got []byte) error {
	return fence.Errorf(fence.CodeInvalidRequest, "a %s has %d bytes, not %d", name, size, len(got)).In(field)
}

// differs refuses a body whose checksum is not the one that was sent.
func (c checksum) differs() error {
	if sum := c.Sum(nil); !bytes.Equal(c.want, sum) {
		return fence.Errorf(fence.CodeChecksumMismatch, "the body's %s is %x, not %x", c.name, sum, c.want).In(c.field)
	}
	return nil
}
