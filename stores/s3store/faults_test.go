package s3store_test

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores/s3store"
)

// script is an S3 that does what a test tells it to.
type script struct {
	*httptest.Server
	// answer answers a request that is neither part of the usual course nor of interest; it returns false to let the
	// usual course go on.
	answer func(w http.ResponseWriter, r *http.Request, body []byte) bool

	mu       sync.Mutex
	requests []string // guarded by mu; method and query
	stored   int64    // guarded by mu; bytes of the last upload
	uploads  int      // guarded by mu; in parts
}

func newScript(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body []byte) bool) *script {
	return startScript(t, answer, (*httptest.Server).Start)
}

func startScript(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body []byte) bool, start func(*httptest.Server)) *script {
	s := &script{answer: answer}
	s.Server = httptest.NewUnstartedServer(s)
	start(s.Server)
	t.Cleanup(s.Close)
	return s
}

func (s *script) config() s3store.Config {
	return s3store.Config{Endpoint: s.URL, AccessKey: "access", SecretKey: "secret", PathStyle: true, PartSize: 5 << 20}
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client ended the request
	}
	q := r.URL.Query()
	s.mu.Lock()
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+q.Get("x-id")))
	s.mu.Unlock()
	if s.answer != nil && s.answer(w, r, body) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Method == http.MethodPost && q.Has("uploads"):
		s.stored = 0
		s.uploads++
		w.Header().Set("X-Amz-Checksum-Algorithm", r.Header.Get("X-Amz-Checksum-Algorithm"))
		fmt.Fprintf(w, `<InitiateMultipartUploadResult><UploadId>up%d</UploadId></InitiateMultipartUploadResult>`, s.uploads)
	case r.Method == http.MethodPost:
		fmt.Fprint(w, `<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>`)
	case r.Method == http.MethodPut:
		if !q.Has("partNumber") {
			s.stored = 0
		}
		if id := q.Get("uploadId"); id == "" || id == fmt.Sprint("up", s.uploads) { // a part of an upload that was given up may come late
			s.stored += int64(len(body))
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, md5.Sum(body)))
		if r.Header.Get(crcHeader) != "" {
			w.Header().Set(crcHeader, crcOf(body))
		}
	case r.Method == http.MethodHead:
		w.Header().Set("Content-Length", fmt.Sprint(s.stored))
	}
}

func (s *script) count(request string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if strings.HasPrefix(r, request) {
			n++
		}
	}
	return n
}

