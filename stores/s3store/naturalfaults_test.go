package s3store_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// Keys reach the server as they are: nothing on the way cleans a path, or takes an escape for what it stands for.
func TestKeysAreSentAsTheyAre(t *testing.T) {
	var lines []string
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		line := r.Method + " " + strings.Split(r.RequestURI, "?")[0]
		if from := r.Header.Get("X-Amz-Copy-Source"); from != "" {
			line = "COPY /" + from
		}
		if r.URL.Query().Has("list-type") {
			fmt.Fprintf(w, `<ListBucketResult><Contents><Key>%s</Key></Contents></ListBucketResult>`, r.URL.Query().Get("prefix"))
			return true
		}
		lines = append(lines, line)
		w.Header().Set("ETag", `"e"`)
		w.Header().Set("Content-Length", "0")
		return r.Method == http.MethodHead
	})
	blobs := open(t, s.config())
	for key, path := range map[string]string{
		"a//b": "a//b", "/foo": "/foo", "a/./b": "a/./b", "a/../b": "a/../b", "..": "..", ".": ".", "//": "//", "a/": "a/",
		"a+b": "a%2Bb", "a%2Fb": "a%252Fb", "a b": "a%20b", "e\u0301": "e%CC%81", "\u00e9": "%C3%A9", "a?b#c": "a%3Fb%23c", `a\b`: "a%5Cb",
		"10+2.jpg": "10%2B2.jpg", "image(1).jpg": "image%281%29.jpg", "images/mac@2x.png": "images/mac%402x.png", "~": "~",
		strings.Repeat("ü", 512): strings.Repeat("%C3%BC", 512),
	} {
		lines = nil
		n, err := blobs.Stat(t.Context(), "bucket", key)
		if err != nil {
			t.Fatalf("stat %q: %v", key, err)
		}
		n.Key = key
		if err := blobs.Take(t.Context(), "bucket", n, id); err != nil {
			t.Errorf("take %q: %v", key, err)
		}
		if err := blobs.Remove(t.Context(), "bucket", key); err != nil {
			t.Errorf("remove %q: %v", key, err)
		}
		want := []string{"HEAD /bucket/" + path, "HEAD /bucket/" + path, "COPY /bucket/" + path, "HEAD /bucket/.fencegate/blobs/" + id, "DELETE /bucket/" + path}
		if strings.Join(lines, "\n") != strings.Join(want, "\n") {
			t.Errorf("%q: %q, want %q", key, lines, want)
		}
	}
}

func TestStatOfOddAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		listed string
		header http.Header
		want   fence.Code
		check  func(stores.Natural) bool
	}{
		"DeleteMarker":   {http.StatusNotFound, "", http.Header{"X-Amz-Delete-Marker": {"true"}}, fence.CodeNotFound, nil},
		"CannotBeHeld":   {http.StatusBadRequest, "other", nil, fence.CodeNotFound, nil},
		"BadCredentials": {http.StatusBadRequest, "", nil, fence.CodeStoreUnavailable, nil},
		"IsThere":        {http.StatusBadRequest, "key", nil, fence.CodeStoreUnavailable, nil},
		"MayNot":         {http.StatusForbidden, "key", nil, fence.CodeStoreUnavailable, nil},
		"Framed": {http.StatusOK, "", http.Header{"Content-Encoding": {"gzip,aws-chunked"}}, fence.CodeAccepted, func(n stores.Natural) bool {
			return n.Header.ContentEncoding == "gzip"
		}},
		"Unframed": {http.StatusOK, "", http.Header{"Content-Encoding": {"aws-chunked"}}, fence.CodeAccepted, func(n stores.Natural) bool {
			return n.Header.ContentEncoding == ""
		}},
		"EncodedMeta": {http.StatusOK, "", http.Header{"X-Amz-Meta-A": {"=?UTF-8?Q?Gr=C3=BC=C3=9Fe?="}}, fence.CodeAccepted, func(n stores.Natural) bool {
			return n.Header.Meta["a"] == "Grüße"
		}},
		"BytesInMeta": {http.StatusOK, "", http.Header{"X-Amz-Meta-A": {"Gr\xfc\xdfe"}}, fence.CodeAccepted, func(n stores.Natural) bool {
			return n.Header.Meta["a"] == "Gr\uFFFDe"
		}},
		"WeakETag": {http.StatusOK, "", http.Header{"Etag": {`W/"abc"`}}, fence.CodeAccepted, func(n stores.Natural) bool { return n.ETag == "abc" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.URL.Query().Has("list-type") {
					if c.listed == "" {
						return failWith(w, http.StatusBadRequest, "ExpiredToken")
					}
					fmt.Fprintf(w, `<ListBucketResult><Contents><Key>%s</Key></Contents></ListBucketResult>`, c.listed)
					return true
				}
				for name, values := range c.header {
					w.Header()[name] = values
				}
				w.WriteHeader(c.status)
				return true
			})
			n, err := open(t, s.config()).Stat(t.Context(), "bucket", "key")
			if fence.CodeOf(err) != c.want || (c.want == fence.CodeNotFound) != errors.Is(err, stores.ErrMissing) {
				t.Errorf("stat: %v, want %s", err, c.want)
			}
			if c.check != nil && !c.check(n) {
				t.Errorf("%+v", n)
			}
		})
	}
}

