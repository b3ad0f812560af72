package s3store_test

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/storetest"
)

// TestAnotherS3 runs the conformance suites on the S3 that FENCEGATE_TEST_S3_ENDPOINT names, such as a MinIO, with the keys
// FENCEGATE_TEST_S3_ACCESS_KEY and FENCEGATE_TEST_S3_SECRET_KEY and, if it is not us-east-1, the region FENCEGATE_TEST_S3_REGION. The keys must
// be good for making buckets, which it removes again.
func TestAnotherS3(t *testing.T) {
	if os.Getenv("FENCEGATE_TEST_S3_ENDPOINT") == "" {
		t.Skip("no other S3 is to be tested: FENCEGATE_TEST_S3_ENDPOINT, _ACCESS_KEY and _SECRET_KEY name one; versitygw is always tested")
	}
	t.Run("Blobs", func(t *testing.T) {
		storetest.RunBlobs(t, func(t *testing.T) (stores.Blobs, string) {
			env := anotherBucket(t)
			return open(t, configOf(env)), env.Bucket
		})
	})
	t.Run("Naturals", func(t *testing.T) {
		storetest.RunNaturals(t, func(t *testing.T) storetest.NaturalStore {
			env := anotherBucket(t)
			cfg := configOf(env)
			cfg.Prefix = "some/where/"
			s := open(t, cfg)
			s.CopyInPartsFrom(5 << 20)
			return storetest.NaturalStore{Naturals: s, Blobs: s, Bucket: env.Bucket, Reserved: cfg.Prefix, Large: 11 << 20, PutObject: putsInto(env)}
		})
	})
	t.Run("Assembler", func(t *testing.T) {
		storetest.RunAssembler(t, func(t *testing.T) storetest.PartStore {
			env := anotherBucket(t)
			s := open(t, configOf(env))
			return storetest.PartStore{Assembler: s, Blobs: s, Other: open(t, configOf(env)), Bucket: env.Bucket}
		})
	})
}

// anotherBucket makes a bucket on the other S3, and removes it with all that is in it when the test ends.
func anotherBucket(t *testing.T) testenv.S3 {
	t.Helper()
	env := testenv.S3{
		Endpoint: os.Getenv("FENCEGATE_TEST_S3_ENDPOINT"), Region: os.Getenv("FENCEGATE_TEST_S3_REGION"),
		AccessKey: os.Getenv("FENCEGATE_TEST_S3_ACCESS_KEY"), SecretKey: os.Getenv("FENCEGATE_TEST_S3_SECRET_KEY"),
		Bucket: "test-" + strings.ToLower(rand.Text()),
	}
	if env.Region == "" {
		env.Region = "us-east-1"
	}
	api := env.Client()
	if _, err := api.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &env.Bucket}); err != nil {
		t.Fatalf("make a bucket on %s: %v", env.Endpoint, err)
	}
	t.Cleanup(func() {
		var err error
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			if err = removeBucket(api, env.Bucket); err == nil {
				return
			}
			// What came of an upload that broke off may be stored later.
		}
		t.Errorf("remove bucket %s: %v", env.Bucket, err)
	})
	return env
}

func removeBucket(api *s3.Client, bucket string) error {
	ctx := context.Background()
	for pages := s3.NewListObjectsV2Paginator(api, &s3.ListObjectsV2Input{Bucket: &bucket}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, o := range page.Contents {
			if _, err := api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: o.Key}); err != nil {
				return err
			}
		}
	}
	uploads, err := api.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: &bucket})
	if err != nil {
		return err
	}
	for _, u := range uploads.Uploads {
		if _, err := api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &bucket, Key: u.Key, UploadId: u.UploadId}); err != nil {
			return err
		}
	}
	_, err = api.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket})
	return err
}
