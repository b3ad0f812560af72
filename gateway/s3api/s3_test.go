package s3api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/s3store"
)

// newWorldOnS3 keeps the blobs of all buckets in one of an S3's.
func newWorldOnS3(t testing.TB) *world {
	t.Helper()
	env := testenv.Bucket(t)
	return newWorldOn(t, storeOn(t, env, env.Bucket))
}

func storeOn(t testing.TB, env testenv.S3, blobs string) *s3store.Store {
	t.Helper()
	s, err := s3store.New(s3store.Config{Endpoint: env.Endpoint, Region: env.Region, AccessKey: env.AccessKey, SecretKey: env.SecretKey, PathStyle: true, BlobBucket: blobs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// What is central holds over an S3 as over a folder.
func TestOverS3(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *world){
		"ObjectLife": objectLife, "UploadInParts": uploadInParts, "CompleteBelowTheMark": completeBelowTheMark, "PartsAreChecked": partsAreChecked,
		"Ranges": ranges, "DeleteSeveral": deleteSeveralUnderATokens,
	} {
		t.Run(name, func(t *testing.T) { test(t, newWorldOnS3(t)) })
	}
}

// existing is a bucket that had objects before it was protected.
type existing struct {
	*world
	env testenv.S3
}

func newExisting(t *testing.T, objects map[string]string) existing {
	t.Helper()
	env := testenv.Bucket(t)
	e := existing{newWorldOn(t, storeOn(t, env, "")), env}
	for key, body := range objects {
		if _, err := env.Client().PutObject(t.Context(), &s3.PutObjectInput{
			Bucket: &env.Bucket, Key: &key, Body: strings.NewReader(body), ContentType: aws.String("text/plain"), Metadata: map[string]string{"by": "before"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.store.ProtectBucket(t.Context(), env.Bucket, "", "{key}"); err != nil {
		t.Fatal(err)
	}
	if err := e.store.SetOptions(t.Context(), env.Bucket, "", map[string]any{"existing": true}); err != nil {
		t.Fatal(err)
	}
	return e
}

// etags are those of the objects that a list tells, by key.
func (e existing) etags(t *testing.T) (etags map[string]string, groups []string) {
	t.Helper()
	list, err := e.client().ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &e.env.Bucket, Delimiter: aws.String("/")})
	if err != nil {
		t.Fatal(err)
	}
	etags = map[string]string{}
	for _, o := range list.Contents {
		etags[*o.Key] = *o.ETag
	}
	for _, g := range list.CommonPrefixes {
		groups = append(groups, *g.Prefix)
	}
	return etags, groups
}

// Objects that were there before are served with the ETags that the S3 gave them, until they are written.
func TestExistingObjects(t *testing.T) {
	e := newExisting(t, map[string]string{"a": "one", "b": "two", "c/1": "three", ".fencegate/blobs/x": "reserved"})
	ctx, client, bucket := t.Context(), e.client(), &e.env.Bucket
	t.Run("Read", func(t *testing.T) {
		head, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: aws.String("a")})
		if err != nil || *head.ETag != md5Of("one") || *head.ContentLength != 3 || *head.ContentType != "text/plain" || head.Metadata["by"] != "before" {
			t.Errorf("%+v %v", head, err)
		}
		get, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("c/1"), IfMatch: aws.String(md5Of("three")), Range: aws.String("bytes=1-2")})
		if err != nil || *get.ETag != md5Of("three") || *get.ContentLength != 2 {
			t.Fatalf("%+v %v", get, err)
		}
		get.Body.Close()
		if _, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("a"), IfMatch: aws.String(md5Of("two"))}); code(err) != "PreconditionFailed" {
			t.Error(err)
		}
		if _, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("a"), IfNoneMatch: aws.String(md5Of("one"))}); status(err) != http.StatusNotModified {
			t.Error(err)
		}
	})
	t.Run("List", func(t *testing.T) {
		etags, groups := e.etags(t)
		if len(etags) != 2 || etags["a"] != md5Of("one") || etags["b"] != md5Of("two") || !slices.Equal(groups, []string{"c/"}) {
			t.Errorf("%v %v", etags, groups)
		}
	})
	t.Run("Copy", func(t *testing.T) {
		_, err := client.CopyObject(ctx, &s3.CopyObjectInput{
			Bucket: bucket, Key: aws.String("copy"), CopySource: aws.String(*bucket + "/a"), CopySourceIfMatch: aws.String(md5Of("two")), Metadata: token(e.grant("copy").First()),
		})
		if code(err) != "PreconditionFailed" {
			t.Errorf("of another body: %v", err)
		}
		out, err := client.CopyObject(ctx, &s3.CopyObjectInput{
			Bucket: bucket, Key: aws.String("copy"), CopySource: aws.String(*bucket + "/a"), CopySourceIfMatch: aws.String(md5Of("one")), Metadata: token(e.grant("copy").First()),
		})
		if err != nil || *out.CopyObjectResult.ETag != md5Of("one") {
			t.Fatalf("%+v %v", out, err)
		}
		head, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: aws.String("copy")})
		if err != nil || *head.ETag != md5Of("one") || head.Metadata["by"] != "before" {
			t.Errorf("%+v %v", head, err)
		}
	})
	t.Run("CopyPart", func(t *testing.T) {
		g := e.grant("parts")
		begun, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: aws.String("parts"), Metadata: token(g.First())})
		if err != nil {
			t.Fatal(err)
		}
		part, err := client.UploadPartCopy(ctx, &s3.UploadPartCopyInput{
			Bucket: bucket, Key: aws.String("parts"), UploadId: begun.UploadId, PartNumber: aws.Int32(1), CopySource: aws.String(*bucket + "/c/1"), CopySourceRange: aws.String("bytes=0-1"),
		})
		if err != nil || *part.CopyPartResult.ETag != md5Of("th") {
			t.Fatalf("%+v %v", part, err)
		}
		out, err := client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: bucket, Key: aws.String("parts"), UploadId: begun.UploadId,
			MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{PartNumber: aws.Int32(1), ETag: part.CopyPartResult.ETag}}},
		})
		if err != nil || *out.ETag != etagOf("th") {
			t.Errorf("%+v %v", out, err)
		}
	})
	t.Run("Write", func(t *testing.T) {
		g := e.grant("a")
		put := func(match string) (*s3.PutObjectOutput, error) {
			return client.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: aws.String("a"), Body: strings.NewReader("four"), Metadata: token(g.First()), IfMatch: &match})
		}
		if _, err := put(md5Of("two")); code(err) != "PreconditionFailed" {
			t.Errorf("another body's ETag: %v", err)
		}
		if _, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: aws.String("a"), Body: strings.NewReader("four"), Metadata: token(g.First()), IfNoneMatch: aws.String("*")}); code(err) != "PreconditionFailed" {
			t.Errorf("it is there: %v", err)
		}
		if out, err := put(md5Of("one")); err != nil || *out.ETag != md5Of("four") {
			t.Errorf("%+v %v", out, err)
		}
		if etags, _ := e.etags(t); etags["a"] != md5Of("four") {
			t.Errorf("%v", etags)
		}
	})
	t.Run("Delete", func(t *testing.T) {
		_, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: aws.String("b")}, header("X-Fence-Token", e.grant("b").First().String()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: aws.String("b")}); status(err) != http.StatusNotFound {
			t.Errorf("read after it was deleted: %v", err)
		}
		if etags, _ := e.etags(t); etags["b"] != "" {
			t.Errorf("listed after it was deleted: %v", etags)
		}
	})
}

