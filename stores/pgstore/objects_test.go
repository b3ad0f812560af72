package pgstore_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// objectWorld has a protected bucket and a grant for the object a.
func objectWorld(t *testing.T) (*world, *fence.Grant) {
	w := newWorld(t)
	if err := w.ProtectBucket(t.Context(), "reports", "", "report:{key}"); err != nil {
		t.Fatal(err)
	}
	return w, w.grant("report:a", "p", "1")
}

func objectWrite(op fence.Op, token fence.Token) fence.ObjectWrite {
	return fence.ObjectWrite{Op: op, Object: fence.ObjectName{Bucket: "reports", Key: "a"}, Access: fence.Access{Principal: "p", Token: token},
		Header: fence.ObjectHeader{ContentType: "text/plain", Meta: map[string]string{"by": "p"}}}
}

// blob records an intent for a body.
func (w *world) blob(body string) fence.Blob {
	w.t.Helper()
	id, err := w.BeginBlob(context.Background(), "reports", "p")
	if err != nil {
		w.t.Fatal(err)
	}
	return fence.Blob{ID: id, Size: int64(len(body)), SHA256: sha256.Sum256([]byte(body))}
}

func (w *world) blobState(id string) string {
	return w.text("SELECT coalesce((SELECT state || deletions FROM fence.blobs WHERE id = $1), 'forgotten')", id)
}

func TestObjects(t *testing.T) {
	w, g := objectWorld(t)
	ctx := t.Context()
	first := w.blob("one")
	o, err := w.PutObject(ctx, objectWrite(fence.OpPut, g.First()), first)
	wantCode(t, err, fence.CodeAccepted)
	if !o.Created || o.Blob != first.ID || o.Size != 3 || o.Mark != g.First() || o.Header.Meta["by"] != "p" || o.Resource != "objects/reports/a" {
		t.Errorf("%+v", o)
	}
	t.Run("ReplayedLeavesTheNewBlobPending", func(t *testing.T) {
		again := w.blob("one")
		o, err := w.PutObject(ctx, objectWrite(fence.OpPut, g.First()), again)
		if err != nil || !o.Replayed || !o.Created || o.Blob != first.ID || w.blobState(again.ID) != "pending0" {
			t.Errorf("%+v %v %s", o, err, w.blobState(again.ID))
		}
	})
	t.Run("SpentToken", func(t *testing.T) {
		_, err := w.PutObject(ctx, objectWrite(fence.OpPut, g.First()), w.blob("two"))
		wantCode(t, err, fence.CodeSpentToken)
	})
	t.Run("ReplacedMakesGarbage", func(t *testing.T) {
		second := w.blob("two")
		o, err := w.PutObject(ctx, objectWrite(fence.OpPut, g.First()+1), second)
		if err != nil || o.Created || w.blobState(first.ID) != "garbage0" || w.blobState(second.ID) != "committed0" {
			t.Errorf("%+v %v", o, err)
		}
	})
	t.Run("UploadExpired", func(t *testing.T) {
		late := w.blob("late")
		if err := w.AbortBlob(ctx, late.ID); err != nil {
			t.Fatal(err)
		}
		_, err := w.PutObject(ctx, objectWrite(fence.OpPut, g.First()+2), late)
		if e := wantCode(t, err, fence.CodeUploadExpired); e.State.Mark != g.First()+1 {
			t.Errorf("mark %d", e.State.Mark)
		}
	})
	t.Run("PreconditionFailed", func(t *testing.T) {
		x := objectWrite(fence.OpPut, g.First()+3)
		x.If.Absent = true
		_, err := w.PutObject(ctx, x, w.blob("x"))
		wantCode(t, err, fence.CodePreconditionFailed)
		_, err = w.CheckWrite(ctx, x)
		wantCode(t, err, fence.CodePreconditionFailed)
	})
	t.Run("DeleteAndRecreate", func(t *testing.T) {
		o, err := w.DeleteObject(ctx, objectWrite(fence.OpDelete, g.First()+4))
		if err != nil || o.Blob != "" || o.Mark != g.First()+4 {
			t.Errorf("%+v %v", o, err)
		}
		_, err = w.DeleteObject(ctx, objectWrite(fence.OpDelete, g.First()+5))
		if e := wantCode(t, err, fence.CodeNotFound); e.State.Mark != g.First()+4 {
			t.Errorf("mark %d", e.State.Mark)
		}
		_, err = w.PutObject(ctx, objectWrite(fence.OpPut, g.First()+3), w.blob("stale"))
		wantCode(t, err, fence.CodeStaleToken)
		x := objectWrite(fence.OpPut, g.First()+5)
		x.If.Exists = true
		_, err = w.PutObject(ctx, x, w.blob("x"))
		wantCode(t, err, fence.CodePreconditionFailed)
		o, err = w.PutObject(ctx, objectWrite(fence.OpPut, g.First()+5), w.blob("new"))
		if err != nil || !o.Created {
			t.Errorf("%+v %v", o, err)
		}
	})
	t.Run("CheckWrite", func(t *testing.T) {
		for token, want := range map[fence.Token]fence.Code{
			1: fence.CodeStaleToken, g.First() + 4: fence.CodeStaleToken, g.First() + 5: fence.CodeAccepted, g.First() + 6: fence.CodeAccepted,
			g.Last() + 1: fence.CodeUnissuedToken,
		} {
			_, err := w.CheckWrite(ctx, objectWrite(fence.OpPut, token))
			wantCode(t, err, want)
		}
	})
}