func TestTakeIsVerified(t *testing.T) {
	const copied = `<CopyObjectResult><ETag>"e"</ETag></CopyObjectResult>`
	for name, c := range map[string]struct {
		answer        func(w http.ResponseWriter, tries int) bool // to the copy
		length, crc32 string                                      // of the copy
		want          fence.Code
		copies        int
	}{
		"Right":         {nil, "4", "AAAAAA==", fence.CodeAccepted, 1},
		"NoChecksum":    {nil, "4", "", fence.CodeAccepted, 1},
		"OtherLength":   {nil, "3", "", fence.CodeStoreUnavailable, 1},
		"OtherChecksum": {nil, "4", "AAAAAQ==", fence.CodeStoreUnavailable, 1},
		"BusyOnce": {func(w http.ResponseWriter, tries int) bool {
			return tries == 1 && failWith(w, http.StatusServiceUnavailable, "SlowDown")
		}, "4", "", fence.CodeAccepted, 2},
		"ConflictOnce": {func(w http.ResponseWriter, tries int) bool {
			return tries == 1 && failWith(w, http.StatusConflict, "ConditionalRequestConflict")
		}, "4", "", fence.CodeAccepted, 2},
		"ErrorInA200": {func(w http.ResponseWriter, _ int) bool {
			return failWith(w, http.StatusOK, "InternalError")
		}, "4", "", fence.CodeStoreUnavailable, 3},
		"Replaced": {func(w http.ResponseWriter, _ int) bool {
			return failWith(w, http.StatusPreconditionFailed, "PreconditionFailed")
		}, "4", "", fence.CodeContention, 1},
		"Removed": {func(w http.ResponseWriter, _ int) bool {
			return failWith(w, http.StatusNotFound, "NoSuchKey")
		}, "4", "", fence.CodeNotFound, 1},
	} {
		t.Run(name, func(t *testing.T) {
			copies := 0
			s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				w.Header().Set("ETag", `"e"`)
				switch {
				case r.Method == http.MethodPut:
					if r.Header.Get("X-Amz-Copy-Source-If-Match") != `"e"` {
						t.Errorf("headers %v", r.Header)
					}
					if copies++; c.answer == nil || !c.answer(w, copies) {
						_, _ = io.WriteString(w, copied)
					}
				case strings.HasSuffix(r.URL.Path, "/key"):
					w.Header().Set("Content-Length", "4")
					w.Header().Set("X-Amz-Checksum-Crc32", "AAAAAA==")
				default:
					w.Header().Set("Content-Length", c.length)
					w.Header().Set("X-Amz-Checksum-Crc32", c.crc32)
				}
				return true
			})
			err := open(t, s.config()).Take(t.Context(), "bucket", stores.Natural{Key: "key", Size: 4, ETag: "e"}, id)
			if fence.CodeOf(err) != c.want || copies != c.copies {
				t.Errorf("take: %v after %d copies, want %s after %d", err, copies, c.want, c.copies)
			}
		})
	}
}

// A server that ignores If-Match answers another object than the one that was described.
func TestIgnoredIfMatchIsNoticed(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		w.Header().Set("ETag", `"other"`)
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, "body")
		return true
	})
	r, err := open(t, s.config()).OpenNatural(t.Context(), "bucket", stores.Natural{Key: "key", Size: 4, ETag: "e"}, 0, 4)
	if err == nil {
		r.Close()
	}
	if !errors.Is(err, stores.ErrChanged) {
		t.Errorf("open: %v", err)
	}
}

