package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// NaturalStore is a blob store with a bucket that others put objects into.
type NaturalStore struct {
	stores.Naturals
	Blobs stores.Blobs
	// Bucket exists and is empty, Reserved is the prefix of the store's own keys in it.
	Bucket, Reserved string
	// PutObject puts an object past the store.
	PutObject func(ctx context.Context, key string, body []byte, header fence.ObjectHeader) error
	// Large is how long a body must be for the store to copy it in parts; 0 if that is too long for a test.
	Large int64
}

// RunNaturals checks that a blob store keeps the contract of stores.Naturals. Each test opens a store of its own.
func RunNaturals(t *testing.T, open func(t *testing.T) NaturalStore) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, NaturalStore)
	}{
		{"Described", testStat},
		{"Keys", testNaturalKeys},
		{"KeysThatFold", testFoldedKeys},
		{"AnotherOneIsNotRead", testChanged},
		{"ReservedPrefixDoesNotExist", testReserved},
		{"TakeAndGive", testTakeAndGive},
		{"List", testList},
		{"Groups", testGroups},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

func (s NaturalStore) put(t *testing.T, key, body string) {
	t.Helper()
	if err := s.PutObject(t.Context(), key, []byte(body), fence.ObjectHeader{}); err != nil {
		t.Fatalf("put an object past the store: %v", err)
	}
}

func (s NaturalStore) stat(t *testing.T, key string) stores.Natural {
	t.Helper()
	n, err := s.Stat(t.Context(), s.Bucket, key)
	if err != nil {
		t.Fatalf("stat %.60q: %v", key, err)
	}
	return n
}

func (s NaturalStore) checkNatural(t *testing.T, n stores.Natural, want string) {
	t.Helper()
	r, err := s.OpenNatural(t.Context(), s.Bucket, n, 0, n.Size)
	if err != nil {
		t.Fatalf("open %.60q: %v", n.Key, err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != want {
		t.Errorf("%.60q: read %.60q, %v, want %.60q", n.Key, got, err, want)
	}
}

func (s NaturalStore) checkAbsent(t *testing.T, key string) {
	t.Helper()
	if _, err := s.Stat(t.Context(), s.Bucket, key); !errors.Is(err, stores.ErrMissing) {
		t.Errorf("stat %.60q: got %v, want ErrMissing", key, err)
	}
}

func testStat(t *testing.T, s NaturalStore) {
	header := fence.ObjectHeader{
		ContentType: "text/html", ContentEncoding: "gzip", ContentDisposition: `attachment; filename="x"`, CacheControl: "no-store",
		Meta: map[string]string{"color": "red", "a-b": "1, 2"},
	}
	if err := s.PutObject(t.Context(), "dir/page", []byte("0123456789"), header); err != nil {
		t.Fatal(err)
	}
	n := s.stat(t, "dir/page")
	if n.Key != "dir/page" || n.Size != 10 || n.ETag == "" || strings.Contains(n.ETag, `"`) || n.ModifiedAt.IsZero() {
		t.Errorf("%+v", n)
	}
	checkHeader(t, n.Header, header)
	for _, r := range []struct{ offset, length int64 }{{0, 10}, {3, 4}, {9, 1}, {0, 0}, {10, 0}} {
		got, err := s.OpenNatural(t.Context(), s.Bucket, n, r.offset, r.length)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got)
		got.Close()
		if err != nil || string(body) != "0123456789"[r.offset:r.offset+r.length] {
			t.Errorf("%d from %d: %q, %v", r.length, r.offset, body, err)
		}
	}
	if r, err := s.OpenNatural(t.Context(), s.Bucket, n, 8, 3); err == nil {
		r.Close()
		t.Error("read behind the end")
	}
	s.checkAbsent(t, "dir/none")
	s.checkAbsent(t, "dir")
	s.checkAbsent(t, "")
}

func checkHeader(t *testing.T, got, want fence.ObjectHeader) {
	t.Helper()
	if !maps.Equal(got.Meta, want.Meta) {
		t.Errorf("metadata %q, want %q", got.Meta, want.Meta)
	}
	got.Meta, want.Meta = nil, nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("headers %+v, want %+v", got, want)
	}
}

// oddKeys returns keys that every server can hold. The first two are one to a file system that composes characters.
func oddKeys() []string {
	return []string{
		"\u00e9", "e\u0301", "10+2.jpg", "image(1).jpg", "images/mac@2x.png", "a b", "a+b", "a%2Fb", "a%20b", "q?x=1&y#z", "it's!*", "~", `back\slash`,
		"...", ".hidden", "a/.b", "a/b..", "<&>\"", "日本/語", "🙂",
	}
}

func testNaturalKeys(t *testing.T, s NaturalStore) {
	keys := append(oddKeys(), strings.Repeat("0123456789abcde/", 63)+"0123456789abcdef")
	for _, key := range keys {
		s.put(t, key, "of "+key)
	}
	slices.Sort(keys)
	var got []string
	for after := ""; ; {
		page, err := s.ListNatural(t.Context(), stores.NaturalQuery{Bucket: s.Bucket, After: after, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range page.Objects {
			got, after = append(got, n.Key), n.Key
			if now := s.stat(t, n.Key); now.ETag != n.ETag || now.Size != n.Size || !now.ModifiedAt.Equal(n.ModifiedAt.Truncate(1e9)) {
				t.Errorf("listed %+v, described %+v", n, now)
			}
			s.checkNatural(t, n, "of "+n.Key)
		}
		if !page.More {
			break
		}
	}
	if !slices.Equal(got, keys) {
		t.Errorf("listed %q, want %q", got, keys)
	}
	for _, key := range keys {
		id := newID()
		if err := s.Take(t.Context(), s.Bucket, s.stat(t, key), id); err != nil {
			t.Errorf("take %.60q: %v", key, err)
		}
		if err := s.Remove(t.Context(), s.Bucket, key); err != nil {
			t.Errorf("remove %.60q: %v", key, err)
		}
		s.checkAbsent(t, key)
	}
}

// testFoldedKeys asks for keys that a path cleaner takes for others.
func testFoldedKeys(t *testing.T, s NaturalStore) {
	s.put(t, "a/b", "body")
	s.put(t, "foo", "body")
	id := newID()
	if err := s.Blobs.Put(t.Context(), s.Bucket, id, strings.NewReader("secret"), 6); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"a//b", "/foo", "a/./b", "x/../foo", "./foo", "..", ".", "a/..", "//", strings.Repeat("x", 1024),
		"./" + s.Reserved + "blobs/" + id, "x/../" + s.Reserved + "blobs/" + id, "/" + s.Reserved + "blobs/" + id,
	} {
		s.checkAbsent(t, key)
		if err := s.Remove(t.Context(), s.Bucket, key); err != nil {
			t.Errorf("remove %.60q: %v", key, err)
		}
	}
	s.checkNatural(t, s.stat(t, "a/b"), "body")
	s.checkNatural(t, s.stat(t, "foo"), "body")
	checkBlob(t, s.Blobs, s.Bucket, id, "secret")
}

func checkBlob(t *testing.T, b stores.Blobs, bucket, id, want string) {
	t.Helper()
	r, err := b.Open(t.Context(), bucket, id, 0, int64(len(want)))
	if err != nil {
		t.Errorf("open blob: %v", err)
		return
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != want {
		t.Errorf("blob: read %.60q, %v, want %.60q", got, err, want)
	}
}

func testChanged(t *testing.T, s NaturalStore) {
	s.put(t, "key", "before")
	n := s.stat(t, "key")
	try := func(want error) {
		t.Helper()
		for _, length := range []int64{0, 3} {
			r, err := s.OpenNatural(t.Context(), s.Bucket, n, 0, length)
			if err == nil {
				r.Close()
			}
			if !errors.Is(err, want) {
				t.Errorf("open %d bytes: %v, want %v", length, err, want)
			}
		}
		id := newID()
		if err := s.Take(t.Context(), s.Bucket, n, id); !errors.Is(err, want) {
			t.Errorf("take: %v, want %v", err, want)
		}
		checkMissing(t, store{s.Blobs, s.Bucket}, id)
	}
	s.put(t, "key", "behind")
	try(stores.ErrChanged)
	for range 2 {
		if err := s.Remove(t.Context(), s.Bucket, "key"); err != nil {
			t.Fatal(err)
		}
	}
	try(stores.ErrMissing)
}

func testReserved(t *testing.T, s NaturalStore) {
	s.put(t, "+", "before")
	s.put(t, "zz", "behind")
	for range 3 {
		if err := s.Blobs.Put(t.Context(), s.Bucket, newID(), bytes.NewReader(nil), 0); err != nil {
			t.Fatal(err)
		}
	}
	own := s.Reserved + "blobs/" + "x"
	s.put(t, own, "own")
	s.checkAbsent(t, own)
	s.checkAbsent(t, s.Reserved)
	if _, err := s.OpenNatural(t.Context(), s.Bucket, stores.Natural{Key: own, Size: 3}, 0, 3); !errors.Is(err, stores.ErrMissing) {
		t.Errorf("open: %v", err)
	}
	if err := s.Take(t.Context(), s.Bucket, stores.Natural{Key: own, Size: 3}, newID()); !errors.Is(err, stores.ErrMissing) {
		t.Errorf("take: %v", err)
	}
	if err := s.Remove(t.Context(), s.Bucket, own); err != nil {
		t.Errorf("remove: %v", err)
	}
	if _, err := s.Give(t.Context(), s.Bucket, fence.Blob{ID: "x"}, own, fence.ObjectHeader{}); fence.CodeOf(err) != fence.CodeInvalidRequest {
		t.Errorf("give: %v", err)
	}
	first := s.Reserved[:2]
	for name, c := range map[string]struct {
		q    stores.NaturalQuery
		want string
	}{
		"All":            {stores.NaturalQuery{}, "+ zz"},
		"OneByOne":       {stores.NaturalQuery{Limit: 1}, "+ ..."},
		"BehindTheFirst": {stores.NaturalQuery{Limit: 1, After: "+"}, "zz"},
		"Grouped":        {stores.NaturalQuery{Delimiter: "/"}, "+ zz"},
		"GroupAtItsEdge": {stores.NaturalQuery{Delimiter: first}, "+ zz"},
		"From":           {stores.NaturalQuery{After: s.Reserved}, "zz"},
		"FromWithin":     {stores.NaturalQuery{After: own, Delimiter: "/"}, "zz"},
		"Below":          {stores.NaturalQuery{Prefix: s.Reserved}, ""},
		"FarBelow":       {stores.NaturalQuery{Prefix: s.Reserved + "blobs/", Delimiter: "/"}, ""},
		"Above":          {stores.NaturalQuery{Prefix: first}, ""},
	} {
		t.Run(name, func(t *testing.T) { s.checkList(t, c.q, c.want) })
	}
	s.put(t, first+"x/y", "beside")
	s.checkList(t, stores.NaturalQuery{Delimiter: first}, "+ "+first+"| zz")
	s.checkList(t, stores.NaturalQuery{Prefix: first}, first+"x/y")
}

// checkList compares a page with the keys that it shall have, groups with a bar behind them, and dots if there are more.
func (s NaturalStore) checkList(t *testing.T, q stores.NaturalQuery, want string) stores.NaturalPage {
	t.Helper()
	q.Bucket = s.Bucket
	if q.Limit == 0 {
		q.Limit = 1000
	}
	page, err := s.ListNatural(t.Context(), q)
	if err != nil {
		t.Fatalf("list %+v: %v", q, err)
	}
	var got []string
	for _, n := range page.Objects {
		got = append(got, n.Key)
	}
	for _, g := range page.Groups {
		got = append(got, g+"|")
	}
	slices.Sort(got)
	if page.More {
		got = append(got, "...")
	}
	if strings.Join(got, " ") != want {
		t.Errorf("list %+v: %q, want %q", q, strings.Join(got, " "), want)
	}
	return page
}

func testTakeAndGive(t *testing.T, s NaturalStore) {
	bodies := []string{"", "body"}
	if s.Large > 0 {
		large, err := io.ReadAll(newBody("large", s.Large))
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(large))
	}
	header := fence.ObjectHeader{
		ContentType: "text/css", ContentEncoding: "br", ContentDisposition: "inline", CacheControl: "max-age=5",
		Meta: map[string]string{"name": "Grüße, 日本", "plain": "x y"},
	}
	other := fence.ObjectHeader{ContentType: "text/plain", Meta: map[string]string{"of": "others"}}
	for _, body := range bodies {
		t.Run(fmt.Sprint(len(body)), func(t *testing.T) {
			if err := s.PutObject(t.Context(), "a b+c/d", []byte(body), other); err != nil {
				t.Fatal(err)
			}
			id := newID()
			if err := s.Take(t.Context(), s.Bucket, s.stat(t, "a b+c/d"), id); err != nil {
				t.Fatalf("take: %v", err)
			}
			checkBlob(t, s.Blobs, s.Bucket, id, body)
			blob := fence.Blob{ID: id, Size: int64(len(body))}
			key := fmt.Sprint("given/ü+", len(body))
			n, err := s.Give(t.Context(), s.Bucket, blob, key, header)
			if err != nil {
				t.Fatalf("give: %v", err)
			}
			if now := s.stat(t, key); n.Size != blob.Size || n.ETag != now.ETag || !n.ModifiedAt.Equal(now.ModifiedAt) {
				t.Errorf("given %+v, described %+v", n, now)
			}
			checkHeader(t, n.Header, header)
			s.checkNatural(t, n, body)
			blob.Size++
			if _, err := s.Give(t.Context(), s.Bucket, blob, "given/wrong", header); err == nil {
				t.Error("give of a blob of another length: no error")
			}
			s.checkAbsent(t, "given/wrong")
		})
	}
	if _, err := s.Give(t.Context(), s.Bucket, fence.Blob{ID: newID()}, "given/none", header); !errors.Is(err, stores.ErrMissing) {
		t.Errorf("give of a missing blob: %v", err)
	}
}
