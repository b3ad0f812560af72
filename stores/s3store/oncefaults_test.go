package s3store_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// operation names what a request asks for.
func operation(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case q.Has("uploads"):
		return "Create"
	case q.Has("partNumber"):
		return "Part" + q.Get("partNumber")
	case q.Has("uploadId"):
		return map[string]string{http.MethodPost: "Complete", http.MethodDelete: "Abort", http.MethodGet: "ListParts"}[r.Method]
	case q.Has("list-type"):
		return "List"
	}
	return r.Method
}

// Whatever is asked of an S3, an answer that says to try again is no end of it.
func TestTriedAgain(t *testing.T) {
	long := func(s *script) error { return open(t, s.config()).Put(t.Context(), "bucket", id, zeros(twoParts), -1) }
	for name, c := range map[string]struct {
		operation string
		do        func(s *script) error
	}{
		"Put":         {"PUT", func(s *script) error { return open(t, s.config()).Put(t.Context(), "bucket", id, zeros(100), 100) }},
		"Create":      {"Create", long},
		"FirstPart":   {"Part1", long},
		"LastPart":    {"Part2", long},
		"Complete":    {"Complete", long},
		"CheckLength": {"HEAD", long},
		"Get": {"GET", func(s *script) error {
			r, err := open(t, s.config()).Open(t.Context(), "bucket", id, 0, 4)
			if err == nil {
				r.Close()
			}
			return err
		}},
		"Delete": {"DELETE", func(s *script) error { return open(t, s.config()).Delete(t.Context(), "bucket", id) }},
		"List": {"List", func(s *script) error {
			_, err := open(t, s.config()).ListNatural(t.Context(), stores.NaturalQuery{Bucket: "bucket", Limit: 10})
			return err
		}},
	} {
		for status, code := range map[int]string{http.StatusServiceUnavailable: "SlowDown", http.StatusConflict: "ConditionalRequestConflict"} {
			if c.operation == "HEAD" && status == http.StatusConflict {
				continue // an answer to HEAD has no room for a code
			}
			t.Run(name+code, func(t *testing.T) {
				tries := 0
				s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
					switch operation(r) {
					case c.operation:
						if tries++; tries == 1 {
							return failWith(w, status, code)
						}
						if r.Method == http.MethodGet && c.operation == "GET" {
							w.WriteHeader(http.StatusPartialContent)
							_, _ = io.WriteString(w, "body")
							return true
						}
					case "Abort":
						t.Error("the upload was given up")
					}
					if c.operation == "List" {
						fmt.Fprint(w, `<ListBucketResult></ListBucketResult>`)
						return true
					}
					return false
				})
				if err := c.do(s); err != nil || tries < 2 {
					t.Errorf("%v after %d tries", err, tries)
				}
			})
		}
	}
}

// An S3 that has done what it was asked, and whose answer is lost, is asked again: an upload succeeds, unless its body cannot be sent again.
func TestAnswerIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		operation       string
		size, announced int64
		want            fence.Code
	}{
		"Put":            {"PUT", 100, 100, fence.CodeAccepted},
		"PutOfAnyLength": {"PUT", 100, -1, fence.CodeAccepted},
		"Streamed":       {"PUT", streamed, streamed, fence.CodeStoreUnavailable},
		"Part":           {"Part1", twoParts, -1, fence.CodeAccepted},
		"Complete":       {"Complete", twoParts, -1, fence.CodeAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			lost, again := false, 0
			s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if operation(r) != c.operation {
					return false
				}
				if lost {
					again++
					// What is complete is no upload any more.
					return c.operation == "Complete" && failWith(w, http.StatusNotFound, "NoSuchUpload")
				}
				lost = true
				if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
					conn.Close()
				}
				return true
			})
			err := open(t, s.config()).Put(t.Context(), "bucket", id, onlyReader{zeros(c.size)}, c.announced)
			if fence.CodeOf(err) != c.want || (again > 0) != (c.want == fence.CodeAccepted) {
				t.Errorf("put: %v, asked again %d times", err, again)
			}
		})
	}
}
