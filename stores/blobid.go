package stores

import (
	"errors"

	"github.com/fencegate/fencegate/fence"
)

var (
	// ErrMissing is in the chain of the error about a blob or natural object that the store does not have.
	ErrMissing = errors.New("the blob store has no such blob")
	// ErrChanged is in the chain of the error about a natural object that is not the one it was.
	ErrChanged = errors.New("the object was replaced past the gateway")
)

const (
	minBlobID = 4
	maxBlobID = 128
)

// CheckBlobID tells whether a blob store may use id in a key or a file's name: 4 to 128 letters, digits, - and _.
// Nothing that a user chose gets into an id.
func CheckBlobID(id string) error {
	if len(id) < minBlobID || len(id) > maxBlobID {
		return fence.Errorf(fence.CodeInternal, "a blob id has %d to %d characters, this one has %d", minBlobID, maxBlobID, len(id))
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return fence.Errorf(fence.CodeInternal, "the blob id %q has a character other than letters, digits, - and _", id)
		}
	}
	return nil
}
