package s3api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/fencegate/fencegate/gateway"
)

const limitedKey = "LIMITEDLIMITED16"

// limited is a client that may read keys below r/ and write keys below w/ of reports, and nothing else.
func (w *world) limited() *s3.Client {
	w.callers[limitedKey] = caller{name: "limited", may: func(a gateway.Action) bool {
		prefix := map[gateway.Verb]string{gateway.VerbRead: "r/", gateway.VerbWrite: "w/"}[a.Verb]
		return a.Bucket == "reports" && prefix != "" && (strings.HasPrefix(a.Key, prefix) || strings.HasPrefix(prefix, a.Key))
	}}
	return w.clientOf(limitedKey)
}

// Each operation asks for each object that it is about, whether it is read or written.
func TestAccessOfOperations(t *testing.T) {
	w := newWorld(t)
	client, ctx, bucket := w.limited(), t.Context(), aws.String("reports")
	for _, key := range []string{"r/a", "w/a", "x"} {
		w.mustPut(key, key, w.grant("report:"+key).First())
	}
	g := w.grantTo("limited", "report:w/new")
	begun, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: aws.String("w/new"), Metadata: token(g.First())})
	if err != nil {
		t.Fatal(err)
	}
	get := func(key string) error {
		_, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: &key})
		return err
	}
	copyOf := func(source string) error {
		_, err := client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: bucket, Key: aws.String("w/new"), CopySource: aws.String("reports/" + source), Metadata: token(g.First())})
		return err
	}
	part := func(source string) error {
		_, err := client.UploadPartCopy(ctx, &s3.UploadPartCopyInput{Bucket: bucket, Key: aws.String("w/new"), UploadId: begun.UploadId, PartNumber: aws.Int32(1), CopySource: aws.String("reports/" + source)})
		return err
	}
	list := func(prefix string) error {
		_, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: bucket, Prefix: &prefix})
		return err
	}
	uploads := func(prefix string) error {
		_, err := client.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: bucket, Prefix: &prefix})
		return err
	}
	location := func(bucket string) error {
		_, err := client.GetBucketLocation(ctx, &s3.GetBucketLocationInput{Bucket: &bucket})
		return err
	}
	head := func(bucket string) error {
		_, err := client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &bucket})
		return err
	}
	byKey := map[string]func(key string) error{
		"Put": func(key string) error {
			_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: strings.NewReader("x"), Metadata: token(g.First())})
			return err
		},
		"Copy": func(key string) error {
			_, err := client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: bucket, Key: &key, CopySource: aws.String("reports/r/a"), Metadata: token(g.First())})
			return err
		},
		"Delete": func(key string) error {
			_, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: &key}, header("X-Fence-Token", g.First().String()))
			return err
		},
		"Begin": func(key string) error {
			_, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: &key, Metadata: token(g.First())})
			return err
		},
		"Part": func(key string) error {
			_, err := client.UploadPart(ctx, &s3.UploadPartInput{Bucket: bucket, Key: &key, UploadId: begun.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader("x")})
			return err
		},
		"Parts": func(key string) error {
			_, err := client.ListParts(ctx, &s3.ListPartsInput{Bucket: bucket, Key: &key, UploadId: begun.UploadId})
			return err
		},
		"Abort": func(key string) error {
			_, err := client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: bucket, Key: &key, UploadId: begun.UploadId})
			return err
		},
		"Complete": func(key string) error {
			_, err := client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
				Bucket: bucket, Key: &key, UploadId: begun.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{PartNumber: aws.Int32(1), ETag: aws.String("x")}}},
			})
			return err
		},
	}
	denied := map[string]error{
		"GetWritable": get("w/a"), "GetOther": get("x"), "GetNothing": get("none"), "Source": copyOf("x"), "SourceWritable": copyOf("w/a"), "PartSource": part("x"),
		"PartSourceWritable": part("w/a"), "List": list("x"), "ListWritable": list("w/"), "Uploads": uploads("x"), "UploadsReadable": uploads("r/"),
		"Location": location("scratch"), "LocationOfNothing": location("nowhere"),
	}
	for name, do := range byKey {
		denied[name+"Readable"], denied[name+"Other"] = do("r/a"), do("none")
	}
	for name, err := range denied {
		if code(err) != "AccessDenied" || status(err) != http.StatusForbidden || strings.Contains(message(err), "report:") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, b := range []string{"scratch", "nowhere"} {
		if err := head(b); status(err) != http.StatusForbidden {
			t.Errorf("head of %s: %v", b, err)
		}
	}
	for name, err := range map[string]error{
		"Get": get("r/a"), "Part": part("r/a"), "List": list("r/"), "Uploads": uploads("w/"), "Location": location("reports"), "Head": head("reports"), "Parts": byKey["Parts"]("w/new"),
	} {
		if err != nil {
			t.Errorf("%s, which it may: %v", name, err)
		}
	}
	if got := w.get("x") + w.get("r/a") + w.get("w/a"); got != "xr/aw/a" {
		t.Errorf("something has changed: %q", got)
	}
	t.Run("DeleteSeveral", func(t *testing.T) {
		out, err := w.clientOf(limitedKey, header("X-Fence-Token", w.grantTo("limited", "report:w/a").First().String())).DeleteObjects(ctx, &s3.DeleteObjectsInput{
			Bucket: bucket, Delete: &types.Delete{Objects: []types.ObjectIdentifier{{Key: aws.String("x")}, {Key: aws.String("w/a")}, {Key: aws.String("r/a")}, {Key: aws.String("none")}}},
		})
		if err != nil || len(out.Deleted) != 1 || *out.Deleted[0].Key != "w/a" || len(out.Errors) != 3 || slices.ContainsFunc(out.Errors, func(e types.Error) bool { return *e.Code != "AccessDenied" }) {
			t.Errorf("%+v %v", out, err)
		}
		if got := w.get("x") + w.get("r/a"); got != "xr/a" {
			t.Errorf("something has changed: %q", got)
		}
	})
	t.Run("RightsAreTaken", func(t *testing.T) {
		w.mu.Lock()
		w.callers[limitedKey] = caller{name: "limited", may: func(a gateway.Action) bool { return a.Verb == gateway.VerbWrite && strings.HasPrefix("other/", a.Key) }}
		w.mu.Unlock()
		out, err := client.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: bucket})
		if err != nil || len(out.Uploads) != 0 {
			t.Errorf("uploads that it began and may no longer write: %+v %v", out, err)
		}
		if err := byKey["Complete"]("w/new"); code(err) != "AccessDenied" {
			t.Errorf("%v", err)
		}
	})
}
