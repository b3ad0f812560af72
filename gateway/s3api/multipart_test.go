package s3api_test

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/fencegate/fencegate/fence"
)

// uploading is an upload in parts of reports/a.
type uploading struct {
	*world
	t    *testing.T
	id   *string
	done []types.CompletedPart
	etag string
}

func (w *world) begin(t *testing.T, g fence.Token) *uploading {
	t.Helper()
	out, err := w.client().CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{
		Bucket: aws.String("reports"), Key: aws.String("a"), ContentType: aws.String("text/plain"), Metadata: map[string]string{"fence-token": g.String(), "by": "me"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &uploading{world: w, t: t, id: out.UploadId}
}

func (u *uploading) part(n int32, body string) {
	u.t.Helper()
	out, err := u.client().UploadPart(u.t.Context(), &s3.UploadPartInput{
		Bucket: aws.String("reports"), Key: aws.String("a"), UploadId: u.id, PartNumber: &n, Body: strings.NewReader(body),
	})
	if err != nil || *out.ETag != md5Of(body) {
		u.t.Fatalf("%+v %v", out, err)
	}
	u.done = append(u.done, types.CompletedPart{PartNumber: &n, ETag: out.ETag})
}

func (u *uploading) complete(options ...func(*s3.Options)) error {
	u.t.Helper()
	out, err := u.client(options...).CompleteMultipartUpload(u.t.Context(), &s3.CompleteMultipartUploadInput{
		Bucket: aws.String("reports"), Key: aws.String("a"), UploadId: u.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: u.done},
	})
	if err == nil {
		u.etag = *out.ETag
	}
	return err
}

// etagOf is that of a body in parts: the MD5 of their MD5s.
func etagOf(parts ...string) string {
	h := md5.New()
	for _, p := range parts {
		sum := md5.Sum([]byte(p))
		h.Write(sum[:])
	}
	return fmt.Sprintf(`"%s-%d"`, hex.EncodeToString(h.Sum(nil)), len(parts))
}

func TestUploadInParts(t *testing.T) { uploadInParts(t, newWorld(t)) }

func uploadInParts(t *testing.T, w *world) {
	g := w.grant("report:a")
	u := w.begin(t, g.First())
	one, two := strings.Repeat("1", 5<<20), "two"
	u.part(1, one)
	u.part(2, two)
	parts, err := w.client().ListParts(t.Context(), &s3.ListPartsInput{Bucket: aws.String("reports"), Key: aws.String("a"), UploadId: u.id, MaxParts: aws.Int32(1)})
	if err != nil || len(parts.Parts) != 1 || *parts.Parts[0].ETag != md5Of(one) || *parts.Parts[0].Size != 5<<20 || !*parts.IsTruncated || *parts.NextPartNumberMarker != "1" {
		t.Errorf("%+v %v", parts, err)
	}
	uploads, err := w.client().ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: aws.String("reports")})
	if err != nil || len(uploads.Uploads) != 1 || *uploads.Uploads[0].UploadId != *u.id || *uploads.Uploads[0].Key != "a" {
		t.Errorf("%+v %v", uploads, err)
	}
	w.absent(t, "a")
	for range 2 { // the answer to the first may have been lost
		if err := u.complete(); err != nil {
			t.Fatal(err)
		}
		if u.etag != etagOf(one, two) {
			t.Errorf("ETag %s, want %s", u.etag, etagOf(one, two))
		}
	}
	head, err := w.client().HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("reports"), Key: aws.String("a")})
	if err != nil || *head.ETag != etagOf(one, two) || *head.ContentType != "text/plain" || head.Metadata["by"] != "me" || w.get("a") != one+two {
		t.Errorf("%+v %v", head, err)
	}
	if _, err := w.client().ListParts(t.Context(), &s3.ListPartsInput{Bucket: aws.String("reports"), Key: aws.String("a"), UploadId: u.id}); code(err) != "NoSuchUpload" {
		t.Errorf("the parts of what is complete: %v", err)
	}
	w.mustPut("a", "later", g.First()+1)
	if err := u.complete(); code(err) != "StaleFenceToken" || w.get("a") != "later" {
		t.Errorf("completed again after another write: %v", err)
	}
}

// As long as anything is known of an upload whose token is below the mark, its completion says so: it is told from one that never was.
func TestCompleteBelowTheMark(t *testing.T) { completeBelowTheMark(t, newWorld(t)) }

