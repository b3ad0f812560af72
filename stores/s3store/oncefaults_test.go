package s3store_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
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
	for status, code := range map[int]string{http.StatusServiceUnavailable: "SlowDown", http.StatusConflict: "ConditionalRequestConflict"} {
		t.Run(code, func(t *testing.T) {
			var mu sync.Mutex
			tries := map[string]int{} // guarded by mu: parts are sent while others are
			s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				mu.Lock()
				defer mu.Unlock()
				op := operation(r)
				tries[op]++
				switch {
				case op == "HEAD" && status == http.StatusConflict: // no answer to it has room for a code
				case tries[op] == 1:
					return failWith(w, status, code)
				case op == "Abort":
					t.Error("the upload was given up")
				case op == "List":
					fmt.Fprint(w, `<ListBucketResult></ListBucketResult>`)
					return true
				case op == "GET":
					w.WriteHeader(http.StatusPartialContent)
					_, _ = io.WriteString(w, "body")
					return true
				}
				return false
			})
			blobs := open(t, s.config())
			if err := blobs.Put(t.Context(), "bucket", id, zeros(100), 100); err != nil {
				t.Errorf("put: %v", err)
			}
			if err := blobs.Put(t.Context(), "bucket", id, zeros(twoParts), -1); err != nil {
				t.Errorf("put in parts: %v", err)
			}
			if r, err := blobs.Open(t.Context(), "bucket", id, 0, 4); err != nil {
				t.Errorf("open: %v", err)
			} else {
				r.Close()
			}
			if err := blobs.Delete(t.Context(), "bucket", id); err != nil {
				t.Errorf("delete: %v", err)
			}
			if _, err := blobs.ListNatural(t.Context(), stores.NaturalQuery{Bucket: "bucket", Limit: 10}); err != nil {
				t.Errorf("list: %v", err)
			}
			for _, op := range []string{"PUT", "Create", "Part1", "Part2", "Complete", "HEAD", "GET", "DELETE", "List"} {
				if tries[op] < 2 && (op != "HEAD" || status != http.StatusConflict) {
					t.Errorf("%s was tried %d times", op, tries[op])
				}
			}
		})
	}
}

// An S3 that has done what it was asked, and whose answer is lost, is asked again: an upload succeeds, unless its body cannot be sent again.
func TestAnswerIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		operations      []string
		size, announced int64
		want            fence.Code
	}{
		"Put":            {[]string{"PUT"}, 100, 100, fence.CodeAccepted},
		"PutOfAnyLength": {[]string{"PUT"}, 100, -1, fence.CodeAccepted},
		"Streamed":       {[]string{"PUT"}, streamed, streamed, fence.CodeStoreUnavailable},
		"InParts":        {[]string{"Part1", "Complete"}, twoParts, -1, fence.CodeAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			asked := map[string]int{} // guarded by mu
			s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				mu.Lock()
				defer mu.Unlock()
				op := operation(r)
				if asked[op]++; !slices.Contains(c.operations, op) {
					return false
				}
				if asked[op] > 1 { // what is complete is no upload any more
					return op == "Complete" && failWith(w, http.StatusNotFound, "NoSuchUpload")
				}
				if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
					conn.Close()
				}
				return true
			})
			err := open(t, s.config()).Put(t.Context(), "bucket", id, onlyReader{zeros(c.size)}, c.announced)
			if fence.CodeOf(err) != c.want {
				t.Errorf("put: %v", err)
			}
			for _, op := range c.operations {
				if again := asked[op] > 1; again != (c.want == fence.CodeAccepted) {
					t.Errorf("%s was asked for %d times", op, asked[op])
				}
			}
		})
	}
}
