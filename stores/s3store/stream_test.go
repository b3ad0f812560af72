package s3store_test

import (
	"bytes"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/s3store"
)

const streamed = 9 << 20

func TestStreamIsCompared(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, body []byte) bool
		want   fence.Code
		swept  int
	}{
		"Right": {func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if r.Method == http.MethodPut && (r.Header.Get("X-Amz-Content-Sha256") != "UNSIGNED-PAYLOAD" || r.ContentLength != streamed || len(r.TransferEncoding) > 0) {
				t.Errorf("%d bytes, %v", r.ContentLength, r.Header)
			}
			return false
		}, fence.CodeAccepted, 0},
		"OtherMD5": {func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			switch r.Method {
			case http.MethodPut:
				w.Header().Set("ETag", fmt.Sprintf(`"%x"`, md5.Sum([]byte("other"))))
			case http.MethodHead:
				w.Header().Set("Content-Length", fmt.Sprint(streamed))
			}
			return true
		}, fence.CodeStoreUnavailable, 1},
		"OtherLength": {func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if r.Method != http.MethodHead {
				return false
			}
			w.Header().Set("Content-Length", fmt.Sprint(streamed-1))
			return true
		}, fence.CodeStoreUnavailable, 1},
		"Refused": {func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			return r.Method == http.MethodPut && failWith(w, http.StatusServiceUnavailable, "SlowDown")
		}, fence.CodeStoreUnavailable, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, c.answer)
			if err := open(t, s.config()).Put(t.Context(), "bucket", id, zeros(streamed), streamed); fence.CodeOf(err) != c.want {
				t.Errorf("put: %v, want %s", err, c.want)
			}
			if s.count("PUT") != 1 || s.count("DELETE") != c.swept {
				t.Errorf("requests: %q", s.requests)
			}
		})
	}
}

// An S3 that is busy says so before it has the body, and then nothing of the body is lost.
func TestStreamIsRepeatedOnlyBeforeItBegan(t *testing.T) {
	var puts atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.Header().Set("Content-Length", fmt.Sprint(streamed))
			return
		}
		switch puts.Add(1) {
		case 1:
			failWith(w, http.StatusServiceUnavailable, "SlowDown")
		case 2:
			failWith(w, http.StatusConflict, "ConditionalRequestConflict")
		default:
			h := md5.New()
			if n, err := io.Copy(h, r.Body); n != streamed || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			w.Header().Set("ETag", fmt.Sprintf(`"%x"`, h.Sum(nil)))
		}
	}))
	defer s.Close()
	blobs := open(t, s3store.Config{Endpoint: s.URL, AccessKey: "access", SecretKey: "secret", PathStyle: true})
	if err := blobs.Put(t.Context(), "bucket", id, zeros(streamed), streamed); err != nil || puts.Load() != 3 {
		t.Errorf("put: %v after %d requests", err, puts.Load())
	}
}

// A success for a body that the server did not take is none, and the body is not read by anybody once the Put has returned.
func TestAnswerBeforeTheBody(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, md5.Sum(nil)))
		w.Header().Set("Content-Length", "0")
	}))
	defer s.Close()
	blobs := open(t, s3store.Config{Endpoint: s.URL, AccessKey: "access", SecretKey: "secret", PathStyle: true})
	var over atomic.Bool
	body := io.MultiReader(zeros(streamed/2), readFunc(func([]byte) (int, error) {
		if over.Load() {
			t.Error("read after the end")
		}
		return 0, io.EOF
	}), zeros(streamed/2))
	err := blobs.Put(t.Context(), "bucket", id, body, streamed)
	over.Store(true)
	if fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Errorf("put: %v", err)
	}
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// The patience is for the S3, not for whoever sends the body.
func TestStreamThatStalls(t *testing.T) {
	t.Run("S3", func(t *testing.T) {
		done := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				_, _ = io.ReadFull(r.Body, make([]byte, 1000))
				<-done
			}
		}))
		defer s.Close()
		defer close(done)
		blobs := open(t, s3store.Config{Endpoint: s.URL, AccessKey: "access", SecretKey: "secret", PathStyle: true, AnswerTimeout: 200 * time.Millisecond})
		start := time.Now()
		const size = 64 << 20 // more than fits into the buffers between them
		if err := blobs.Put(t.Context(), "bucket", id, zeros(size), size); fence.CodeOf(err) != fence.CodeStoreUnavailable {
			t.Errorf("put: %v", err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("Sender", func(t *testing.T) {
		cfg := newScript(t, nil).config()
		cfg.AnswerTimeout = 500 * time.Millisecond
		pause := readFunc(func([]byte) (int, error) {
			<-time.After(2 * cfg.AnswerTimeout)
			return 0, io.EOF
		})
		body := io.MultiReader(zeros(streamed-5), pause, zeros(5))
		if err := open(t, cfg).Put(t.Context(), "bucket", id, body, streamed); err != nil {
			t.Errorf("put: %v", err)
		}
	})
}

// Under keys of the customer's an ETag is no MD5: the first body is read back, and later ones carry their checksums.
func TestOpaqueETags(t *testing.T) {
	stored := []byte{}
	wrong := false
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		w.Header().Set("X-Amz-Server-Side-Encryption", "aws:kms")
		switch {
		case r.Method == http.MethodGet:
			got := slices.Clone(stored)
			if wrong {
				got[100]++
			}
			_, _ = w.Write(got)
			return true
		case r.Method == http.MethodPut && r.URL.Query().Has("partNumber"):
			if r.Header.Get(crcHeader) != crcOf(body) {
				t.Errorf("a part's header: %v", r.Header)
			}
		case r.Method == http.MethodPut:
			stored = body
		}
		return false
	})
	blobs := open(t, s.config())
	if err := blobs.Put(t.Context(), "bucket", id, zeros(streamed), streamed); err != nil || s.count("GET") != 1 {
		t.Errorf("put: %v, %q", err, s.requests)
	}
	if err := blobs.Put(t.Context(), "bucket", id, zeros(streamed), streamed); err != nil || s.count("GET") != 1 || s.count("PUT UploadPart") != 2 {
		t.Errorf("put: %v, %q", err, s.requests)
	}
	wrong = true
	if err := open(t, s.config()).Put(t.Context(), "bucket", id, zeros(streamed), streamed); fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Errorf("put of what comes back different: %v", err)
	}
}