func completeBelowTheMark(t *testing.T, w *world) {
	g := w.grant("report:a")
	remove := func(token fence.Token) {
		t.Helper()
		if _, err := w.client().DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String("reports"), Key: aws.String("a")}, header("X-Fence-Token", token.String())); err != nil {
			t.Fatal(err)
		}
	}
	complete, pending, aborted := w.begin(t, g.First()), w.begin(t, g.First()), w.begin(t, g.First())
	for _, u := range []*uploading{complete, pending, aborted} {
		u.part(1, "one")
	}
	if err := complete.complete(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client().AbortMultipartUpload(t.Context(), &s3.AbortMultipartUploadInput{Bucket: aws.String("reports"), Key: aws.String("a"), UploadId: aborted.id}); err != nil {
		t.Fatal(err)
	}
	if err := aborted.complete(); code(err) != "NoSuchUpload" {
		t.Errorf("given up, and its token is the mark: %v", err)
	}
	for _, next := range []struct {
		name string
		do   func()
	}{{"Replaced", func() { w.mustPut("a", "later", g.First()+1) }}, {"Deleted", func() { remove(g.First() + 2) }}} {
		t.Run(next.name, func(t *testing.T) {
			next.do()
			for name, u := range map[string]*uploading{"complete": complete, "pending": pending, "aborted": aborted} {
				if err := u.complete(); code(err) != "StaleFenceToken" || status(err) != http.StatusPreconditionFailed || !strings.Contains(message(err), "below the mark") {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	if err := aborted.complete(header("X-Fence-Token", (g.First() + 5).String())); code(err) != "NoSuchUpload" {
		t.Errorf("given up, and another token is not below the mark: %v", err)
	}
	pending.id = aws.String("00000000-0000-4000-8000-000000000000")
	if err := pending.complete(); code(err) != "NoSuchUpload" {
		t.Errorf("of which nothing is known: %v", err)
	}
}

// An upload that began under a lease which has passed on is refused at the end, and nothing is visible.
func TestUploadOutlivesItsLease(t *testing.T) {
	w := newWorld(t)
	u := w.begin(t, w.grant("report:a").First())
	u.part(1, "late")
	next := w.grant("report:a")
	if err := u.complete(); code(err) != "StaleFenceToken" {
		t.Errorf("%v", err)
	}
	w.absent(t, "a")
	if err := u.complete(header("X-Fence-Token", next.First().String())); err != nil {
		t.Errorf("with a token of its successor: %v", err)
	}
}

// An upload's id is good for its principal, bucket and key only.
func TestUploadsAreTheirOwners(t *testing.T) {
	w := newWorld(t)
	w.callers["OTHEROTHEROTHER16"] = caller{name: "other"}
	u := w.begin(t, w.grant("report:a").First())
	u.part(1, "one")
	ctx := t.Context()
	part := func(client *s3.Client, key string) error {
		_, err := client.UploadPart(ctx, &s3.UploadPartInput{Bucket: aws.String("reports"), Key: &key, UploadId: u.id, PartNumber: aws.Int32(1), Body: strings.NewReader("x")})
		return err
	}
	other := w.clientOf("OTHEROTHEROTHER16")
	for name, err := range map[string]error{
		"principal": part(other, "a"), "key": part(w.client(), "b"),
	} {
		if code(err) != "NoSuchUpload" || status(err) != http.StatusNotFound {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if _, err := other.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: aws.String("reports"), Key: aws.String("a"), UploadId: u.id}); code(err) != "NoSuchUpload" {
		t.Error(err)
	}
	list, err := other.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: aws.String("reports")})
	if err != nil || len(list.Uploads) != 0 {
		t.Errorf("%+v %v", list, err)
	}
	if err := u.complete(); err != nil || w.get("a") != "one" {
		t.Error(err)
	}
}

func TestUploadIsGivenUp(t *testing.T) {
	w := newWorld(t)
	u := w.begin(t, w.grant("report:a").First())
	u.part(1, "one")
	if _, err := w.client().AbortMultipartUpload(t.Context(), &s3.AbortMultipartUploadInput{Bucket: aws.String("reports"), Key: aws.String("a"), UploadId: u.id}); err != nil {
		t.Fatal(err)
	}
	if err := u.complete(); code(err) != "NoSuchUpload" {
		t.Error(err)
	}
	w.absent(t, "a")
	if _, err := w.client().CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: aws.String("reports"), Key: aws.String("a")}); code(err) != "FenceTokenRequired" {
		t.Error(err)
	}
}

func TestPartsAreChecked(t *testing.T) { partsAreChecked(t, newWorld(t)) }

func partsAreChecked(t *testing.T, w *world) {
	g := w.grant("report:a")
	u := w.begin(t, g.First())
	answer := w.send(w.signed(http.MethodPut, "/reports/a?partNumber=1&uploadId="+*u.id, "one", "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD", "X-Amz-Checksum-Sha256", sha256Of("two")))
	if answer.StatusCode != http.StatusBadRequest {
		t.Error(answer.Status)
	}
	u.done = []types.CompletedPart{{PartNumber: aws.Int32(1), ETag: aws.String(md5Of("one"))}}
	if err := u.complete(); status(err) != http.StatusBadRequest {
		t.Errorf("a part that was refused: %v", err)
	}
	t.Run("Copied", func(t *testing.T) {
		w.mustPut("from", "0123456789", w.grant("report:from").First())
		out, err := w.client().UploadPartCopy(t.Context(), &s3.UploadPartCopyInput{
			Bucket: aws.String("reports"), Key: aws.String("a"), UploadId: u.id, PartNumber: aws.Int32(1), CopySource: aws.String("reports/from"), CopySourceRange: aws.String("bytes=2-4"),
		})
		if err != nil {
			t.Fatal(err)
		}
		u.done = []types.CompletedPart{{PartNumber: aws.Int32(1), ETag: out.CopyPartResult.ETag}}
		if err := u.complete(); err != nil || w.get("a") != "234" {
			t.Errorf("%v", err)
		}
	})
}
