package client_test

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/client"
)

func object(key string) fence.ObjectName { return fence.ObjectName{Bucket: "reports", Key: key} }

// read returns the whole body of an object.
func (r *rig) read(o client.ObjectRead) (fence.Object, string, error) {
	r.t.Helper()
	found, body, err := r.ReadObject(r.t.Context(), o)
	if err != nil {
		return found, "", err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	return found, string(text), err
}

func TestObjects(t *testing.T) {
	r := serve(t, nil)
	ctx, name, h := t.Context(), object("2026/a.csv"), r.acquire("report:2026/a.csv")
	header := fence.ObjectHeader{
		ContentType: "text/csv", ContentDisposition: "inline", CacheControl: "no-cache", Meta: map[string]string{"by": "worker-a"},
	}
	sum, weak := sha256.Sum256([]byte("a,b\n")), md5.Sum([]byte("a,b\n"))
	o, err := r.WriteObject(ctx, fence.ObjectWrite{
		Op: fence.OpPut, Object: name, Access: fence.Access{Token: 1000}, Header: header, Body: strings.NewReader("a,b\n"), Size: 4, SHA256: sum[:], MD5: weak[:],
	})
	if err != nil || !o.Created || o.Size != 4 || o.Mark != 1000 || o.SHA256 != fmt.Sprintf("%x", sum) || o.Lease != "report:2026/a.csv" {
		t.Fatalf("put %+v, %v", o, err)
	}
	o, text, err := r.read(client.ObjectRead{Object: name, Token: h.First()})
	if err != nil || text != "a,b\n" || o.Size != 4 || o.Mark != 1000 || o.ModifiedAt.IsZero() ||
		o.Header.ContentType != "text/csv" || o.Header.ContentDisposition != "inline" || o.Header.CacheControl != "no-cache" || !maps.Equal(o.Header.Meta, header.Meta) {
		t.Errorf("read %q, %+v, %v", text, o, err)
	}
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{1, 2, ",b"}, {2, 0, "b\n"}, {0, 1, "a"}, {0, 99, "a,b\n"}} {
		o, text, err := r.read(client.ObjectRead{Object: name, Offset: c.offset, Length: c.length})
		if err != nil || text != c.want || o.Size != int64(len(c.want)) {
			t.Errorf("from %d, %d bytes: %q, %+v, %v", c.offset, c.length, text, o, err)
		}
	}
	_, _, err = r.read(client.ObjectRead{Object: name, Offset: 9})
	wantCode(t, err, fence.CodeRangeNotSatisfiable)
	_, _, err = r.read(client.ObjectRead{Object: name, Token: 5})
	wantCode(t, err, fence.CodeStaleToken)
	if o, err = r.HeadObject(ctx, name); err != nil || o.Size != 4 || o.Header.ContentType != "text/csv" {
		t.Errorf("head %+v, %v", o, err)
	}
	if s, err := r.ObjectMark(ctx, name); err != nil || s.Mark != 1000 || s.Resource != "objects/reports/2026/a.csv" {
		t.Errorf("mark %+v, %v", s, err)
	}
	if o, err = r.DeleteObject(ctx, name, 1001); err != nil || o.Mark != 1001 {
		t.Errorf("deleted %+v, %v", o, err)
	}
	_, err = r.HeadObject(ctx, name)
	if e := wantCode(t, err, fence.CodeNotFound); e.State == nil || e.State.Mark != 1001 {
		t.Errorf("gone: %+v", e)
	}
	_, _, err = r.GetObject(ctx, name)
	wantCode(t, err, fence.CodeNotFound)
	_, err = r.WriteObject(ctx, fence.ObjectWrite{Op: fence.OpPut, Object: name, Access: fence.Access{Token: 1002}, Body: strings.NewReader("x"), SHA256: sum[:]})
	wantCode(t, err, fence.CodeChecksumMismatch)
	_, err = r.WriteObject(ctx, fence.ObjectWrite{Op: fence.OpPatch, Object: name})
	wantCode(t, err, fence.CodeInvalidRequest)
}

// Each way to give a body is sent whole, and again if it can be read again.
func TestBodies(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<16)
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte("skipped"+long), 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if _, err := opened.Seek(7, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		body       io.Reader
		size       int64
		again      bool
	}{
		{"Reader", long, strings.NewReader(long), int64(len(long)), true},
		{"ReaderOfUnknownSize", long, strings.NewReader(long), -1, true},
		{"ReaderOfUnsaidSize", long, strings.NewReader(long), 0, true},
		{"Buffer", long, bytes.NewBufferString(long), -1, true},
		{"FileFromItsMiddle", long, opened, -1, true},
		{"Stream", long, io.MultiReader(strings.NewReader(long)), -1, false},
		{"StreamOfKnownSize", long, iotest.OneByteReader(io.MultiReader(strings.NewReader("abc"))), 3, false},
		{"StreamThatEndsWithItsData", "abc", iotest.DataErrReader(io.MultiReader(strings.NewReader("abc"))), 3, false},
		{"Empty", "", strings.NewReader(""), -1, true},
		{"EmptyStream", "", io.MultiReader(), -1, false},
		{"None", "", nil, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := serve(t, nil)
			name, h := object(c.name), r.acquire("report:"+c.name)
			write := fence.ObjectWrite{Op: fence.OpPut, Object: name, Access: fence.Access{Token: h.First()}, Body: c.body, Size: c.size}
			if c.name == "StreamOfKnownSize" {
				c.want = "abc"
			}
			r.put(losing(1))
			o, err := r.WriteObject(t.Context(), write)
			if c.again && (err != nil || !o.Replayed || o.Size != int64(len(c.want))) {
				t.Errorf("put %+v, %v", o, err)
			}
			if !c.again && (fence.CodeOf(err) != fence.CodeOutcomeUnknown || r.asked() != 1) {
				t.Errorf("put: %v, with %d requests", err, r.asked())
			}
			if _, text, err := r.read(client.ObjectRead{Object: name}); err != nil || text != c.want {
				t.Errorf("read %d bytes, %v", len(text), err)
			}
		})
	}
}