func TestStreamInParts(t *testing.T) {
	env := testenv.Bucket(t)
	s := open(t, configOf(env))
	s.StreamInPartsFrom(10 << 20)
	body := bytes.Repeat([]byte("0123456789abcdef-"), 700_000)
	size := int64(len(body))
	if err := s.Put(t.Context(), env.Bucket, id, onlyReader{bytes.NewReader(body)}, size); err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(t.Context(), env.Bucket, id, 0, size)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, body) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	for _, wrong := range []int64{size - 1, size + 1} {
		if err := s.Put(t.Context(), env.Bucket, id+"x", onlyReader{bytes.NewReader(body)}, wrong); fence.CodeOf(err) != fence.CodeInvalidRequest {
			t.Errorf("put of %d as %d: %v", size, wrong, err)
		}
	}
	if got := keysOf(t, env, env.Bucket); got != ".fencegate/blobs/"+id {
		t.Errorf("keys: %s", got)
	}
}

func TestStreamedPartIsCompared(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, md5.Sum([]byte("other"))))
		return r.URL.Query().Get("partNumber") == "2"
	})
	blobs := open(t, s.config())
	blobs.StreamInPartsFrom(5 << 20)
	if err := blobs.Put(t.Context(), "bucket", id, zeros(12<<20), 12<<20); fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Errorf("put: %v", err)
	}
	if got := strings.Join(s.requests, " "); got != "POST CreateMultipartUpload PUT UploadPart PUT UploadPart DELETE AbortMultipartUpload" && !strings.HasPrefix(got, "POST PUT UploadPart PUT UploadPart DELETE") {
		t.Errorf("requests: %s", got)
	}
}

// Parts of a body of unknown length grow, and what is joined is the body.
func TestBufferedPartsGrow(t *testing.T) {
	lengths := make([]int, 6)
	s := newScript(t, func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if n, err := strconv.Atoi(r.URL.Query().Get("partNumber")); err == nil {
			lengths[n-1] = len(body) >> 20 // several are on their way at once
		}
		return false
	})
	cfg := s.config()
	cfg.Memory = 44 << 20
	blobs := open(t, cfg)
	blobs.GrowPartsAfter(2)
	if err := blobs.Put(t.Context(), "bucket", id, onlyReader{zeros(41 << 20)}, -1); err != nil {
		t.Fatal(err)
	}
	if want := []int{5, 5, 10, 10, 10, 1}; !slices.Equal(lengths, want) {
		t.Errorf("parts of %v MiB, want %v", lengths, want)
	}
	if got := blobs.Memory(); got.InUse != 0 || got.Waiting != 0 {
		t.Errorf("%+v", got)
	}
}

func TestMaxUnknown(t *testing.T) {
	for want, cfg := range map[int64]s3store.Config{
		273: {}, // 8, 16 and 32 MiB
		48:  {PartSize: 5 << 20, Memory: 5 << 20},
		546: {Memory: 256 << 20, PartSize: 16 << 20},
	} {
		cfg.AccessKey, cfg.SecretKey = "a", "b"
		if got := open(t, cfg).MaxUnknown() >> 30; got != want {
			t.Errorf("%+v: %d GiB, want %d", cfg, got, want)
		}
	}
	if got := open(t, s3store.Config{PartSize: 1 << 30, Memory: 4 << 30}).MaxUnknown(); got != 5<<40 {
		t.Errorf("with parts of 1 GiB: %d", got)
	}
}

func TestReaderErrorOfAStreamIsTold(t *testing.T) {
	broken := errors.New("the sender is gone")
	s := newScript(t, nil)
	body := io.MultiReader(zeros(streamed/2), readFunc(func([]byte) (int, error) { return 0, broken }))
	if err := open(t, s.config()).Put(t.Context(), "bucket", id, body, streamed); !errors.Is(err, broken) {
		t.Errorf("put: %v", err)
	}
}
