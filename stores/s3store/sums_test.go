package s3store_test

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc64"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	"github.com/fencegate/fencegate/fence"
)

const crcHeader = "X-Amz-Checksum-Crc64nvme"

// crcOf computes it by the table of the standard library, which has the polynomial of the NVM Express specification reversed.
func crcOf(body []byte) string {
	sum := crc64.Checksum(body, crc64.MakeTable(0x9a6c9329ac4bc9b5))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, sum))
}

// What the S3 has answered decides what is computed: a CRC is enough where it answers one, and without it MD5 is, or what is read back.
func TestStreamIsComparedByWhatS3Answers(t *testing.T) {
	crc, md5 := true, true
	var stored []byte
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		switch r.Method {
		case http.MethodPut:
			stored = body
			if crc {
				w.Header().Set(crcHeader, crcOf(body))
			}
			if !md5 {
				w.Header().Set("X-Amz-Server-Side-Encryption", "aws:kms")
			}
		case http.MethodGet:
			_, _ = w.Write(stored)
			return true
		}
		return false
	})
	blobs := open(t, s.config())
	for _, step := range []struct {
		name        string
		crc, md5    bool
		reads       int
		inOneStream bool
	}{
		{"Both", true, true, 0, true},
		{"CRCOnly", true, false, 0, true}, // under keys of the customer's
		{"CRCNoMore", false, true, 1, true},
		{"MD5Only", false, true, 1, true},
		{"CRCAgain", true, false, 1, true},
		{"MD5OnlyAgain", false, true, 1, true}, // there are two servers
		{"Neither", false, false, 2, true},
		{"NeverAgain", false, false, 2, false},
	} {
		crc, md5 = step.crc, step.md5
		parts := s.count("PUT UploadPart")
		if err := blobs.Put(t.Context(), "bucket", id, zeros(streamed), streamed); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := s.count("GET"); got != step.reads {
			t.Errorf("%s: %d were read back, want %d", step.name, got, step.reads)
		}
		if got := s.count("PUT UploadPart") == parts; got != step.inOneStream {
			t.Errorf("%s: in one stream: %v", step.name, got)
		}
	}
}

// A CRC of other bytes is an error whatever the ETag is, and so are other bytes that are read back.
func TestStreamWithAnotherCRC(t *testing.T) {
	for name, c := range map[string]struct {
		crc  string
		code fence.Code
	}{
		"Other": {crcOf([]byte("other")), fence.CodeStoreUnavailable}, "Garbage": {"no checksum", fence.CodeStoreUnavailable},
		"Right": {crcOf(make([]byte, streamed)), fence.CodeAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.Method == http.MethodPut {
					w.Header().Set(crcHeader, c.crc)
				}
				return false
			})
			if err := open(t, s.config()).Put(t.Context(), "bucket", id, zeros(streamed), streamed); fence.CodeOf(err) != c.code {
				t.Errorf("put: %v", err)
			}
		})
	}
	known := true
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		switch r.Method {
		case http.MethodPut:
			if known {
				w.Header().Set(crcHeader, crcOf(body))
			}
		case http.MethodGet:
			_, _ = w.Write(make([]byte, streamed-1))
			return true
		}
		return false
	})
	blobs := open(t, s.config())
	for range 2 {
		err := blobs.Put(t.Context(), "bucket", id, zeros(streamed), streamed)
		if known != (err == nil) {
			t.Errorf("known %v: %v", known, err)
		}
		known = false
	}
}

// Behind one name there may be servers that answer differently: that costs one part at most.
func TestStreamedPartsOfTwoServers(t *testing.T) {
	puts := 0
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if puts++; r.Method == http.MethodPut && r.URL.Query().Get("partNumber") == "1" {
			w.Header().Set(crcHeader, crcOf(body))
		}
		return false
	})
	blobs := open(t, s.config())
	blobs.StreamInPartsFrom(5 << 20)
	for i, want := range []fence.Code{fence.CodeStoreUnavailable, fence.CodeAccepted, fence.CodeAccepted} {
		if err := blobs.Put(t.Context(), "bucket", id, zeros(12<<20), 12<<20); fence.CodeOf(err) != want {
			t.Errorf("put %d: %v, want %s", i, err, want)
		}
	}
}

