package fence

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Digest is a SHA-256 over length-prefixed fields.
type Digest [sha256.Size]byte

// DigestOf hashes the fields, each preceded by its length in 8 bytes, so that no two lists of fields run together.
func DigestOf(fields ...string) Digest {
	const prefix = 8
	size := prefix * len(fields)
	for _, f := range fields {
		size += len(f)
	}
	// Small fields have room here, and take no memory.
	var room [512]byte
	text := room[:0]
	if size > len(room) {
		text = make([]byte, 0, size)
	}
	for _, f := range fields {
		text = append(binary.BigEndian.AppendUint64(text, uint64(len(f))), f...)
	}
	return sha256.Sum256(text)
}

// String returns the digest in hex.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// AcquireDigest is the value under which a locker keeps a lease: it lets a repeated acquire find its own lease
// and nobody else's.
func AcquireDigest(principal, acquireID string) Digest {
	return DigestOf("acquire", principal, acquireID)
}

// IDDigest is what the ledger keeps of a grant's secret id.
func IDDigest(id string) Digest { return sha256.Sum256([]byte(id)) }