// Giving an object a key that the server takes for another's would replace that.
func TestGiveToAKeyThatFolds(t *testing.T) {
	folded := true
	var puts []string
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		w.Header().Set("ETag", `"e"`)
		switch prefix := r.URL.Query().Get("prefix"); {
		case prefix != "" && folded:
			fmt.Fprint(w, `<ListBucketResult></ListBucketResult>`)
		case prefix != "":
			fmt.Fprintf(w, `<ListBucketResult><Contents><Key>%s</Key></Contents></ListBucketResult>`, prefix)
		case r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "":
			puts = append(puts, r.URL.Path)
			fmt.Fprint(w, `<CopyObjectResult><ETag>"e"</ETag></CopyObjectResult>`)
		}
		return true
	})
	give := func(key string) fence.Code {
		_, err := open(t, s.config()).Give(t.Context(), "bucket", fence.Blob{ID: id}, key, fence.ObjectHeader{})
		return fence.CodeOf(err)
	}
	if got := give("a//b"); got != fence.CodeInvalidRequest || len(puts) > 0 {
		t.Errorf("%s, %q", got, puts)
	}
	if got := give("a/b"); got != fence.CodeAccepted {
		t.Errorf("%s", got)
	}
	folded = false
	if got := give("a//b"); got != fence.CodeAccepted || strings.Join(puts, " ") != "/bucket/a/b /bucket/a//b" {
		t.Errorf("%s, %q", got, puts)
	}
}

func TestJoinPartsOfOddAnswers(t *testing.T) {
	parts := []stores.Part{{Number: 1, Size: 5 << 20, ETag: "e"}, {Number: 2, Size: 3, ETag: "f"}}
	for name, c := range map[string]struct {
		status int
		code   string
		length int // of the blob that is there; -1 if there is none
		want   fence.Code
		tries  int
	}{
		"LostAnswer":     {http.StatusNotFound, "NoSuchUpload", 5<<20 + 3, fence.CodeAccepted, 1},
		"Gone":           {http.StatusNotFound, "NoSuchUpload", -1, fence.CodeNotFound, 1},
		"OtherBlob":      {http.StatusNotFound, "NoSuchUpload", 5 << 20, fence.CodeNotFound, 1},
		"ErrorInA200":    {http.StatusOK, "InternalError", 5<<20 + 3, fence.CodeStoreUnavailable, 3},
		"ShortBlob":      {0, "", 5 << 20, fence.CodeStoreUnavailable, 1},
		"TooSmall":       {http.StatusBadRequest, "EntityTooSmall", -1, fence.CodeInvalidRequest, 1},
		"NoSuchPart":     {http.StatusBadRequest, "InvalidPart", -1, fence.CodeInvalidRequest, 1},
		"BusyOnce":       {http.StatusServiceUnavailable, "SlowDown", 5<<20 + 3, fence.CodeAccepted, 2},
		"ConflictOnce":   {http.StatusConflict, "ConditionalRequestConflict", 5<<20 + 3, fence.CodeAccepted, 2},
		"MayNotComplete": {http.StatusForbidden, "AccessDenied", -1, fence.CodeStoreUnavailable, 1},
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				switch {
				case r.Method == http.MethodHead && c.length < 0:
					w.WriteHeader(http.StatusNotFound)
				case r.Method == http.MethodHead:
					w.Header().Set("Content-Length", fmt.Sprint(c.length))
				case r.Method == http.MethodPost:
					if tries++; c.code != "" && tries != c.tries || c.want != fence.CodeAccepted && c.code != "" || c.code == "NoSuchUpload" {
						return failWith(w, c.status, c.code)
					}
					return false
				}
				return true
			})
			err := open(t, s.config()).JoinParts(t.Context(), "bucket", id, "up", parts)
			if fence.CodeOf(err) != c.want || tries != c.tries {
				t.Errorf("join: %v after %d tries, want %s after %d", err, tries, c.want, c.tries)
			}
		})
	}
}

// Copying takes as long as there are bytes; the wait for an answer is not bounded as others are.
func TestCopyWaitsLonger(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"e"`)
		if r.Method == http.MethodPut {
			<-release
			fmt.Fprint(w, `<CopyObjectResult><ETag>"e"</ETag></CopyObjectResult>`)
		}
	}))
	defer s.Close()
	cfg := newScript(t, nil).config()
	cfg.Endpoint, cfg.AnswerTimeout = s.URL, 200*time.Millisecond
	blobs := open(t, cfg)
	done := make(chan error, 1)
	go func() {
		done <- blobs.Take(t.Context(), "bucket", stores.Natural{Key: "key", ETag: "e"}, id)
	}()
	select {
	case err := <-done:
		t.Errorf("take: %v", err)
		close(release)
	case <-time.After(3 * cfg.AnswerTimeout):
		close(release)
		if err := <-done; err != nil {
			t.Errorf("take: %v", err)
		}
	}
}
