package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/dirstore"
	"github.com/fencegate/fencegate/stores/s3store"
)

// checkBucket stores a blob of its own in a protected bucket, reads it and deletes it, and tells whether it could.
func checkBucket(ctx context.Context, r *report, s3 s3Flags, dir, bucket string) bool {
	what := "bucket " + bucket
	blobs, where, closeStore, err := openBlobs(s3, dir)
	if err != nil {
		r.fail(what, "%v", err)
		return false
	}
	defer closeStore()
	if err := tryBlob(ctx, blobs, bucket); err != nil {
		r.fail(what, "%s: %v", where, err)
		return false
	}
	r.ok(what, "%s: a blob can be stored, read and deleted", where)
	return true
}

func openBlobs(s3 s3Flags, dir string) (b stores.Blobs, where string, closeStore func() error, err error) {
	if dir != "" {
		d, err := dirstore.New(dir)
		if err != nil {
			return nil, "", nil, err
		}
		return d, dir, d.Close, nil
	}
	s, err := s3store.New(s3.store())
	if err != nil {
		return nil, "", nil, err
	}
	return s, s3.s3Place(), s.Close, nil
}

func tryBlob(ctx context.Context, blobs stores.Blobs, bucket string) error {
	id := "doctor-" + strings.ToLower(rand.Text())
	body := []byte(rand.Text())
	if err := blobs.Put(ctx, bucket, id, bytes.NewReader(body), int64(len(body))); err != nil {
		return fmt.Errorf("store a blob: %w", err)
	}
	back, readErr := readBlob(ctx, blobs, bucket, id, int64(len(body)))
	if err := blobs.Delete(ctx, bucket, id); err != nil {
		return errors.Join(readErr, fmt.Errorf("delete the blob %s: %w", id, err))
	}
	if readErr != nil {
		return fmt.Errorf("read the blob: %w", readErr)
	}
	if !bytes.Equal(back, body) {
		return errors.New("the blob that was read is not the one that was stored")
	}
	return nil
}

func readBlob(ctx context.Context, blobs stores.Blobs, bucket, id string, length int64) ([]byte, error) {
	body, err := blobs.Open(ctx, bucket, id, 0, length)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, length+1))
}
