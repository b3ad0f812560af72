package s3store_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencegate/fencegate/stores/s3store"
)

// Many bodies of unknown length, all under way at once, take no more memory than there is for all of them.
func TestHeapOfManyUploads(t *testing.T) {
	const uploads, each, memory = 8, 11 << 20, 16 << 20
	var peak, sent atomic.Int64
	measure := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		for now := int64(m.HeapInuse); ; {
			if old := peak.Load(); now <= old || peak.CompareAndSwap(old, now) {
				return
			}
		}
	}
	// Unlike a script it keeps nothing of what it is sent.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			t.Error(err)
		}
		measure()
		switch operation(r) {
		case "Create":
			fmt.Fprint(w, `<InitiateMultipartUploadResult><UploadId>up</UploadId></InitiateMultipartUploadResult>`)
		case "Complete":
			fmt.Fprint(w, `<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>`)
		case "HEAD":
			w.Header().Set("Content-Length", fmt.Sprint(each))
		default:
			sent.Add(n)
			w.Header().Set("ETag", `"e"`)
		}
	}))
	defer server.Close()
	blobs := open(t, s3store.Config{Endpoint: server.URL, AccessKey: "access", SecretKey: "secret", PathStyle: true, PartSize: 5 << 20, Memory: memory})
	// What is garbage is not what uploads hold.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	measure()
	before := peak.Load()
	var all, begun sync.WaitGroup
	begun.Add(uploads)
	for i := range uploads {
		all.Go(func() {
			first := true
			body := readFunc(func(p []byte) (int, error) {
				if first { // nobody ends before all have begun
					first = false
					begun.Done()
					begun.Wait()
				}
				return len(p), nil
			})
			if err := blobs.Put(t.Context(), "bucket", fmt.Sprint(id, i), io.LimitReader(body, each), -1); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	const allowed = memory + 16<<20
	if grown := peak.Load() - before; grown > allowed || sent.Load() != uploads*each {
		t.Errorf("the heap grew by %d MiB, allowed are %d; %d bytes were sent", grown>>20, allowed>>20, sent.Load())
	} else {
		t.Logf("the heap grew by %d MiB", grown>>20)
	}
}
