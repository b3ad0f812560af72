package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// bucketed is a gateway in front of a bucket that has objects of its own.
type bucketed struct {
	serving
	bucket testenv.S3
	ledger []string // flags of commands that need the ledger
	flags  []string // and the S3, too
}

func newBucketed(t *testing.T) *bucketed {
	t.Helper()
	b := &bucketed{bucket: testenv.Bucket(t)}
	database := testenv.Ledger(t, func(url string) error {
		_, err := pgstore.Migrate(t.Context(), url)
		return err
	})
	b.ledger = []string{"--database-url=" + database}
	b.flags = append(b.ledger, "--s3-endpoint="+b.bucket.Endpoint, "--s3-access-key="+b.bucket.AccessKey, "--s3-secret-key="+b.bucket.SecretKey)
	b.t = t
	b.run("protect", "--bucket="+b.bucket.Bucket, "--lease=report:{key:1}", "--keep=1h")
	a, err := assemble(t.Context(), parts{databaseURL: database, redisURL: testenv.Redis(t), log: slog.New(slog.NewTextHandler(t.Output(), nil)), s3: s3Flags{
		S3Endpoint: b.bucket.Endpoint, S3Region: b.bucket.Region, S3AccessKey: b.bucket.AccessKey, S3SecretKey: b.bucket.SecretKey, S3PathStyle: true, S3Prefix: ".fencegate/",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

// run runs a command on the ledger, and one on the S3 with it where it takes that.
func (b *bucketed) run(args ...string) string {
	b.t.Helper()
	flags := b.ledger
	switch {
	case args[0] == "objects" && (args[1] == "history" || args[1] == "restore"):
		flags = []string{"--url=" + b.url}
	case args[0] == "objects":
		flags = b.flags
	}
	code, out, errs := command(b.t, append(args, flags...)...)
	if code != exitOK {
		b.t.Fatalf("%v: exit %d: %s%s", args, code, out, errs)
	}
	return out
}

// natural puts an object into the bucket past the gateway.
func (b *bucketed) natural(key, body string) {
	b.t.Helper()
	_, err := b.bucket.Client().PutObject(b.t.Context(), &s3.PutObjectInput{
		Bucket: &b.bucket.Bucket, Key: &key, Body: strings.NewReader(body), ContentType: aws.String("text/css"), Metadata: map[string]string{"by": "hand"},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// stored reads an object past the gateway; empty when there is none.
func (b *bucketed) stored(key string) string {
	b.t.Helper()
	out, err := b.bucket.Client().GetObject(b.t.Context(), &s3.GetObjectInput{Bucket: &b.bucket.Bucket, Key: &key})
	if err != nil {
		return ""
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(body)
}

func (b *bucketed) object(key string) string { return "/v1/objects/" + b.bucket.Bucket + "/" + key }

// keys lists the bucket through the gateway.
func (b *bucketed) keys(query string) string {
	b.t.Helper()
	var page struct {
		Objects []struct {
			Key     string
			Natural bool
		}
		Groups []string
	}
	if err := json.Unmarshal([]byte(b.want(http.StatusOK, "GET", "/v1/objects/"+b.bucket.Bucket+query, "")), &page); err != nil {
		b.t.Fatal(err)
	}
	list := page.Groups
	for _, o := range page.Objects {
		if o.Natural {
			o.Key += "*"
		}
		list = append(list, o.Key)
	}
	return strings.Join(list, " ")
}

// A bucket with objects in it can be put behind a gateway as it is.
func TestExistingBucket(t *testing.T) {
	b := newBucketed(t)
	for _, key := range []string{"a", "b", "c", "d/1", "d/2", ".fencegate/blobs/x"} {
		b.natural(key, "old "+key)
	}
	answer, body := request(t, "GET", b.url+b.object("a"), "")
	if tag := answer.Header.Get("ETag"); body != "old a" || answer.Header.Get("X-Fence-Token") != "0" || tag == `"0"` || answer.Header.Get("X-Meta-By") != "hand" || answer.Header.Get("Content-Type") != "text/css" {
		t.Fatalf("%q, %v", body, answer.Header)
	} else if same, _ := request(t, "GET", b.url+b.object("a"), "", "If-None-Match: "+tag); same.StatusCode != http.StatusNotModified {
		t.Error(same.StatusCode)
	}
	if part := b.want(http.StatusPartialContent, "GET", b.object("a"), "", "Range: bytes=4-"); part != "a" {
		t.Errorf("a part of it is %q", part)
	}
	b.want(http.StatusNotFound, "GET", b.object(".fencegate/blobs/x"), "")
	for what, text := range map[string]string{
		"a put":    b.want(http.StatusBadRequest, "PUT", b.object(".fencegate/x"), "x", "X-Fence-Token: 1"),
		"a copy":   b.want(http.StatusBadRequest, "POST", b.object(".fencegate/x"), fmt.Sprintf(`{"copy":"objects/%s/a"}`, b.bucket.Bucket), "X-Fence-Token: 1"),
		"a commit": b.want(http.StatusBadRequest, "POST", "/v1/commit", fmt.Sprintf(`{"writes":[{"op":"delete","resource":"objects/%[1]s/a","token":1},{"op":"copy","resource":"objects/%[1]s/.fencegate/x","from":"objects/%[1]s/a","token":1}]}`, b.bucket.Bucket)),
	} {
		if !strings.Contains(text, `"field":"key"`) || strings.Contains(what, "commit") && !strings.Contains(text, `"write":1`) {
			t.Errorf("%s below the reserved prefix: %s", what, text)
		}
	}
	if got := b.keys("?delimiter=/"); got != "d/ a* b* c*" {
		t.Errorf("the list is %s", got)
	}

	// A first fenced write replaces it, a delete hides it, a copy reads it.
	token, id := b.acquire("report:a")
	b.want(http.StatusPreconditionFailed, "PUT", b.object("a"), "new", "X-Fence-Token: "+token.String(), "If-None-Match: *")
	b.want(http.StatusOK, "PUT", b.object("a"), "new", "X-Fence-Token: "+token.String(), `If-Match: "0"`)
	b.want(http.StatusNoContent, "DELETE", "/v1/leases/report:a", "", "X-Lease-Id: "+id)
	token, _ = b.acquire("report:b")
	b.want(http.StatusNoContent, "DELETE", b.object("b"), "", "X-Fence-Token: "+token.String())
	b.want(http.StatusNotFound, "GET", b.object("b"), "")
	token, _ = b.acquire("report:d")
	for _, replayed := range []string{"", "true"} {
		answer, text := request(t, "POST", b.url+b.object("d/3"), fmt.Sprintf(`{"copy":"objects/%s/c"}`, b.bucket.Bucket), "X-Fence-Token: "+token.String())
		if answer.StatusCode != http.StatusCreated || answer.Header.Get("X-Fence-Replayed") != replayed {
			t.Errorf("a copy: %s, replayed %q, %s", answer.Status, answer.Header.Get("X-Fence-Replayed"), text)
		}
	}
	b.want(http.StatusCreated, "POST", b.object("d/4"), fmt.Sprintf(`{"rename":"objects/%s/d/1"}`, b.bucket.Bucket), "X-Fence-Token: "+token.String())
	if got := b.keys(""); got != "a c* d/2* d/3 d/4" {
		t.Errorf("the list is %s", got)
	}
	for key, want := range map[string]string{"a": "new", "d/3": "old c", "d/4": "old d/1"} {
		if got := b.want(http.StatusOK, "GET", b.object(key), ""); got != want || key == "d/3" && b.stored("c") != "old c" {
			t.Errorf("%s is %q", key, got)
		}
	}

	// What is written past the gateway counts until the key is known, and not any more after an import.
	b.natural("c", "newer c")
	b.want(http.StatusOK, "GET", b.object("c"), "")
	if got := b.run("objects", "import", b.bucket.Bucket, "--dry-run"); !strings.Contains(got, "2 to be imported") {
		t.Error(got)
	}
	if got := b.run("objects", "import", b.bucket.Bucket, "--remove"); !strings.Contains(got, "2 imported, 2 deleted under their own keys, 3 left") {
		t.Error(got)
	}
	b.natural("c", "not seen")
	if got := b.want(http.StatusOK, "GET", b.object("c"), ""); got != "newer c" || b.keys("") != "a c d/2 d/3 d/4" {
		t.Errorf("%q, %s", got, b.keys(""))
	}

	// An export copies what has changed, and takes away what is gone.
	if got := b.run("objects", "export", b.bucket.Bucket, "--verbose"); !strings.Contains(got, "5 exported") || b.stored("a") != "new" || b.stored("c") != "newer c" {
		t.Errorf("%s%q %q", got, b.stored("a"), b.stored("c"))
	}
	b.want(http.StatusNoContent, "DELETE", b.object("d/3"), "", "X-Fence-Token: "+token.String()[:len(token.String())-1]+"1")
	if got := b.run("objects", "export", b.bucket.Bucket, "--remove"); !strings.Contains(got, "0 exported, 1 deleted, 4 left") || b.stored("d/3") != "" {
		t.Error(got)
	}
}

func TestVersionsOfAnObject(t *testing.T) {
	b := newBucketed(t)
	token, id := b.acquire("report:a")
	b.want(http.StatusCreated, "PUT", b.object("a"), "one", "X-Fence-Token: "+token.String())
	b.want(http.StatusNoContent, "DELETE", "/v1/leases/report:a", "", "X-Lease-Id: "+id)
	next, id := b.acquire("report:a")
	b.want(http.StatusOK, "PUT", b.object("a"), "two", "X-Fence-Token: "+next.String())
	if got := b.want(http.StatusOK, "GET", b.object("a?token="+token.String()), ""); got != "one" {
		t.Errorf("the version is %q", got)
	}
	if got := b.run("objects", "history", b.bucket.Bucket, "a"); strings.Count(got, "\n") != 3 || !strings.Contains(got, token.String()) || !strings.Contains(got, "now") {
		t.Errorf("%s", got)
	}
	code, _, errs := command(t, "objects", "restore", b.bucket.Bucket, "a", "--version="+token.String(), "--wait=0s", "--url="+b.url)
	if code == exitOK || !strings.Contains(errs, "lease-held") {
		t.Errorf("a restore under somebody else's lease: exit %d, %s", code, errs)
	}
	b.want(http.StatusNoContent, "DELETE", "/v1/leases/report:a", "", "X-Lease-Id: "+id)
	b.run("objects", "restore", b.bucket.Bucket, "a", "--version="+token.String())
	if got := b.want(http.StatusOK, "GET", b.object("a"), ""); got != "one" {
		t.Errorf("restored, it is %q", got)
	}
	b.want(http.StatusCreated, "POST", "/v1/leases/report:a", "") // it was given back

	// What was imported is version 0.
	b.natural("z", "of old")
	b.run("objects", "import", b.bucket.Bucket)
	token, id = b.acquire("report:z")
	b.want(http.StatusOK, "PUT", b.object("z"), "new", "X-Fence-Token: "+token.String())
	b.want(http.StatusNoContent, "DELETE", "/v1/leases/report:z", "", "X-Lease-Id: "+id)
	answer, text := request(t, "GET", b.url+b.object("z?token=0"), "")
	if text != "of old" || answer.Header.Get("ETag") != `"0"` || answer.Header.Get("X-Fence-Token") != token.String() {
		t.Errorf("version 0 is %q, %v", text, answer.Header)
	}
	b.run("objects", "restore", b.bucket.Bucket, "z", "--version=0")
	if got := b.want(http.StatusOK, "GET", b.object("z"), ""); got != "of old" {
		t.Errorf("restored to version 0, it is %q", got)
	}
	b.want(http.StatusNotFound, "GET", b.object("a?token=0"), "")
	token, _ = b.acquire("report:d")
	b.want(http.StatusNotFound, "POST", b.object("d/9"), fmt.Sprintf(`{"copy":"objects/%s/a","version":0}`, b.bucket.Bucket), "X-Fence-Token: "+token.String())
	if got := b.run("objects", "gc", "--dry-run"); !strings.Contains(got, "0 uploads to be given up, 0 versions to be forgotten, 0 blobs") {
		t.Error(got)
	}
	b.run("protect", "--bucket="+b.bucket.Bucket, "--keep=0s")
	if got := b.run("objects", "gc"); !strings.Contains(got, "0 blobs deleted") {
		t.Error(got)
	}
}

// A client stores a body itself, where no URL that was ever handed out reaches once it is published.
func TestDirectUpload(t *testing.T) {
	b := newBucketed(t)
	body := strings.Repeat("direct ", 1000)
	sum := sha256.Sum256([]byte(body))
	var up struct {
		Blob, URL, Method string
		Headers           map[string]string
	}
	asked := fmt.Sprintf(`{"size":%d,"sha256":%q,"header":{"content_type":"text/plain"}}`, len(body), hex.EncodeToString(sum[:]))
	if err := json.Unmarshal([]byte(b.want(http.StatusCreated, "POST", "/v1/uploads/"+b.bucket.Bucket+"?presign", asked)), &up); err != nil {
		t.Fatal(err)
	}
	put := func(body string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), up.Method, up.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range up.Headers {
			if name != "Content-Length" {
				r.Header.Set(name, value)
			}
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	token, _ := b.acquire("report:a")
	commit := fmt.Sprintf(`{"writes":[{"op":"put","resource":"objects/%s/a","blob":%q}]}`, b.bucket.Bucket, up.Blob)
	send := func(status int) string {
		t.Helper()
		return b.want(status, "POST", "/v1/commit", commit, "X-Fence-Token: "+token.String())
	}
	if got := send(http.StatusConflict); !strings.Contains(got, "upload-expired") || !strings.Contains(got, `"write":0`) {
		t.Errorf("a commit before anything was stored: %s", got)
	}
	if status := put(strings.Replace(body, "d", "D", 1)); status < 400 {
		t.Errorf("other bytes: %d", status)
	}
	if status := put(body); status != http.StatusOK {
		t.Fatalf("the body: %d", status)
	}
	send(http.StatusOK)
	if got := b.want(http.StatusOK, "GET", b.object("a"), ""); got != body {
		t.Errorf("%d bytes", len(got))
	}
	put(body) // once more: it reaches the staging key only
	send(http.StatusOK)
	blobs, err := b.bucket.Client().ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &b.bucket.Bucket, Prefix: aws.String(".fencegate/blobs/")})
	if err != nil || len(blobs.Contents) != 1 || strings.Contains(up.URL, *blobs.Contents[0].Key) {
		t.Errorf("%v, %v", blobs, err)
	}

	// And reads itself.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(t.Context(), "GET", b.url+b.object("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Prefer", "redirect")
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusTemporaryRedirect {
		t.Fatal(answer.Status)
	}
	direct, err := http.Get(answer.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Body.Close()
	if got, err := io.ReadAll(direct.Body); err != nil || !bytes.Equal(got, []byte(body)) || direct.Header.Get("Content-Type") != "text/plain" {
		t.Errorf("%d bytes of %s, %v", len(got), direct.Header.Get("Content-Type"), err)
	}
}