func failWith(w http.ResponseWriter, status int, code string) bool {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>scripted</Message></Error>`, code)
	return true
}

const twoParts = 5<<20 + 100

func zeros(n int64) io.Reader { return bytes.NewReader(make([]byte, n)) }

func TestBufferedUploadsCarryTheirChecksum(t *testing.T) {
	for name, start := range map[string]func(*httptest.Server){"HTTP": (*httptest.Server).Start, "HTTPS": (*httptest.Server).StartTLS} {
		t.Run(name, func(t *testing.T) {
			var puts atomic.Int32
			s := startScript(t, func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
				switch {
				case r.Method != http.MethodPut:
				case r.URL.Query().Has("partNumber"):
					puts.Add(1)
					if r.Header.Get(crcHeader) != crcOf(body) || r.Header.Get("X-Amz-Content-Sha256") != "UNSIGNED-PAYLOAD" || r.Header.Get("Content-Encoding") != "" {
						t.Errorf("a part's header: %v", r.Header)
					}
				default:
					puts.Add(1)
					checkChecksums(t, r.Header, body)
				}
				return false
			}, start)
			blobs := open(t, s.config())
			blobs.Trust(s.Certificate())
			for size, announced := range map[int64]int64{0: 0, 10: 10, twoParts: -1} {
				if err := blobs.Put(t.Context(), "bucket", id, zeros(size), announced); err != nil {
					t.Fatal(err)
				}
			}
			if puts.Load() != 4 {
				t.Errorf("%d uploads", puts.Load())
			}
		})
	}
}

func checkChecksums(t *testing.T, h http.Header, body []byte) {
	t.Helper()
	sum := sha256.Sum256(body)
	if got := h.Get("X-Amz-Checksum-Sha256"); got != base64.StdEncoding.EncodeToString(sum[:]) {
		t.Errorf("checksum header: %q", got)
	}
	if got := h.Get("X-Amz-Content-Sha256"); got != hex.EncodeToString(sum[:]) {
		t.Errorf("signed checksum: %q", got)
	}
	if got := h.Get("Content-Encoding"); got != "" {
		t.Errorf("content encoding: %q", got)
	}
}

func TestUploadIsRepeatedWhole(t *testing.T) {
	var tries atomic.Int32
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if len(body) != 1000 {
			t.Errorf("a try had %d bytes", len(body))
		}
		return tries.Add(1) == 1 && failWith(w, http.StatusServiceUnavailable, "SlowDown")
	})
	if err := open(t, s.config()).Put(t.Context(), "bucket", id, zeros(1000), -1); err != nil {
		t.Fatal(err)
	}
	if tries.Load() != 2 {
		t.Errorf("%d tries", tries.Load())
	}
}

func TestErrorInA200IsAnError(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		return r.Method == http.MethodPost && r.URL.Query().Has("uploadId") && failWith(w, http.StatusOK, "InternalError")
	})
	if err := open(t, s.config()).Put(t.Context(), "bucket", id, zeros(twoParts), -1); fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Errorf("put: %v", err)
	}
	if s.count("DELETE") != 1 {
		t.Error("the upload was not aborted")
	}
}

func TestLengthIsCompared(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.Method != http.MethodHead {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(twoParts-1))
		return true
	})
	if err := open(t, s.config()).Put(t.Context(), "bucket", id, zeros(twoParts), twoParts); fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Errorf("put: %v", err)
	}
}

// The answer to the first completion is lost, the SDK repeats it, and the upload is gone by then.
func TestCompletedBeforeIsSuccess(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		return r.Method == http.MethodPost && r.URL.Query().Has("uploadId") && failWith(w, http.StatusNotFound, "NoSuchUpload")
	})
	if err := open(t, s.config()).Put(t.Context(), "bucket", id, zeros(twoParts), -1); err != nil {
		t.Errorf("put: %v", err)
	}
}

func TestFailedPartAbortsTheUpload(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		return r.URL.Query().Get("partNumber") == "2" && failWith(w, http.StatusForbidden, "AccessDenied")
	})
	if err := open(t, s.config()).Put(t.Context(), "bucket", id, zeros(4*twoParts), -1); fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Errorf("put: %v", err)
	}
	if s.count("DELETE") != 1 || s.count("POST") != 1 {
		t.Errorf("requests: %q", s.requests)
	}
}

func TestTooLong(t *testing.T) {
	s := newScript(t, nil)
	err := open(t, s.config()).Put(t.Context(), "bucket", id, zeros(0), 5<<40+1)
	if fence.CodeOf(err) != fence.CodeTooLarge || s.count("") != 0 {
		t.Errorf("put: %v", err)
	}
}

func TestShortAnswerIsAnError(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, "123")
		return true
	})
	if r, err := open(t, s.config()).Open(t.Context(), "bucket", id, 0, 4); err == nil {
		r.Close()
		t.Error("open: no error")
	}
}

func TestCompressedBytesStayCompressed(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if got := r.Header.Get("Accept-Encoding"); strings.Contains(got, "gzip") {
			t.Errorf("accepts %q", got)
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, "1234")
		return true
	})
	r, err := open(t, s.config()).Open(t.Context(), "bucket", id, 0, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != "1234" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestCloseEndsIdleConnections(t *testing.T) {
	idle, closed := make(chan struct{}, 1), make(chan struct{}, 1)
	s := startScript(t, nil, func(h *httptest.Server) {
		h.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateIdle:
				idle <- struct{}{}
			case http.StateClosed:
				closed <- struct{}{}
			}
		}
		h.Start()
	})
	blobs, err := s3store.New(s.config())
	if err != nil {
		t.Fatal(err)
	}
	if err := blobs.Put(t.Context(), "bucket", id, zeros(10), 10); err != nil {
		t.Fatal(err)
	}
	<-idle
	if err := blobs.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the connection stays open")
	}
}

// More uploads than the memory holds wait for each other, and all come through.
func TestMemoryBoundsUploadsAtOnce(t *testing.T) {
	const uploads, allowed = 6, 2
	var reading, most atomic.Int32
	s := newScript(t, nil)
	cfg := s.config()
	cfg.Memory = allowed * cfg.PartSize
	blobs := open(t, cfg)
	var all sync.WaitGroup
	for i := range uploads {
		all.Go(func() {
			body := &watched{r: zeros(cfg.PartSize), began: func() { raise(&most, reading.Add(1)) }, ended: func() { reading.Add(-1) }}
			if err := blobs.Put(t.Context(), "bucket", fmt.Sprint(id, i), body, cfg.PartSize); err != nil {
				t.Errorf("put: %v", err)
			}
		})
	}
	all.Wait()
	if most.Load() > allowed {
		t.Errorf("%d uploads buffered at once, allowed are %d", most.Load(), allowed)
	}
	if reading.Load() != 0 {
		t.Errorf("%d uploads did not end", reading.Load())
	}
}

func raise(most *atomic.Int32, n int32) {
	for {
		old := most.Load()
		if n <= old || most.CompareAndSwap(old, n) {
			return
		}
	}
}

// watched tells when it is read first and when it has ended.
type watched struct {
	r            io.Reader
	began, ended func()
	started      bool
}

func (w *watched) Read(p []byte) (int, error) {
	if !w.started {
		w.started = true
		w.began()
	}
	n, err := w.r.Read(p)
	if err != nil {
		w.ended()
	}
	return n, err
}

func TestDeadServerIsUnavailableSoon(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := l.Addr().String()
	l.Close()

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	for name, address := range map[string]string{"Refused": refused, "Silent": silent.Addr().String(), "NoSuchHost": "host.invalid:80"} {
		t.Run(name, func(t *testing.T) {
			blobs := open(t, s3store.Config{
				Endpoint: "http://" + address, AccessKey: "access", SecretKey: "secret", PathStyle: true, AnswerTimeout: time.Second,
			})
			start := time.Now()
			if err := blobs.Put(t.Context(), "bucket", id, zeros(10), 10); fence.CodeOf(err) != fence.CodeStoreUnavailable {
				t.Errorf("put: %v", err)
			}
			if _, err := blobs.Open(t.Context(), "bucket", id, 0, 1); fence.CodeOf(err) != fence.CodeStoreUnavailable {
				t.Errorf("open: %v", err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("two calls took %v", took)
			}
		})
	}
}
