package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/client"
)

func TestCopiesAndVersions(t *testing.T) {
	r := serve(t, nil)
	ctx, name, other := t.Context(), object("a//b +%2F"), object("copy of a")
	h, copied := r.acquire("report:"+name.Key), r.acquire("report:"+other.Key)
	put := func(token fence.Token, body string) {
		t.Helper()
		w := fence.ObjectWrite{Op: fence.OpPut, Object: name, Access: fence.Access{Token: token}, Header: fence.ObjectHeader{ContentType: "text/" + body}, Body: strings.NewReader(body)}
		if _, err := r.WriteObject(ctx, w); err != nil {
			t.Fatal(err)
		}
	}
	put(h.First(), "one")
	put(h.First()+1, "three")

	o, err := r.CopyObject(ctx, name, other, copied.First())
	if err != nil || !o.Created || o.Size != 5 || o.Mark != copied.First() || o.ObjectName != other {
		t.Errorf("copied %+v, %v", o, err)
	}
	if o, err = r.CopyObject(ctx, name, other, copied.First()); err != nil || !o.Replayed {
		t.Errorf("copied again %+v, %v", o, err)
	}
	if o, text, err := r.read(client.ObjectRead{Object: other}); err != nil || text != "three" || o.Header.ContentType != "text/three" {
		t.Errorf("the copy is %q, %+v, %v", text, o, err)
	}
	o, err = r.WriteObject(ctx, fence.ObjectWrite{
		Op: fence.OpCopy, Object: other, Access: fence.Access{Token: copied.First() + 1}, From: fence.ObjectSource{Object: name, Version: h.First()},
		Header: fence.ObjectHeader{ContentType: "text/else"}, If: fence.Condition{Match: []fence.Token{copied.First()}},
	})
	if err != nil || o.Size != 3 {
		t.Errorf("copied a version %+v, %v", o, err)
	}
	if o, text, err := r.read(client.ObjectRead{Object: other}); err != nil || text != "one" || o.Header.ContentType != "text/else" {
		t.Errorf("the copy is %q, %+v, %v", text, o, err)
	}
	_, err = r.CopyObject(ctx, object("absent"), other, copied.First()+2)
	if e := wantCode(t, err, fence.CodeNotFound); e.Field != "from" {
		t.Errorf("%+v", e)
	}
	_, err = r.CopyObject(ctx, name, other, copied.First())
	wantCode(t, err, fence.CodeStaleToken)
	_, err = r.CopyObject(ctx, object(""), other, copied.First()+2)
	wantCode(t, err, fence.CodeInvalidRequest)

	versions, more, err := r.ObjectVersions(ctx, name, 0, 1)
	if err != nil || !more || len(versions) != 1 || versions[0].Version != h.First()+1 || versions[0].Size != 5 || versions[0].Header.ContentType != "text/three" {
		t.Errorf("versions %+v, %v, %v", versions, more, err)
	}
	if versions, more, err = r.ObjectVersions(ctx, name, versions[0].Version, 0); err != nil || more || len(versions) != 1 || versions[0].Version != h.First() {
		t.Errorf("older versions %+v, %v, %v", versions, more, err)
	}
	if o, text, err := r.read(client.ObjectRead{Object: name, Version: h.First(), Offset: 1}); err != nil || text != "ne" || o.Header.ContentType != "text/one" {
		t.Errorf("the version is %q, %+v, %v", text, o, err)
	}
	if o, err = r.RestoreObject(ctx, name, h.First(), h.First()+2); err != nil || o.Mark != h.First()+2 || o.Size != 3 {
		t.Errorf("restored %+v, %v", o, err)
	}
	if _, text, err := r.read(client.ObjectRead{Object: name}); err != nil || text != "one" {
		t.Errorf("restored: %q, %v", text, err)
	}
	_, err = r.RestoreObject(ctx, name, 77, h.First()+3)
	wantCode(t, err, fence.CodeNotFound)
	_, err = r.RestoreObject(ctx, name, fence.ImportedVersion, h.First()+3)
	wantCode(t, err, fence.CodeNotFound)
	_, err = r.RestoreObject(ctx, name, 0, h.First()+3)
	wantCode(t, err, fence.CodeInvalidRequest)

	done, err := r.Commit(ctx, fence.Commit{Writes: []fence.CommitWrite{{Object: &fence.ObjectWrite{
		Op: fence.OpCopy, Object: other, Access: fence.Access{Token: copied.First() + 3}, From: fence.ObjectSource{Object: name, Version: h.First() + 1}, KeepHeader: true,
	}}}})
	if err != nil || len(done.Results) != 1 || done.Results[0].Object.Size != 5 {
		t.Errorf("commit: %+v, %v", done, err)
	}
}

