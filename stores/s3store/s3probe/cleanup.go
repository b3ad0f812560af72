package s3probe

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const (
	cleanUp = "clean up"
	// deletesAtOnce is how many deletes are under way.
	deletesAtOnce = 8
	// settle is how long a request that was given up is waited for.
	settle = 500 * time.Millisecond
)

// cleanUp removes what the session made, and tells whether something is left. It works after the context ended, too.
// What was made is known, and then looked for, since an upload may become an object after it was given up.
func (s *session) cleanUp(ctx context.Context) Finding {
	cut := s.cut.Load() || ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.CleanupTimeout)
	defer cancel()
	s.mu.Lock()
	keys, uploads := slices.Clone(s.keys), slices.Clone(s.uploads)
	s.mu.Unlock()
	for _, up := range uploads {
		// Most are over; the list below shows those that are not.
		_ = s.abort(ctx, up)
	}
	each(keys, func(key string) { _ = s.delete(ctx, key) })

	if cut {
		select {
		case <-ctx.Done():
		case <-time.After(settle):
		}
	}
	open, err := s.openUploads(ctx, s.root)
	for _, up := range open {
		_ = s.abort(ctx, up)
	}
	left, found := s.remaining(ctx)
	if len(left) > 0 {
		each(left, func(o types.ObjectIdentifier) {
			_, _ = s.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.cfg.Bucket, Key: o.Key, VersionId: o.VersionId})
		})
		left, found = s.remaining(ctx)
	}
	if err == nil && len(open) > 0 {
		open, err = s.openUploads(ctx, s.root)
	}
	f := Finding{Name: cleanUp, Outcome: Honours}
	switch {
	case len(left)+len(open) > 0:
		f.Outcome, f.Attend = Wrong, true
		f.Note = fmt.Sprintf("%d objects and %d uploads are left below %s: delete them", len(left), len(open), s.root)
	case found != nil || err != nil && !unknownToIt(err):
		f.Outcome, f.Attend = NotMeasured, true
		f.Note = fmt.Sprintf("see that nothing is left below %s: it cannot be listed", s.root)
	}
	return f
}

// remaining are the session's objects that a list still has, with their versions when there are any.
func (s *session) remaining(ctx context.Context) (left []types.ObjectIdentifier, err error) {
	add := func(key, version *string) {
		if s.ours(aws.ToString(key)) {
			left = append(left, types.ObjectIdentifier{Key: key, VersionId: version})
		}
	}
	versions, err := s.api.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: &s.cfg.Bucket, Prefix: &s.root})
	if err == nil {
		for _, v := range versions.Versions {
			add(v.Key, v.VersionId)
		}
		for _, m := range versions.DeleteMarkers {
			add(m.Key, m.VersionId)
		}
		return left, nil
	}
	if s.marked.Load() {
		return nil, err
	}
	objects, err := s.api.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &s.cfg.Bucket, Prefix: &s.root})
	if err != nil {
		return nil, err
	}
	for _, o := range objects.Contents {
		add(o.Key, nil)
	}
	return left, nil
}

// each calls do for every item, a few at a time, and returns when all are done.
func each[T any](items []T, do func(T)) {
	slots := make(chan struct{}, deletesAtOnce)
	var wg sync.WaitGroup
	for _, item := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(item)
		})
	}
	wg.Wait()
}
