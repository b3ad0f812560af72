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
	h := sha256.New()
	var size [8]byte
	for _, f := range fields {
		binary.BigEndian.PutUint64(size[:], uint64(len(f)))
		h.Write(size[:])
		h.Write([]byte(f))
	}
	return Digest(h.Sum(nil))
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
