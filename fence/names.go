package fence

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits on names, in bytes.
const (
	MaxLeaseName = 2048
	MaxHolder    = 256
	MaxAcquireID = 128
	MaxObjectKey = 1024
)

// CheckLeaseName tells whether a lease may be called name: 1 to 2048 bytes of UTF-8 without control characters.
func CheckLeaseName(name string) error { return checkName("lease name", name, MaxLeaseName) }

// CheckHolder tells whether a holder may call itself name: 1 to 256 bytes of UTF-8 without control characters.
func CheckHolder(name string) error { return checkName("holder", name, MaxHolder) }

// CheckObjectKey tells whether an object may be called key: 1 to 1024 bytes of UTF-8 without NUL.
func CheckObjectKey(key string) error {
	if key == "" || len(key) > MaxObjectKey {
		return Errorf(CodeInvalidRequest, "an object key has 1 to %d bytes, this one has %d", MaxObjectKey, len(key)).In("key")
	}
	if !utf8.ValidString(key) {
		return Errorf(CodeInvalidRequest, "the object key is not UTF-8").In("key")
	}
	if strings.IndexByte(key, 0) >= 0 {
		return Errorf(CodeInvalidRequest, "the object key has a NUL character").In("key")
	}
	return nil
}

func checkName(what, name string, most int) error {
	if name == "" || len(name) > most {
		return Errorf(CodeInvalidRequest, "a %s has 1 to %d bytes, this one has %d", what, most, len(name)).In(what)
	}
	if !utf8.ValidString(name) {
		return Errorf(CodeInvalidRequest, "the %s is not UTF-8", what).In(what)
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return Errorf(CodeInvalidRequest, "the %s has a control character", what).In(what)
	}
	return nil
}
