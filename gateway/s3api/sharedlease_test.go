package s3api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/s3api"
	"github.com/fencegate/fencegate/lease"
)

// counted are leases of which it is known how many were taken.
type counted struct {
	s3api.Leases
	taken *atomic.Int64
}

func (c counted) Acquire(ctx context.Context, r lease.Request) (*lease.Held, error) {
	held, err := c.Leases.Acquire(ctx, r)
	if err == nil {
		c.taken.Add(1)
	}
	return held, err
}

// shared is a world whose deletes take the lease, which in scratch is one for all keys.
func shared(t *testing.T, tune ...func(*s3api.Config)) *world {
	w := newWorldOn(t, nil, tune...)
	for _, bucket := range []string{"reports", "scratch"} {
		if err := w.store.SetOptions(t.Context(), bucket, "", map[string]any{"deletes": "lease"}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// fill puts objects of scratch under the tokens of a grant that is over then.
func (w *world) fill(t *testing.T, n int) (keys []string) {
	t.Helper()
	g := w.grant("scratch")
	for i := range n {
		keys = append(keys, fmt.Sprintf("k%02d", i))
		if _, err := w.client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("scratch"), Key: &keys[i], Metadata: token(g.First() + tokenOf(i))}); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

func (w *world) deleteAll(t *testing.T, bucket string, keys ...string) (deleted []string, refused map[string]string) {
	t.Helper()
	in := &types.Delete{}
	for _, k := range keys {
		in.Objects = append(in.Objects, types.ObjectIdentifier{Key: aws.String(k)})
	}
	out, err := w.client().DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: &bucket, Delete: in})
	if err != nil {
		t.Fatal(err)
	}
	refused = map[string]string{}
	for _, d := range out.Deleted {
		deleted = append(deleted, *d.Key)
	}
	for _, e := range out.Errors {
		refused[*e.Key] = *e.Code
	}
	return deleted, refused
}

// Keys that share a lease are deleted under one grant of it, of one request, and one after the other, of several.
func TestDeletesUnderASharedLease(t *testing.T) {
	var taken atomic.Int64
	w := shared(t, func(c *s3api.Config) {
		c.Leases, c.WriteTimeout, c.DeleteWait = counted{c.Leases, &taken}, time.Minute, time.Minute
	})
	empty := func(t *testing.T) {
		t.Helper()
		list, err := w.client().ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("scratch")})
		if err != nil || len(list.Contents) > 0 {
			t.Errorf("%d are left, %v", len(list.Contents), err)
		}
	}
	t.Run("OneRequest", func(t *testing.T) {
		keys := append(w.fill(t, 20), "never", "k00")
		if deleted, refused := w.deleteAll(t, "scratch", keys...); !slices.Equal(deleted, keys) || taken.Load() != 1 {
			t.Errorf("deleted %q under %d grants, refused %v", deleted, taken.Load(), refused)
		}
		empty(t)
		if v, err := w.manager.Inspect(t.Context(), "scratch"); err == nil {
			t.Errorf("the lease is held still: %+v", v)
		}
	})
	t.Run("OwnLeases", func(t *testing.T) {
		taken.Store(0)
		keys := []string{"a", "b", "c"}
		for _, k := range keys {
			w.mustPut(k, "one", w.grant("report:"+k).First())
		}
		if deleted, refused := w.deleteAll(t, "reports", keys...); !slices.Equal(deleted, keys) || taken.Load() != 3 {
			t.Errorf("deleted %q under %d grants, refused %v", deleted, taken.Load(), refused)
		}
	})
	t.Run("Requests", func(t *testing.T) {
		var all sync.WaitGroup
		for _, key := range w.fill(t, 20) {
			all.Go(func() {
				if _, err := w.client().DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String("scratch"), Key: &key}); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			})
		}
		all.Wait()
		empty(t)
	})
	t.Run("WaitsForAHolder", func(t *testing.T) {
		keys := w.fill(t, 2)
		held, err := w.manager.Acquire(t.Context(), lease.Request{Name: "scratch", Principal: "q"})
		if err != nil {
			t.Fatal(err)
		}
		released := make(chan error, 1)
		go func() {
			for w.manager.Stats().Waiting == 0 && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			released <- w.manager.Release(t.Context(), lease.Ref{Name: "scratch", Principal: "q", ID: held.ID})
		}()
		if deleted, refused := w.deleteAll(t, "scratch", keys...); !slices.Equal(deleted, keys) {
			t.Fatalf("deleted %q, refused %v", deleted, refused)
		}
		if err := <-released; err != nil {
			t.Error(err)
		}
	})
}

// What becomes of each key is told by itself: a lease that somebody holds, a key without a policy, one that may not be.
func TestDeletesRefusedEachByItself(t *testing.T) {
	w := shared(t, func(c *s3api.Config) { c.DeleteWait = 100 * time.Millisecond })
	keys := []string{"free", "held"}
	for _, k := range keys {
		w.mustPut(k, "one", w.grant("report:"+k).First())
	}
	if _, err := w.manager.Acquire(t.Context(), lease.Request{Name: "report:held", Principal: "q"}); err != nil {
		t.Fatal(err)
	}
	deleted, refused := w.deleteAll(t, "reports", "held", "free", strings.Repeat("k", 1025))
	if !slices.Equal(deleted, []string{"free"}) || refused["held"] != "LeaseHeld" || refused[strings.Repeat("k", 1025)] != "InvalidRequest" {
		t.Errorf("deleted %q, refused %v", deleted, refused)
	}
}

// broken are objects with a key of which a delete panics, and another of which the look at it does.
type broken struct{ s3api.Objects }

func (b broken) WriteObject(ctx context.Context, w fence.ObjectWrite) (fence.Object, error) {
	if w.Op == fence.OpDelete && w.Object.Key == "k01" {
		panic("a write")
	}
	return b.Objects.WriteObject(ctx, w)
}

func (b broken) Object(ctx context.Context, name fence.ObjectName, by fence.Access) (fence.Object, error) {
	if name.Key == "look" {
		panic("a look")
	}
	return b.Objects.Object(ctx, name, by)
}

// brokenLeases panic when one of a name is taken.
type brokenLeases struct{ s3api.Leases }

func (b brokenLeases) Acquire(ctx context.Context, r lease.Request) (*lease.Held, error) {
	if r.Name == "report:grant" {
		panic("a grant")
	}
	return b.Leases.Acquire(ctx, r)
}

// A panic of one of the deletes ends neither the others nor the gateway, and nobody is told that the key is there still (I7).
func TestDeletePanics(t *testing.T) {
	w := shared(t, func(c *s3api.Config) { c.Objects, c.Leases = broken{c.Objects}, brokenLeases{c.Leases} })
	deleted, refused := w.deleteAll(t, "scratch", append(w.fill(t, 3), "look")...)
	if !slices.Equal(deleted, []string{"k00", "k02"}) || refused["look"] != "ServiceUnavailable" || refused["k01"] != "ServiceUnavailable" {
		t.Errorf("deleted %q, refused %v", deleted, refused)
	}
	w.mustPut("grant", "one", w.grant("report:grant").First())
	w.mustPut("other", "one", w.grant("report:other").First())
	deleted, refused = w.deleteAll(t, "reports", "grant", "other")
	if !slices.Equal(deleted, []string{"other"}) || refused["grant"] != "ServiceUnavailable" {
		t.Errorf("deleted %q, refused %v", deleted, refused)
	}
}
