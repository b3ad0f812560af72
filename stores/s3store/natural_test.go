package s3store_test

import (
	"bytes"
	"context"
	"mime"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/storetest"
)

func TestNaturals(t *testing.T) {
	storetest.RunNaturals(t, func(t *testing.T) storetest.NaturalStore {
		env := testenv.Bucket(t)
		cfg := configOf(env)
		cfg.Prefix = "some/where/"
		s := open(t, cfg)
		s.CopyInPartsFrom(5 << 20)
		return storetest.NaturalStore{Naturals: s, Blobs: s, Bucket: env.Bucket, Reserved: cfg.Prefix, Large: 11 << 20, PutObject: putsInto(env)}
	})
}

// With a bucket of their own, blobs of all buckets lie there, and nothing of them in the objects' buckets.
func TestBlobsLieInABucketOfTheirOwn(t *testing.T) {
	env := testenv.Bucket(t)
	cfg := configOf(env)
	cfg.BlobBucket = testenv.Bucket(t).Bucket
	s := open(t, cfg)
	if err := s.Put(t.Context(), env.Bucket, id, strings.NewReader("body"), 4); err != nil {
		t.Fatal(err)
	}
	n, err := s.Give(t.Context(), env.Bucket, fence.Blob{ID: id, Size: 4}, "given", fence.ObjectHeader{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Take(t.Context(), env.Bucket, n, id+"2"); err != nil {
		t.Fatal(err)
	}
	upload, err := s.BeginParts(t.Context(), env.Bucket, id+"3")
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.PutPart(t.Context(), env.Bucket, id+"3", upload, 1, strings.NewReader("part"), 4)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.JoinParts(t.Context(), env.Bucket, id+"3", upload, []stores.Part{p}); err != nil {
		t.Fatal(err)
	}
	const blob = ".fencegate/blobs/" + id
	if got := keysOf(t, env, cfg.BlobBucket); got != blob+" "+blob+"2 "+blob+"3" {
		t.Errorf("blobs: %s", got)
	}
	if got := keysOf(t, env, env.Bucket); got != "given" {
		t.Errorf("objects: %s", got)
	}
	for _, blob := range []string{id, id + "2", id + "3"} {
		r, err := s.Open(t.Context(), env.Bucket, blob, 0, 4)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		if err := s.Delete(t.Context(), env.Bucket, blob); err != nil {
			t.Error(err)
		}
	}
	if got := keysOf(t, env, cfg.BlobBucket); got != "" {
		t.Errorf("blobs after the deletes: %s", got)
	}
}

func putsInto(env testenv.S3) func(context.Context, string, []byte, fence.ObjectHeader) error {
	api := env.Client()
	return func(ctx context.Context, key string, body []byte, h fence.ObjectHeader) error {
		in := &s3.PutObjectInput{Bucket: &env.Bucket, Key: &key, Body: bytes.NewReader(body), Metadata: map[string]string{}}
		for header, value := range map[**string]string{
			&in.ContentType: h.ContentType, &in.ContentEncoding: h.ContentEncoding,
			&in.ContentDisposition: h.ContentDisposition, &in.CacheControl: h.CacheControl,
		} {
			if value != "" {
				*header = &value
			}
		}
		for name, value := range h.Meta {
			in.Metadata[name] = mime.BEncoding.Encode("utf-8", value)
		}
		_, err := api.PutObject(ctx, in)
		return err
	}
}