func TestBodiesThatBreakOff(t *testing.T) {
	broken := errors.New("the disk is gone")
	for _, c := range []struct {
		name string
		body io.Reader
		size int64
		want error
	}{
		{"ItsReaderFails", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), -1, broken},
		{"ItsReaderFailsWithinItsSize", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), 9, broken},
		{"Shorter", io.MultiReader(strings.NewReader("abc")), 9, nil},
		{"Longer", io.MultiReader(strings.NewReader("abc"), strings.NewReader("d")), 3, nil},
		{"LongerFile", strings.NewReader("abcd"), 3, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := serve(t, nil)
			name, h := object("a"), r.acquire("report:a")
			_, err := r.WriteObject(t.Context(), fence.ObjectWrite{Op: fence.OpPut, Object: name, Access: fence.Access{Token: h.First()}, Body: c.body, Size: c.size})
			if wantCode(t, err, fence.CodeInvalidRequest); c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
			if _, _, err := r.read(client.ObjectRead{Object: name}); fence.CodeOf(err) != fence.CodeNotFound {
				t.Errorf("it was published: %v", err)
			}
		})
	}
}

// A stream that nobody has read from yet can be tried again; so can one that the gateway refused before it read it.
func TestStreamThatWasNotBegun(t *testing.T) {
	r := serve(t, nil)
	h := r.acquire("report:a")
	r.put(func(w http.ResponseWriter, req *http.Request, n int, next http.Handler) {
		refusing(1, 503, fence.CodeOverloaded)(w, req, n, next)
	})
	o, err := r.PutObject(t.Context(), object("a"), h.First(), io.MultiReader(strings.NewReader("abc")))
	if err != nil || o.Size != 3 || r.asked() != 2 {
		t.Errorf("put %+v, %v, with %d requests", o, err, r.asked())
	}
}

func TestObjectKeys(t *testing.T) {
	r := serve(t, nil)
	for _, key := range []string{"a//b", "../x", "a/./b", "a/..", "/a", "a/", "ü %2F?#", "a+b", "."} {
		h := r.acquire("report:" + key)
		if _, err := r.PutObject(t.Context(), object(key), h.First(), strings.NewReader(key)); err != nil {
			t.Errorf("%q: %v", key, err)
		}
		if s, err := r.ObjectMark(t.Context(), object(key)); err != nil || s.Resource != "objects/reports/"+key {
			t.Errorf("%q: %+v, %v", key, s, err)
		}
		if _, text, err := r.read(client.ObjectRead{Object: object(key)}); err != nil || text != key {
			t.Errorf("%q: %q, %v", key, text, err)
		}
	}
	// Nothing is left that a proxy would clean away.
	r.put(func(w http.ResponseWriter, req *http.Request, _ int, next http.Handler) {
		for segment := range strings.SplitSeq(strings.TrimPrefix(req.URL.EscapedPath(), "/"), "/") {
			if segment == "" || segment == "." || segment == ".." {
				t.Errorf("the path is %s", req.URL.EscapedPath())
			}
		}
		next.ServeHTTP(w, req)
	})
	for _, key := range []string{"a//b", "../x", "a/./b", "a/..", "/a", "a/", "."} {
		if _, err := r.ObjectMark(t.Context(), object(key)); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := r.RowMark(t.Context(), client.RowName("t", "..")); err != nil {
		t.Error(err)
	}
	for _, bad := range []fence.ObjectName{{}, {Bucket: "b"}, {Key: "k"}, object(strings.Repeat("x", 2000))} {
		_, err := r.HeadObject(t.Context(), bad)
		wantCode(t, err, fence.CodeInvalidRequest)
	}
}

// Bytes that are compressed stay as they are.
func TestCompressedObjects(t *testing.T) {
	r := serve(t, nil)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("text"))
	_ = z.Close()
	want := packed.String()
	h := r.acquire("report:a")
	_, err := r.WriteObject(t.Context(), fence.ObjectWrite{
		Op: fence.OpPut, Object: object("a"), Access: fence.Access{Token: h.First()}, Body: &packed, Size: -1, Header: fence.ObjectHeader{ContentEncoding: "gzip"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if o, text, err := r.read(client.ObjectRead{Object: object("a")}); err != nil || text != want || o.Header.ContentEncoding != "gzip" {
		t.Errorf("read %q, %+v, %v", text, o, err)
	}
}

// A part of a body is never taken for the whole (I6).
func TestCutOffDownload(t *testing.T) {
	r := serve(t, nil)
	h := r.acquire("report:a")
	if _, err := r.PutObject(t.Context(), object("a"), h.First(), strings.NewReader("0123456789")); err != nil {
		t.Fatal(err)
	}
	r.put(func(w http.ResponseWriter, req *http.Request, n int, next http.Handler) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, req)
		maps.Copy(w.Header(), rec.Header())
		_, _ = w.Write(rec.Body.Bytes()[:5])
		_ = http.NewResponseController(w).Flush()
		hang()
	})
	if _, text, err := r.read(client.ObjectRead{Object: object("a")}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read %q, %v", text, err)
	}
	r.put(func(w http.ResponseWriter, req *http.Request, n int, next http.Handler) {
		req.Header.Del("Range") // as a proxy may
		next.ServeHTTP(w, req)
	})
	_, _, err := r.read(client.ObjectRead{Object: object("a"), Offset: 2})
	wantCode(t, err, fence.CodeInternal)
}