// After a part that the S3 has refused nothing more of the body is read.
func TestRefusedPartEndsTheReading(t *testing.T) {
	for refused := 1; refused <= 3; refused++ {
		var told atomic.Bool
		s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.URL.Query().Get("partNumber") != strconv.Itoa(refused) {
				return false
			}
			told.Store(true)
			return failWith(w, http.StatusForbidden, "AccessDenied")
		})
		var read, since int64
		body := readFunc(func(p []byte) (int, error) {
			if told.Load() { // until the answer has been seen, and the part's buffer could be read into again
				<-time.After(50 * time.Millisecond)
				since += int64(len(p))
			}
			read += int64(len(p))
			return len(p), nil
		})
		err := open(t, s.config()).Put(t.Context(), "bucket", id, io.LimitReader(body, 400<<20), -1)
		if apiErr := (smithy.APIError)(nil); fence.CodeOf(err) != fence.CodeStoreUnavailable || !errors.As(err, &apiErr) || apiErr.ErrorCode() != "AccessDenied" {
			t.Errorf("part %d: %v", refused, err)
		}
		if since > 2*5<<20 {
			t.Errorf("after part %d was refused %d of %d MiB were read", refused, since>>20, read>>20)
		}
	}
}

// An error that has nothing to do with the checksum does not decide which one is sent.
func TestRefusedUploadIsNoMissingCRC(t *testing.T) {
	expired := 2
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.URL.Query().Has("uploads") && expired > 0 {
			expired--
			return failWith(w, http.StatusBadRequest, "ExpiredToken")
		}
		if r.Method == http.MethodPut && r.Header.Get(crcHeader) == "" {
			t.Error("a part without a CRC")
		}
		return false
	})
	blobs := open(t, s.config())
	for i, want := range []fence.Code{fence.CodeStoreUnavailable, fence.CodeAccepted} {
		if err := blobs.Put(t.Context(), "bucket", id, zeros(twoParts), -1); fence.CodeOf(err) != want {
			t.Errorf("put %d: %v", i, err)
		}
	}
}

// A server that does not know the CRC of parts, or does not confirm it, gets a SHA-256 that it must compare. That is found out once.
func TestPartsWithoutCRC(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request) bool
		errs   []fence.Code
		begun  []int // after each of two uploads
	}{
		"Ignored": {func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Has("uploads") {
				r.Header.Del("X-Amz-Checksum-Algorithm")
			}
			return false
		}, []fence.Code{fence.CodeAccepted, fence.CodeAccepted}, []int{2, 3}},
		"Refused": {func(w http.ResponseWriter, r *http.Request) bool {
			return r.Header.Get("X-Amz-Checksum-Algorithm") == "CRC64NVME" && failWith(w, http.StatusBadRequest, "InvalidRequest")
		}, []fence.Code{fence.CodeAccepted, fence.CodeAccepted}, []int{2, 3}},
		"NotConfirmed": {func(w http.ResponseWriter, r *http.Request) bool {
			r.Header.Del(crcHeader)
			return false
		}, []fence.Code{fence.CodeStoreUnavailable, fence.CodeAccepted}, []int{1, 2}},
		"Other": {func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get(crcHeader) == "" {
				return false
			}
			w.Header().Set("ETag", `"e"`)
			w.Header().Set(crcHeader, crcOf([]byte("other")))
			return true
		}, []fence.Code{fence.CodeStoreUnavailable, fence.CodeStoreUnavailable}, []int{1, 2}},
		"Denied": {func(w http.ResponseWriter, r *http.Request) bool {
			return r.URL.Query().Has("uploads") && failWith(w, http.StatusForbidden, "AccessDenied")
		}, []fence.Code{fence.CodeStoreUnavailable, fence.CodeStoreUnavailable}, []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			var begun, withSHA int
			s := newScript(t, func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				if r.Method == http.MethodPut && r.Header.Get(crcHeader) == "" {
					withSHA++
					checkChecksums(t, r.Header, body)
				}
				if r.URL.Query().Has("uploads") {
					begun++
				}
				return c.answer(w, r)
			})
			blobs := open(t, s.config())
			var counts []int
			for i := range c.errs {
				if err := blobs.Put(t.Context(), "bucket", id, zeros(twoParts), -1); fence.CodeOf(err) != c.errs[i] {
					t.Errorf("upload %d: %v, want %s", i, err, c.errs[i])
				}
				counts = append(counts, begun)
			}
			if !slices.Equal(counts, c.begun) {
				t.Errorf("begun %v, want %v", counts, c.begun)
			}
			if accepted := c.errs[1] == fence.CodeAccepted; accepted != (withSHA > 0) {
				t.Errorf("%d parts with a SHA-256", withSHA)
			}
		})
	}
}
