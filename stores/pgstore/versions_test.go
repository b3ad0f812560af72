package pgstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/fence"
)

func (w *world) keep(how string) {
	w.t.Helper()
	w.exec(`SELECT fence.set_options('reports', '', '{"keep":"` + how + `"}')`)
}

// put publishes a body.
func (w *world) put(key string, token fence.Token, body string) fence.Blob {
	w.t.Helper()
	blob := w.blob(body)
	write := objectWrite(fence.OpPut, token)
	write.Object.Key = key
	if _, err := w.PutObject(w.t.Context(), write, blob); err != nil {
		w.t.Fatal(err)
	}
	return blob
}

func (w *world) history(key string) string {
	w.t.Helper()
	list, err := w.History(w.t.Context(), fence.ObjectName{Bucket: "reports", Key: key}, 0, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for _, v := range list {
		fmt.Fprintf(&b, "%d:%d", v.Version%1000, v.Size)
		if v.Deleted {
			b.WriteString(" deleted")
		}
		if v.KeepUntil.IsZero() {
			b.WriteString(" now")
		}
		b.WriteString("; ")
	}
	return b.String()
}

func TestVersions(t *testing.T) {
	w, g := objectWorld(t)
	w.keep("1h")
	ctx, name, first := t.Context(), fence.ObjectName{Bucket: "reports", Key: "a"}, g.First()
	one := w.put("a", first, "1")
	w.put("a", first+1, "22")
	if _, err := w.DeleteObject(ctx, objectWrite(fence.OpDelete, first+2)); err != nil {
		t.Fatal(err)
	}
	w.put("a", first+3, "4444")
	if got := w.history("a"); got != "3:4 now; 2:0 deleted; 1:2; 0:1; " {
		t.Errorf("the history is %s", got)
	}
	o, err := w.Version(ctx, name, fence.Access{}, first)
	if err != nil || o.Blob != one.ID || o.Size != 1 || o.Mark != first+3 || o.Header.ContentType != "text/plain" || o.BlobBucket != "reports" {
		t.Errorf("%+v, %v", o, err)
	}
	for _, version := range []fence.Token{first + 2, first + 4, 1} {
		_, err = w.Version(ctx, name, fence.Access{}, version)
		wantCode(t, err, fence.CodeNotFound)
	}
	if w.blobState(one.ID) != "committed0" {
		t.Error("the blob of a version that is kept is garbage")
	}

	// A restore is a fenced write of the former body, which both refer to then.
	restore := objectWrite(fence.OpCopy, first+4)
	restore.From, restore.KeepHeader = fence.ObjectSource{Object: name, Version: first}, true
	for i := range 2 {
		if o, err = w.CopyObject(ctx, restore); err != nil || o.Blob != one.ID || o.Created || o.Version != first+4 || o.Replayed != (i == 1) {
			t.Errorf("%+v, %v", o, err)
		}
	}
	restore.Token = first + 1
	_, err = w.CopyObject(ctx, restore)
	wantCode(t, err, fence.CodeStaleToken)
	restore.Token, restore.From.Version = first+5, first+2
	_, err = w.CopyObject(ctx, restore)
	if e := wantCode(t, err, fence.CodeNotFound); e.Field != "from" || w.mark("objects/reports/a") != (first+4).String() {
		t.Errorf("%+v", e)
	}

	// What is kept no longer is garbage, unless something else refers to it.
	w.exec("UPDATE fence.versions SET keep_until = now() - interval '1s'")
	two := w.text("SELECT blob::text FROM fence.versions WHERE token = $1", int64(first+1))
	if n, err := w.ExpireVersions(ctx, 100); err != nil || n != 4 {
		t.Errorf("%d expired, %v", n, err)
	}
	if got := w.blobState(one.ID) + w.blobState(two); got != "committed0garbage0" || w.history("a") != "4:1 now; " {
		t.Errorf("%s, %s", got, w.history("a"))
	}
	w.keep("0s")
	w.put("a", first+6, "x")
	if w.blobState(one.ID) != "garbage0" || w.history("a") != "6:1 now; " {
		t.Errorf("%s, %s", w.blobState(one.ID), w.history("a"))
	}
}

// A copy shares its source's blob, which is garbage when neither refers to it any more; it is fenced at its destination only.
func TestCopySharesABlob(t *testing.T) {
	w, g := objectWorld(t)
	ctx := t.Context()
	w.exec("SELECT fence.protect_bucket('archive', '', 'archive')")
	blob := w.put("a", g.First(), "body")
	other := w.grant("archive", "p", "1").First()
	cp := fence.ObjectWrite{Op: fence.OpCopy, Object: fence.ObjectName{Bucket: "archive", Key: "b"}, Access: fence.Access{Principal: "p", Token: other},
		From: fence.ObjectSource{Object: fence.ObjectName{Bucket: "reports", Key: "a"}}, Header: fence.ObjectHeader{ContentType: "text/css"}}
	o, err := w.CopyObject(ctx, cp)
	if err != nil || !o.Created || o.Blob != blob.ID || o.BlobBucket != "reports" || o.Size != 4 || o.Header.ContentType != "text/css" || o.Header.Meta != nil {
		t.Fatalf("%+v, %v", o, err)
	}
	cp.Token = g.First() + 1 // of the source's lease
	_, err = w.CopyObject(ctx, cp)
	wantCode(t, err, fence.CodeStaleToken)
	if _, err := w.DeleteObject(ctx, objectWrite(fence.OpDelete, g.First()+1)); err != nil || w.blobState(blob.ID) != "committed0" {
		t.Errorf("%v, %s", err, w.blobState(blob.ID))
	}
	cp.Token = other + 1
	_, err = w.CopyObject(ctx, cp)
	wantCode(t, err, fence.CodeNotFound)
	cp.Op = fence.OpDelete
	if _, err := w.DeleteObject(ctx, cp); err != nil || w.blobState(blob.ID) != "garbage0" {
		t.Errorf("%v, %s", err, w.blobState(blob.ID))
	}
}

// Copies that race deletes of their source and of each other leave no reference to garbage, and no blob that nothing refers to.
func TestCopiesRaceDeletes(t *testing.T) {
	w, _ := objectWorld(t)
	w.exec("SELECT fence.protect_bucket('race', '', '{key:1}')")
	keys := []string{"a", "b", "c"}
	tokens := map[string]fence.Token{}
	for _, k := range keys {
		tokens[k] = w.grant(k, "p", "1").First()
	}
	var all errgroup.Group
	for i, k := range keys {
		all.Go(func() error {
			for n := range 60 {
				write := fence.ObjectWrite{Object: fence.ObjectName{Bucket: "race", Key: k}, Access: fence.Access{Principal: "p", Token: tokens[k] + fence.Token(n)}, KeepHeader: true}
				var err error
				switch (n + i) % 3 {
				case 0:
					var id string
					if id, err = w.BeginBlob(t.Context(), "race", "p"); err == nil {
						_, err = w.PutObject(t.Context(), write, fence.Blob{ID: id, Size: 1})
					}
				case 1:
					write.From.Object = fence.ObjectName{Bucket: "race", Key: keys[(i+1+n%2)%3]}
					_, err = w.CopyObject(t.Context(), write)
				default:
					_, err = w.DeleteObject(t.Context(), write)
				}
				if err != nil && fence.CodeOf(err) != fence.CodeNotFound {
					return fmt.Errorf("%s, %d: %w", k, n, err)
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := w.text(`SELECT count(*) FILTER (WHERE (b.state = 'committed') <> EXISTS (SELECT FROM fence.objects o WHERE o.blob = b.id)) || ' of ' || (count(*) > 30) FROM fence.blobs b WHERE b.bucket = 'race'`); got != "0 of true" {
		t.Errorf("wrong blobs: %s", got)
	}
}

func TestImportObject(t *testing.T) {
	w, g := objectWorld(t)
	ctx, at := t.Context(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	name := fence.ObjectName{Bucket: "reports", Key: "a"}
	blob := w.blob("old")
	blob.SHA256, blob.ETag = [32]byte{}, "abc-2"
	done, err := w.ImportObject(ctx, name, blob, fence.ObjectHeader{ContentType: "text/csv"}, at)
	if err != nil || !done {
		t.Fatal(done, err)
	}
	o, err := w.Object(ctx, name, fence.Access{})
	if err != nil || o.Mark != 0 || o.Version != 0 || o.SHA256 != "" || o.ETag != "abc-2" || !o.ModifiedAt.Equal(at) || o.Header.ContentType != "text/csv" || !o.Written {
		t.Errorf("%+v, %v", o, err)
	}
	again := w.blob("again")
	if done, err = w.ImportObject(ctx, name, again, fence.ObjectHeader{}, at); err != nil || done || w.blobState(again.ID) != "pending0" {
		t.Error(done, err, w.blobState(again.ID))
	}
	if _, err := w.DeleteObject(ctx, objectWrite(fence.OpDelete, g.First())); err != nil || w.blobState(blob.ID) != "garbage0" {
		t.Error(err, w.blobState(blob.ID))
	}
	if done, err = w.ImportObject(ctx, name, again, fence.ObjectHeader{}, at); err != nil || done {
		t.Error(done, err)
	}
	_, err = w.ImportObject(ctx, fence.ObjectName{Bucket: "elsewhere", Key: "a"}, again, fence.ObjectHeader{}, at)
	wantCode(t, err, fence.CodeNotFound)
}

// An object that lies in the bucket under its own key counts until the key is written, also for conditions and deletes.
func TestNaturalObjectsCount(t *testing.T) {
	w, g := objectWorld(t)
	ctx, token := t.Context(), g.First()
	if o, err := w.Object(ctx, fence.ObjectName{Bucket: "reports", Key: "a"}, fence.Access{}); fence.CodeOf(err) != fence.CodeNotFound || o.Written || !o.Options.Existing || o.Lease != "report:a" {
		t.Errorf("%+v, %v", o, err)
	}
	write := objectWrite(fence.OpPut, token)
	write.Natural, write.If.Absent = true, true
	_, err := w.PutObject(ctx, write, w.blob("x"))
	wantCode(t, err, fence.CodePreconditionFailed)
	del := objectWrite(fence.OpDelete, token)
	_, err = w.DeleteObject(ctx, del)
	wantCode(t, err, fence.CodeNotFound)
	del.Natural = true
	if _, err := w.DeleteObject(ctx, del); err != nil {
		t.Fatal(err)
	}
	if o, err := w.Object(ctx, fence.ObjectName{Bucket: "reports", Key: "a"}, fence.Access{}); fence.CodeOf(err) != fence.CodeNotFound || !o.Written {
		t.Errorf("%+v, %v", o, err)
	}
	write.Token = token + 1 // natural still, and hidden
	if o, err := w.PutObject(ctx, write, w.blob("x")); err != nil || !o.Created {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestBucketOptions(t *testing.T) {
	w, _ := objectWorld(t)
	w.exec(`SELECT fence.protect_bucket('reports', 'raw/', 'raw'); SELECT fence.set_options('reports', 'raw/', '{"keep":"30 days","redirect":true,"existing":false,"deletes":"lease"}')`)
	o, _ := w.Object(t.Context(), fence.ObjectName{Bucket: "reports", Key: "raw/x"}, fence.Access{})
	if want := (fence.BucketOptions{Keep: 720 * time.Hour, Redirect: true, TakeLease: true}); o.Options != want {
		t.Errorf("%+v", o.Options)
	}
	w.exec(`SELECT fence.set_options('reports', 'raw/', '{"keep":null,"existing":null,"redirect":null,"deletes":null}')`)
	bindings, err := w.Bindings(t.Context(), "reports")
	if err != nil || len(bindings) != 2 || bindings[0].Options != bindings[1].Options || bindings[1] != (fence.BucketBinding{Prefix: "raw/", Options: fence.BucketOptions{Existing: true}}) {
		t.Errorf("%+v, %v", bindings, err)
	}
	for _, bad := range []string{`{"keep":"soon"}`, `{"keep":"-1h"}`, `{"keep":"11 years"}`, `{"redirect":"yes"}`, `{"deletes":"allow"}`, `{"other":1}`, `{"keep":{}}`} {
		if _, err := w.db.Exec(t.Context(), "SELECT fence.set_options('reports', '', $1::text::jsonb)", bad); err == nil || !strings.Contains(err.Error(), "FG008") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	_, err = w.Bindings(t.Context(), "none")
	wantCode(t, err, fence.CodeNotFound)
}
