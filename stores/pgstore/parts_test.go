package pgstore_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// An upload in parts is good for its principal, bucket and key only, as long as it is pending or published.
func TestPartUploads(t *testing.T) {
	w, g := objectWorld(t)
	ctx := t.Context()
	begin := func(key string) fence.PartUpload {
		t.Helper()
		id, err := w.BeginBlob(ctx, "reports", "p")
		if err != nil {
			t.Fatal(err)
		}
		u := fence.PartUpload{ID: id, Object: fence.ObjectName{Bucket: "reports", Key: key}, Principal: "p", Token: g.First(), Header: fence.ObjectHeader{ContentType: "text/css"}, Upload: "s3-" + id}
		if err := w.KeepParts(ctx, u); err != nil {
			t.Fatal(err)
		}
		return u
	}
	u := begin("a")
	used, err := w.UseParts(ctx, u.ID, "p", u.Object)
	if err != nil || used.Upload != u.Upload || used.Token != u.Token || used.Header.ContentType != "text/css" || used.Published || used.BegunAt.IsZero() {
		t.Fatalf("%+v, %v", used, err)
	}
	for _, c := range []struct {
		id, principal, bucket, key string
	}{
		{u.ID, "q", "reports", "a"}, {u.ID, "p", "reports", "b"}, {u.ID, "p", "other", "a"}, {"", "p", "reports", "a"}, {"x", "p", "reports", "a"}, {w.blob("x").ID, "p", "reports", "a"},
		{strings.ToUpper(u.ID), "p", "reports", "a"},
	} {
		_, err := w.UseParts(ctx, c.id, c.principal, fence.ObjectName{Bucket: c.bucket, Key: c.key})
		wantCode(t, err, fence.CodeUploadExpired)
	}
	all := []fence.PartUpload{u, begin("b/1"), begin("b/2"), begin("c")}
	var got []string
	for after := (fence.PartUpload{}); ; {
		page, err := w.ListParts(ctx, "p", "reports", "", after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		got, after = append(got, page[0].Object.Key), page[0]
	}
	if fmt.Sprint(got) != "[a b/1 b/2 c]" {
		t.Errorf("listed %v", got)
	}
	for _, c := range []struct {
		principal, prefix string
		want              int
	}{{"p", "b/", 2}, {"q", "", 0}, {"p", "x", 0}} {
		if page, err := w.ListParts(ctx, c.principal, "reports", c.prefix, fence.PartUpload{}, 10); err != nil || len(page) != c.want {
			t.Errorf("%+v: %d, %v", c, len(page), err)
		}
	}
	if _, err := w.PutObject(ctx, objectWrite(fence.OpPut, g.First()), fence.Blob{ID: u.ID, Size: 3, ETag: "e-1"}); err != nil {
		t.Fatal(err)
	}
	published := func(state string) {
		t.Helper()
		if used, err := w.UseParts(ctx, u.ID, "p", u.Object); err != nil || !used.Published || !strings.HasPrefix(w.blobState(u.ID), state) {
			t.Errorf("%+v, %v", used, err)
		}
	}
	published("committed")
	w.put("a", g.First()+1, "again")
	published("garbage")
	if err := w.AbortBlob(ctx, all[3].ID); err != nil {
		t.Fatal(err)
	}
	used, err = w.UseParts(ctx, all[3].ID, "p", all[3].Object)
	wantCode(t, err, fence.CodeUploadExpired)
	if used.ID != all[3].ID || used.Token != g.First() {
		t.Errorf("what was given up is known: %+v", used)
	}
	wantCode(t, w.KeepParts(ctx, all[3]), fence.CodeUploadExpired)
	w.exec("UPDATE fence.blobs SET state_at = now() - interval '2 days'")
	garbage, err := w.Collectable(ctx, 0, 10)
	if err != nil || len(garbage) != 2 || garbage[0].Upload != all[3].Upload && garbage[1].Upload != all[3].Upload {
		t.Errorf("%+v, %v", garbage, err)
	}
}

// What lies under a staging key still cannot be published, by nobody's commit.
func TestStagedBlobs(t *testing.T) {
	w, g := objectWorld(t)
	ctx := t.Context()
	id, err := w.BeginBlob(ctx, "reports", "p")
	if err != nil {
		t.Fatal(err)
	}
	blob := fence.Blob{ID: id, Size: 4, SHA256: sha256.Sum256([]byte("body"))}
	if err := w.StageBlob(ctx, blob, fence.ObjectHeader{ContentType: "text/plain"}); err != nil {
		t.Fatal(err)
	}
	commit := func() error {
		_, err := w.Commit(ctx, fence.Commit{Principal: "p", Writes: []fence.CommitWrite{putObject("reports", "a", g.First(), id)}})
		return err
	}
	wantCode(t, commit(), fence.CodeUploadExpired)
	if staged, err := w.StagedBlobs(ctx, "q", []string{id}); err != nil || len(staged) != 0 {
		t.Errorf("%+v, %v", staged, err)
	}
	staged, err := w.StagedBlobs(ctx, "p", []string{"x", id, w.upload("reports", "p")})
	if err != nil || len(staged) != 1 || staged[0].Blob != blob || staged[0].Bucket != "reports" {
		t.Fatalf("%+v, %v", staged, err)
	}
	if err := w.AdoptBlob(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := commit(); err != nil {
		t.Fatal(err)
	}
	if o, err := w.Object(ctx, fence.ObjectName{Bucket: "reports", Key: "a"}, fence.Access{}); err != nil || o.Size != 4 || o.Header.ContentType != "text/plain" {
		t.Errorf("%+v, %v", o, err)
	}
	wantCode(t, w.AdoptBlob(ctx, id), fence.CodeUploadExpired)
}

// A commit copies, renames and deletes natural objects, all or nothing.
func TestCommitCopies(t *testing.T) {
	w, g := objectWorld(t)
	ctx := t.Context()
	blob := w.put("a", g.First(), "one")
	w.exec("SELECT fence.protect_bucket('archive', '', 'archive')")
	other := w.grant("archive", "p", "1").First()
	copyTo := func(key, from string, token fence.Token) fence.CommitWrite {
		return fence.CommitWrite{Object: &fence.ObjectWrite{Op: fence.OpCopy, Object: fence.ObjectName{Bucket: "archive", Key: key}, Access: fence.Access{Token: token},
			From: fence.ObjectSource{Object: fence.ObjectName{Bucket: "reports", Key: from}}, KeepHeader: true}}
	}
	gone := fence.CommitWrite{Object: &fence.ObjectWrite{Op: fence.OpDelete, Object: fence.ObjectName{Bucket: "reports", Key: "a"}, Access: fence.Access{Token: g.First() + 1}}}
	commit := func(writes ...fence.CommitWrite) (fence.Committed, error) {
		return w.Commit(ctx, fence.Commit{Principal: "p", Writes: writes})
	}
	_, err := commit(copyTo("x", "a", other), copyTo("y", "none", other))
	if e := wantCode(t, err, fence.CodeNotFound); e.Write != 2 || e.Field != "from" || w.mark("objects/archive/x") != "0" {
		t.Errorf("%+v", e)
	}
	for i := range 2 {
		done, err := commit(copyTo("x", "a", other), gone)
		if err != nil || done.Replayed != (i == 1) || done.Results[0].Object.Blob != blob.ID || done.Results[1].Object.Blob != "" {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	if w.blobState(blob.ID) != "committed0" {
		t.Error(w.blobState(blob.ID))
	}
	natural := fence.CommitWrite{Object: &fence.ObjectWrite{Op: fence.OpDelete, Object: fence.ObjectName{Bucket: "archive", Key: "n"}, Access: fence.Access{Token: other + 1}, Natural: true}}
	taken := copyTo("m", "n", other+1)
	taken.Taken = w.upload("reports", "p")
	done, err := commit(taken, natural)
	if err != nil || done.Results[0].Object.Blob != taken.Taken || !done.Results[0].Object.Created {
		t.Errorf("%+v, %v", done, err)
	}
}