// What lies where blobs are kept does not exist for clients, and nothing that they ask for changes it.
func TestReservedPrefix(t *testing.T) {
	const key = ".fencegate/blobs/x"
	e := newExisting(t, map[string]string{key: "reserved", "a": "one"})
	ctx, client, bucket := t.Context(), e.client(), &e.env.Bucket
	g, from := e.grant("to"), aws.String(*bucket+"/"+key)
	begun, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: aws.String("to"), Metadata: token(g.First())})
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"Get": func() error {
			_, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String(key)})
			return err
		},
		"Head": func() error {
			_, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: aws.String(key)})
			return err
		},
		"Copy": func() error {
			_, err := client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: bucket, Key: aws.String("to"), CopySource: from, Metadata: token(g.First())})
			return err
		},
		"CopyPart": func() error {
			_, err := client.UploadPartCopy(ctx, &s3.UploadPartCopyInput{Bucket: bucket, Key: aws.String("to"), UploadId: begun.UploadId, PartNumber: aws.Int32(1), CopySource: from})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := do(); status(err) != http.StatusNotFound {
				t.Errorf("%v", err)
			}
		})
	}
	for _, prefix := range []string{"", ".fence", ".fencegate/", key} {
		list, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: bucket, Prefix: &prefix, Delimiter: aws.String("/")})
		if err != nil || len(list.CommonPrefixes) != 0 || slices.ContainsFunc(list.Contents, func(o types.Object) bool { return *o.Key != "a" }) {
			t.Errorf("below %q: %+v %v", prefix, list, err)
		}
	}
	own := e.grant(key)
	if _, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: aws.String(key)}, header("X-Fence-Token", own.First().String())); status(err) >= http.StatusInternalServerError {
		t.Errorf("deleted: %v", err)
	}
	if _, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: aws.String(key), Body: strings.NewReader("x"), Metadata: token(own.First() + 1)}); status(err) != http.StatusBadRequest {
		t.Errorf("put: %v", err)
	}
	if _, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: aws.String(key), Metadata: token(own.First() + 1)}); status(err) != http.StatusBadRequest {
		t.Errorf("begun: %v", err)
	}
	if out, err := e.env.Client().GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String(key)}); err != nil || *out.ETag != md5Of("reserved") {
		t.Errorf("it is another one now: %+v %v", out, err)
	}
}
