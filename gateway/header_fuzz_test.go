package gateway

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/fencegate/fencegate/fence"
)

// A trace id goes into a header and into logs: it is 32 digits that the header had, or nothing.
func FuzzTraceparent(f *testing.F) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, s := range []string{"00-" + id + "-00f067aa0ba902b7-01", "01-" + id + "-00f067aa0ba902b7-01-x", "ff-" + id + "-00f067aa0ba902b7-01", "", "---", "00-" + id} {
		f.Add(s)
	}
	form := regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$`)
	f.Fuzz(func(t *testing.T, line string) {
		id, ok := parseTraceparent([]string{line})
		if ok != (id != "") {
			t.Fatalf("%q: %q, %t", line, id, ok)
		}
		if !ok {
			return
		}
		if m := form.FindStringSubmatch(strings.ReplaceAll(line, "\n", " ")); m == nil || m[1] != id || strings.HasPrefix(line, "ff") || strings.Trim(id, "0") == "" {
			t.Fatalf("%q was read as %q", line, id)
		}
		if _, ok := parseTraceparent([]string{line, line}); ok {
			t.Fatal("one of two lines was chosen")
		}
	})
}

// What is kept beside an object comes back in headers: it must have no line breaks, and fit into the limits.
func FuzzObjectHeader(f *testing.F) {
	f.Add("Content-Type", "text/plain", "a")
	f.Add("X-Meta-A", "ü\r\nX: y", "b")
	f.Add("X-Meta-", "\x00", "\u202e")
	f.Add("Cache-Control", strings.Repeat("x", 1025), "")
	g := &Gateway{cfg: Config{MaxMeta: 64}.withDefaults()}
	f.Fuzz(func(t *testing.T, name, first, second string) {
		h := http.Header{}
		h.Add(name, first)
		h.Add(name, second)
		kept, err := g.objectHeader(h)
		if err != nil {
			if fence.CodeOf(err) != fence.CodeInvalidRequest {
				t.Fatal(err)
			}
			return
		}
		size := 0
		for name, value := range kept.Meta {
			size += len(name) + len(value)
			if name == "" || name != strings.ToLower(name) {
				t.Errorf("meta name %q", name)
			}
		}
		for _, value := range append(slices.Collect(maps.Values(kept.Meta)), kept.ContentType, kept.ContentEncoding, kept.ContentDisposition, kept.CacheControl) {
			if len(value) > maxContentHeader || strings.ContainsFunc(value, unicode.IsControl) || strings.ToValidUTF8(value, "") != value {
				t.Errorf("%s: %q, %q: %q is kept", name, first, second, value)
			}
		}
		if size > 64 || kept.ContentType == "" {
			t.Errorf("%d bytes of meta, content type %q", size, kept.ContentType)
		}
	})
}

// A digest is 32 bytes that some member has, or the header is refused; MD5 likewise.
func FuzzDigest(f *testing.F) {
	const sum = "sha-256=:n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=:"
	for _, s := range []string{sum, "sha-512=:YQ==:", sum + ", " + sum, "sha-256=:YQ==:", ",", "", "sha-256", "kL8=", "1B2M2Y8AsgTpgAmY7PhCfg=="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got, err := sha256Digest(http.Header{"Content-Digest": {line}})
		if got != nil && (len(got) != 32 || err != nil || !strings.Contains(line, "sha-256=:")) {
			t.Errorf("%q: %x, %v", line, got, err)
		}
		again, err := sha256Digest(http.Header{"Content-Digest": {line}, "Repr-Digest": {line}})
		if got != nil && (err != nil || string(again) != string(got)) {
			t.Errorf("%q given twice: %x, %v", line, again, err)
		}
		if got == nil && err == nil && strings.HasPrefix(line, "sha-256=:") {
			t.Errorf("%q: the digest was overlooked", line)
		}
		md5, err := contentMD5(http.Header{"Content-Md5": {line}})
		if (err == nil) != (len(md5) == 16) {
			t.Errorf("%q as MD5: %x, %v", line, md5, err)
		}
	})
}
