package s3api_test

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func md5Of(s string) string {
	sum := md5.Sum([]byte(s))
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func sha256Of(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func TestObjectLife(t *testing.T) { objectLife(t, newWorld(t)) }

func objectLife(t *testing.T, w *world) {
	ctx, client, g := t.Context(), w.client(), w.grant("report:a")
	out, err := client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String("reports"), Key: aws.String("a"), Body: strings.NewReader("one"), ContentType: aws.String("text/plain"),
		CacheControl: aws.String("max-age=1"), ContentDisposition: aws.String("inline"), ContentEncoding: aws.String("gzip"),
		Metadata: map[string]string{"fence-token": g.First().String(), "By": "me"},
	})
	if err != nil || *out.ETag != md5Of("one") {
		t.Fatalf("%v %v", out, err)
	}
	t.Run("Get", func(t *testing.T) {
		got, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("reports"), Key: aws.String("a")})
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		body, err := io.ReadAll(got.Body)
		if err != nil || string(body) != "one" || *got.ETag != md5Of("one") || *got.ContentType != "text/plain" || *got.CacheControl != "max-age=1" ||
			*got.ContentDisposition != "inline" || *got.ContentEncoding != "gzip" || *got.ContentLength != 3 || got.LastModified.IsZero() {
			t.Errorf("%q %v %+v", body, err, got)
		}
		if len(got.Metadata) != 1 || got.Metadata["by"] != "me" {
			t.Errorf("metadata %v: the token is not kept", got.Metadata)
		}
	})
	t.Run("Head", func(t *testing.T) {
		got, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: aws.String("reports"), Key: aws.String("a"), ChecksumMode: types.ChecksumModeEnabled})
		if err != nil || *got.ETag != md5Of("one") || *got.ContentLength != 3 || aws.ToString(got.ChecksumSHA256) != sha256Of("one") {
			t.Errorf("%+v %v", got, err)
		}
	})
	t.Run("Copy", func(t *testing.T) {
		b := w.grant("report:b")
		got, err := client.CopyObject(ctx, &s3.CopyObjectInput{
			Bucket: aws.String("reports"), Key: aws.String("b"), CopySource: aws.String("reports/a"), Metadata: token(b.First()),
		})
		if err != nil || *got.CopyObjectResult.ETag != md5Of("one") || w.get("b") != "one" {
			t.Fatalf("%+v %v", got, err)
		}
		head, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: aws.String("reports"), Key: aws.String("b")})
		if err != nil || *head.ContentType != "text/plain" || head.Metadata["by"] != "me" {
			t.Errorf("%+v %v", head, err)
		}
		_, err = client.CopyObject(ctx, &s3.CopyObjectInput{
			Bucket: aws.String("reports"), Key: aws.String("b"), CopySource: aws.String("reports/b"), MetadataDirective: types.MetadataDirectiveReplace,
			Metadata: map[string]string{"fence-token": (b.First() + 1).String(), "mtime": "1"}, ContentType: aws.String("text/csv"),
		})
		if err != nil {
			t.Fatal(err)
		}
		head, err = client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: aws.String("reports"), Key: aws.String("b")})
		if err != nil || *head.ContentType != "text/csv" || head.Metadata["by"] != "" || head.Metadata["mtime"] != "1" {
			t.Errorf("%+v %v", head, err)
		}
	})
	t.Run("Replaced", func(t *testing.T) {
		w.mustPut("a", "two", g.First()+1)
		if etag := w.mustPut("a", "two", g.First()+1); etag != md5Of("two") || w.get("a") != "two" {
			t.Errorf("a replay answers %s", etag)
		}
	})
	t.Run("Deleted", func(t *testing.T) {
		_, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("reports"), Key: aws.String("a")}, header("X-Fence-Token", (g.First()+2).String()))
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: aws.String("reports"), Key: aws.String("a")})
		if status(err) != http.StatusNotFound {
			t.Errorf("%v", err)
		}
	})
}
