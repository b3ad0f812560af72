package gateway

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fencegate/fencegate/fence"
)

const (
	metaPrefix         = "X-Meta-"
	maxContentHeader   = 1024
	defaultContentType = "application/octet-stream"
)

// objectHeader reads what is kept beside an object's bytes.
func (g *Gateway) objectHeader(h http.Header) (fence.ObjectHeader, error) {
	var kept fence.ObjectHeader
	for _, f := range []struct {
		name  string
		value *string
	}{
		{"Content-Type", &kept.ContentType},
		{"Content-Encoding", &kept.ContentEncoding},
		{"Content-Disposition", &kept.ContentDisposition},
		{"Cache-Control", &kept.CacheControl},
	} {
		*f.value = strings.Join(h.Values(f.name), ", ")
		if len(*f.value) > maxContentHeader || !printable(*f.value) {
			return fence.ObjectHeader{}, fence.Errorf(fence.CodeInvalidRequest,
				"%s has at most %d bytes of printable UTF-8", f.name, maxContentHeader).In(f.name)
		}
	}
	if _, err := one(h, "Content-Type"); err != nil {
		return fence.ObjectHeader{}, err
	}
	kept.ContentType = cmp.Or(kept.ContentType, defaultContentType)
	var err error
	kept.Meta, err = g.objectMeta(h)
	return kept, err
}

func (g *Gateway) objectMeta(h http.Header) (map[string]string, error) {
	var meta map[string]string
	size := 0
	for name, lines := range h {
		short, found := strings.CutPrefix(name, metaPrefix)
		if !found {
			continue
		}
		value := strings.Join(lines, ", ")
		if short == "" || !printable(value) {
			return nil, fence.Errorf(fence.CodeInvalidRequest, "%s needs a name and a value of printable UTF-8", name).In(name)
		}
		if size += len(short) + len(value); size > g.cfg.MaxMeta {
			return nil, fence.Errorf(fence.CodeInvalidRequest, "the %s* headers have at most %d bytes together", metaPrefix, g.cfg.MaxMeta).In(metaPrefix + "*")
		}
		if meta == nil {
			meta = map[string]string{}
		}
		meta[strings.ToLower(short)] = value
	}
	return meta, nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// contentMD5 reads Content-MD5, nil when it is not given.
func contentMD5(h http.Header) ([]byte, error) { return checksumHeader(h, "Content-MD5", 16) }

// checksumHeader reads a header that is the base64 of a checksum of so many bytes, nil when it is not given.
func checksumHeader(h http.Header, name string, size int) ([]byte, error) {
	value, err := one(h, name)
	if err != nil || len(h.Values(name)) == 0 {
		return nil, err
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(value)
	if err != nil || len(sum) != size {
		return nil, fence.Errorf(fence.CodeInvalidRequest, "%s is the base64 of %d bytes", name, size).In(name)
	}
	return sum, nil
}

// sha256Digest reads sha-256 from Content-Digest or Repr-Digest (RFC 9530), which mean the same here: what is sent
// is the whole representation as it is kept. Other algorithms are ignored, as the RFC allows.
func sha256Digest(h http.Header) ([]byte, error) {
	var sum []byte
	for _, name := range []string{"Content-Digest", "Repr-Digest"} {
		malformed := fence.Errorf(fence.CodeInvalidRequest, "%s is sha-256=:<base64 of 32 bytes>:", name).In(name)
		lines := slices.DeleteFunc(strings.Split(strings.Join(h.Values(name), ","), ","), func(s string) bool { return strings.TrimSpace(s) == "" })
		if len(lines) == 0 && len(h.Values(name)) > 0 {
			return nil, malformed
		}
		for _, member := range lines {
			algorithm, value, found := strings.Cut(strings.TrimSpace(member), "=")
			if !found || algorithm == "" || len(value) < 2 || value[0] != ':' || value[len(value)-1] != ':' {
				return nil, malformed
			}
			if algorithm != "sha-256" {
				continue
			}
			got, err := base64.StdEncoding.Strict().DecodeString(value[1 : len(value)-1])
			if err != nil || len(got) != 32 {
				return nil, malformed
			}
			if sum != nil && !bytes.Equal(sum, got) {
				return nil, fence.Errorf(fence.CodeInvalidRequest, "two digests of the body differ").In(name)
			}
			sum = got
		}
	}
	return sum, nil
}
