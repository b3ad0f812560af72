package s3store_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/s3store"
)

// send does with a signed request what a client does that knows nothing but it.
func send(t *testing.T, method string, signed stores.Signed, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, signed.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header(signed.Header).Clone()
	r.Header.Del("Content-Length")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(got)
}

func keysOf(t *testing.T, env testenv.S3, bucket string) string {
	t.Helper()
	list, err := env.Client().ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &bucket})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, o := range list.Contents {
		keys = append(keys, *o.Key)
	}
	return strings.Join(keys, " ")
}

func TestDirectUpload(t *testing.T) {
	env := testenv.Bucket(t)
	s := open(t, configOf(env))
	const body, other = "the body", "the BODY"
	sum, size := sha256.Sum256([]byte(body)), int64(len(body))
	adopt := func() error { return s.Adopt(t.Context(), env.Bucket, id, size, sum) }
	if err := adopt(); !errors.Is(err, stores.ErrMissing) {
		t.Errorf("adopt of nothing: %v", err)
	}
	put, err := s.SignPut(t.Context(), env.Bucket, id, size, sum, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got := http.Header(put.Header).Get("Content-Length"); got != strconv.Itoa(len(body)) || put.Header["Host"] != nil {
		t.Errorf("headers %v", put.Header)
	}
	for _, wrong := range []string{other, body + "!", body[1:], ""} {
		if answer, text := send(t, http.MethodPut, put, wrong); answer.StatusCode < 400 {
			t.Errorf("put of %q: %s %s", wrong, answer.Status, text)
		}
	}
	if err := adopt(); !errors.Is(err, stores.ErrMissing) {
		t.Errorf("adopt of refused bodies: %v", err)
	}
	// Another key's signature is not this one's.
	elsewhere := put
	elsewhere.URL = strings.Replace(put.URL, "staging/", "blobs/", 1)
	if answer, _ := send(t, http.MethodPut, elsewhere, body); answer.StatusCode < 400 {
		t.Errorf("put to the blob's own key: %s", answer.Status)
	}
	if answer, text := send(t, http.MethodPut, put, body); answer.StatusCode != http.StatusOK {
		t.Fatalf("put: %s %s", answer.Status, text)
	}
	if err := s.Adopt(t.Context(), env.Bucket, id, size+1, sum); fence.CodeOf(err) != fence.CodeChecksumMismatch {
		t.Errorf("adopt of another length: %v", err)
	}
	if err := s.Adopt(t.Context(), env.Bucket, id, size, sha256.Sum256([]byte(other))); fence.CodeOf(err) != fence.CodeChecksumMismatch {
		t.Errorf("adopt of another checksum: %v", err)
	}
	for range 2 {
		if err := adopt(); err != nil {
			t.Fatalf("adopt: %v", err)
		}
	}
	if got := keysOf(t, env, env.Bucket); got != ".fencegate/blobs/"+id {
		t.Errorf("keys: %s", got)
	}

	// The URL is used once more, with whatever the server lets through.
	first := describe(t, env, ".fencegate/blobs/"+id)
	for _, again := range []string{other, body} {
		send(t, http.MethodPut, put, again)
	}
	if now := describe(t, env, ".fencegate/blobs/"+id); now != first {
		t.Errorf("the blob was %s and is %s", first, now)
	}
	if err := adopt(); err != nil {
		t.Errorf("adopt again: %v", err)
	}
	if now := describe(t, env, ".fencegate/blobs/"+id); now != first {
		t.Errorf("the blob was %s and is %s", first, now)
	}
	send(t, http.MethodPut, put, body)
	if err := s.Delete(t.Context(), env.Bucket, id); err != nil {
		t.Fatal(err)
	}
	if got := keysOf(t, env, env.Bucket); got != "" {
		t.Errorf("keys after the delete: %s", got)
	}
}

func describe(t *testing.T, env testenv.S3, key string) string {
	t.Helper()
	out, err := env.Client().GetObject(t.Context(), &s3.GetObjectInput{Bucket: &env.Bucket, Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body) + " " + out.LastModified.String() + " " + *out.ETag
}

func TestDirectDownload(t *testing.T) {
	env := testenv.Bucket(t)
	cfg := configOf(env)
	cfg.BlobBucket = env.Bucket
	s := open(t, cfg)
	if err := s.Put(t.Context(), "other-bucket", id, strings.NewReader("0123456789"), 10); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "Content-Encoding": "gzip", "Content-Disposition": `attachment; filename="a b.txt"`, "Cache-Control": "no-store",
	}
	get, err := s.SignGet(t.Context(), "other-bucket", id, fence.ObjectHeader{
		ContentType: want["Content-Type"], ContentEncoding: want["Content-Encoding"], ContentDisposition: want["Content-Disposition"], CacheControl: want["Cache-Control"],
	}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	answer, body := send(t, http.MethodGet, get, "")
	if answer.StatusCode != http.StatusOK || body != "0123456789" {
		t.Errorf("%s %q", answer.Status, body)
	}
	for name, value := range want {
		if got := answer.Header.Get(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	http.Header(get.Header).Set("Range", "bytes=2-4")
	if answer, body := send(t, http.MethodGet, get, ""); answer.StatusCode != http.StatusPartialContent || body != "234" {
		t.Errorf("%s %q", answer.Status, body)
	}
	if answer, _ := send(t, http.MethodPut, get, "x"); answer.StatusCode < 400 {
		t.Errorf("a PUT with the signature of a GET: %s", answer.Status)
	}
}

func TestSignRefuses(t *testing.T) {
	s := open(t, s3store.Config{AccessKey: "a", SecretKey: "b", Endpoint: "http://host.invalid"})
	for name, c := range map[string]struct {
		bucket, id string
		size       int64
		valid      time.Duration
		want       fence.Code
	}{
		"TooLong":    {"bucket", id, 5<<30 + 1, time.Minute, fence.CodeTooLarge},
		"Negative":   {"bucket", id, -1, time.Minute, fence.CodeInvalidRequest},
		"Forever":    {"bucket", id, 1, 8 * 24 * time.Hour, fence.CodeInvalidRequest},
		"Never":      {"bucket", id, 1, 0, fence.CodeInvalidRequest},
		"OddID":      {"bucket", "../x", 1, time.Minute, fence.CodeInternal},
		"OddBucket":  {"a/b", id, 1, time.Minute, fence.CodeInvalidRequest},
		"NotTooLong": {"bucket", id, 5 << 30, 7 * 24 * time.Hour, fence.CodeAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.SignPut(t.Context(), c.bucket, c.id, c.size, [32]byte{}, c.valid); fence.CodeOf(err) != c.want {
				t.Errorf("put: %v, want %s", err, c.want)
			}
		})
	}
}

// A store that heeds no checksum and knows none is read.
func TestAdoptReadsWhereThereIsNoChecksum(t *testing.T) {
	objects := map[string]string{}
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		object, ok := objects[r.URL.Path]
		switch from := r.Header.Get("X-Amz-Copy-Source"); {
		case from != "":
			objects[r.URL.Path] = objects["/"+from]
			_, _ = io.WriteString(w, `<CopyObjectResult><ETag>"e"</ETag></CopyObjectResult>`)
		case r.Method == http.MethodDelete:
			delete(objects, r.URL.Path)
		case !ok:
			return failWith(w, http.StatusNotFound, "NoSuchKey")
		default:
			w.Header().Set("ETag", `"e"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte(object)))
		}
		return true
	})
	blobs := open(t, s.config())
	const staging, blob = "/bucket/.fencegate/staging/" + id, "/bucket/.fencegate/blobs/" + id
	adopt := func() error { return blobs.Adopt(t.Context(), "bucket", id, 4, sha256.Sum256([]byte("body"))) }
	objects[staging] = "BODY"
	if err := adopt(); fence.CodeOf(err) != fence.CodeChecksumMismatch || objects[blob] != "" {
		t.Errorf("adopt of something else: %v, %q", err, objects[blob])
	}
	objects[staging] = "body"
	if err := adopt(); err != nil || objects[blob] != "body" {
		t.Errorf("adopt: %v, %q", err, objects[blob])
	}
	objects[staging] = "BODY"
	if err := adopt(); err != nil || objects[blob] != "body" {
		t.Errorf("adopt again: %v, %q", err, objects[blob])
	}
}