func TestFlipsRace(t *testing.T) {
	w, g := objectWorld(t)
	var wg sync.WaitGroup
	for i := range 40 {
		b := w.blob(fmt.Sprint(i))
		wg.Go(func() {
			_, err := w.PutObject(context.Background(), objectWrite(fence.OpPut, g.First()+fence.Token(i)), b)
			if code := fence.CodeOf(err); code != fence.CodeAccepted && code != fence.CodeStaleToken {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	o, err := w.Object(context.Background(), fence.ObjectName{Bucket: "reports", Key: "a"}, fence.Access{})
	want := sha256.Sum256([]byte("39"))
	if err != nil || o.Mark != g.First()+39 || o.SHA256 != fmt.Sprintf("%x", want) {
		t.Errorf("%+v %v", o, err)
	}
	if n := w.text("SELECT count(*)::text FROM fence.blobs WHERE state = 'committed'"); n != "1" {
		t.Errorf("%s committed blobs", n)
	}
}

func TestCollection(t *testing.T) {
	w, g := objectWorld(t)
	ctx := t.Context()
	live, old, orphan := w.blob("live"), w.blob("old"), w.blob("orphan")
	for i, b := range []fence.Blob{old, live} {
		if _, err := w.PutObject(ctx, objectWrite(fence.OpPut, g.First()+fence.Token(i)), b); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := w.AbortStale(ctx, time.Hour, 10); n != 0 || err != nil {
		t.Errorf("%d %v: a young intent was given up", n, err)
	}
	if n, err := w.AbortStale(ctx, 0, 10); n != 1 || err != nil || w.blobState(orphan.ID) != "aborted0" {
		t.Errorf("%d %v %s", n, err, w.blobState(orphan.ID))
	}
	if list, err := w.Collectable(ctx, time.Hour, 10); len(list) != 0 || err != nil {
		t.Errorf("%v %v: collectable within the grace period", list, err)
	}
	for pass := range 2 {
		list, err := w.Collectable(ctx, 0, 10)
		if err != nil || len(list) != 2 {
			t.Fatalf("pass %d: %v %v", pass, list, err)
		}
		for _, garbage := range list {
			// Two collectors that found the same blob record its deletion once.
			for range 2 {
				if err := w.Collected(ctx, garbage); err != nil {
					t.Fatal(err)
				}
			}
		}
		if pass == 0 && w.blobState(old.ID) != "garbage1" {
			t.Errorf("after the first pass: %s", w.blobState(old.ID))
		}
	}
	if w.blobState(old.ID) != "forgotten" || w.blobState(orphan.ID) != "forgotten" || w.blobState(live.ID) != "committed0" {
		t.Errorf("%s %s %s", w.blobState(old.ID), w.blobState(orphan.ID), w.blobState(live.ID))
	}
}