func TestRename(t *testing.T) {
	r := serve(t, nil)
	h := r.acquire("report:a")
	if _, err := r.PutObject(t.Context(), object("a"), h.First(), strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	_, err := r.RenameObject(t.Context(), object("a"), object("b"), h.First()+1)
	if e := wantCode(t, err, fence.CodeInvalidRequest); e.Field != "rename" {
		t.Errorf("under two leases: %+v", e)
	}
	r.put(func(w http.ResponseWriter, req *http.Request, _ int, _ http.Handler) {
		body, _ := io.ReadAll(req.Body)
		if got, want := fmt.Sprintf("%s %s %s %s", req.Method, req.URL.EscapedPath(), req.Header.Get("X-Fence-Token"), body), `POST /v1/objects/reports/b%20c 7 {"rename":"objects/reports/a"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		w.Header().Set("X-Fence-Token", "7")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"size":1}`)
	})
	if o, err := r.RenameObject(t.Context(), object("a"), object("b c"), 7); err != nil || o.Mark != 7 || !o.Created || o.Size != 1 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestObjectLists(t *testing.T) {
	r := serve(t, nil)
	keys := []string{"a", "b/1", "b/2", "b-", "é", "e\u0301", "z /+%'!"}
	for _, key := range keys {
		if _, err := r.PutObject(t.Context(), object(key), r.acquire("report:"+key).First(), strings.NewReader(key)); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(keys)
	var got []string
	for e, err := range r.Objects(t.Context(), "reports", "") {
		if err != nil || e.Size != int64(len(e.Key)) || e.Version == 0 || e.ETag != e.Version.String() || e.SHA256 == "" || e.ModifiedAt.IsZero() {
			t.Fatalf("%+v, %v", e, err)
		}
		got = append(got, e.Key)
	}
	if !slices.Equal(got, keys) {
		t.Errorf("all: %q", got)
	}
	got = nil
	q := fence.ObjectQuery{Bucket: "reports", Delimiter: "/", Limit: 1}
	for page := (fence.ObjectPage{More: true}); page.More; {
		var err error
		if page, err = r.ListObjects(t.Context(), q); err != nil || len(page.Entries) != 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		e := page.Entries[0]
		if e.Group {
			e.Key += "…"
		}
		got, q.After = append(got, e.Key), page.Entries[0].Key
	}
	if want := []string{"a", "b-", "b/…", "e\u0301", "z /…", "é"}; !slices.Equal(got, want) {
		t.Errorf("one by one: %q, want %q", got, want)
	}
	for e, err := range r.Objects(t.Context(), "reports", "b/") {
		if err != nil || e.Key != "b/1" {
			t.Errorf("%+v, %v", e, err)
		}
		break
	}
	for _, err := range r.Objects(t.Context(), "", "") {
		wantCode(t, err, fence.CodeInvalidRequest)
	}
	for _, answer := range []string{`{}`, `{"objects":[],"groups":[],"next":"x"}`, `{"objects":[{"key":"a"}],"groups":[],"next":"b"}`} {
		r.put(func(w http.ResponseWriter, _ *http.Request, _ int, _ http.Handler) { _, _ = io.WriteString(w, answer) })
		if _, err := r.ListObjects(t.Context(), fence.ObjectQuery{Bucket: "reports"}); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", answer, err)
		}
	}
}
