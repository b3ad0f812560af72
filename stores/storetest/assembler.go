package storetest

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// PartStore is a blob store that takes blobs in parts.
type PartStore struct {
	stores.Assembler
	Blobs stores.Blobs
	// Other is the same store as another gateway has it open.
	Other  stores.Assembler
	Bucket string
}

// RunAssembler checks that a blob store keeps the contract of stores.Assembler. Each test opens a store of its own.
func RunAssembler(t *testing.T, open func(t *testing.T) PartStore) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, PartStore)
	}{
		{"AnyOrder", testParts},
		{"OneShortPart", testOnePart},
		{"Listed", testPartList},
		{"Replaced", testPartReplaced},
		{"WrongPartsAreRefused", testWrongParts},
		{"BrokenPartIsNone", testBrokenPart},
		{"Dropped", testDropped},
		{"BadNames", testBadPartNames},
		{"ConstantMemory", testPartMemory},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

func (s PartStore) begin(t *testing.T) (id, upload string) {
	t.Helper()
	id = newID()
	upload, err := s.BeginParts(t.Context(), s.Bucket, id)
	if err != nil || upload == "" {
		t.Fatalf("begin: %q, %v", upload, err)
	}
	return id, upload
}

// part puts size bytes that depend on the seed.
func (s PartStore) part(t *testing.T, a stores.Assembler, id, upload string, number int, seed string, size int64) stores.Part {
	t.Helper()
	p, err := a.PutPart(t.Context(), s.Bucket, id, upload, number, newBody(seed, size), size)
	if err != nil {
		t.Fatalf("put part %d: %v", number, err)
	}
	h := md5.New()
	if _, err := io.Copy(h, newBody(seed, size)); err != nil {
		t.Fatal(err)
	}
	if want := hex.EncodeToString(h.Sum(nil)); p.Number != number || p.Size != size || p.ETag != want || p.ModifiedAt.IsZero() {
		t.Errorf("part %+v, want number %d, %d bytes, %s", p, number, size, want)
	}
	return p
}

func (s PartStore) join(t *testing.T, id, upload string, parts ...stores.Part) {
	t.Helper()
	if err := s.JoinParts(t.Context(), s.Bucket, id, upload, parts); err != nil {
		t.Fatalf("join: %v", err)
	}
}

func (s PartStore) checkBody(t *testing.T, id string, size int64, bodies ...io.Reader) {
	t.Helper()
	r, err := s.Blobs.Open(t.Context(), s.Bucket, id, 0, size)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer r.Close()
	n, got := sum(t, r)
	if _, want := sum(t, io.MultiReader(bodies...)); n != size || got != want {
		t.Errorf("read %d bytes that are not those of the parts", n)
	}
	if r, err := s.Blobs.Open(t.Context(), s.Bucket, id, 0, size+1); err == nil {
		r.Close()
		t.Error("the blob is longer than its parts")
	}
}

// checkNone looks for a blob that is not joined yet.
func (s PartStore) checkNone(t *testing.T, id string) {
	t.Helper()
	checkMissing(t, store{s.Blobs, s.Bucket}, id)
}

func testParts(t *testing.T, s PartStore) {
	id, upload := s.begin(t)
	third := s.part(t, s.Other, id, upload, 7, "c", 1000)
	first := s.part(t, s, id, upload, 1, "a", smallPart)
	second := s.part(t, s.Other, id, upload, 3, "b", smallPart+1)
	s.part(t, s, id, upload, 4, "not joined", smallPart)
	s.checkNone(t, id)
	const size = 2*smallPart + 1001
	for range 2 {
		s.join(t, id, upload, first, second, third)
		s.checkBody(t, id, size, newBody("a", smallPart), newBody("b", smallPart+1), newBody("c", 1000))
	}
	if err := s.Other.JoinParts(t.Context(), s.Bucket, id, upload, []stores.Part{first, second, third}); err != nil {
		t.Errorf("join by another gateway: %v", err)
	}
	if err := s.JoinParts(t.Context(), s.Bucket, id, upload, []stores.Part{first, third}); err == nil {
		t.Error("join of other parts than before: no error")
	}
	if err := s.DropParts(t.Context(), s.Bucket, id, upload); err != nil {
		t.Errorf("drop: %v", err)
	}
	s.checkBody(t, id, size, newBody("a", smallPart), newBody("b", smallPart+1), newBody("c", 1000))
}

func testOnePart(t *testing.T, s PartStore) {
	for _, size := range []int64{0, 1, 64 << 10, 64<<10 + 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			id, upload := s.begin(t)
			s.join(t, id, upload, s.part(t, s, id, upload, 1, "a", size))
			s.checkBody(t, id, size, newBody("a", size))
		})
	}
}

func testPartList(t *testing.T, s PartStore) {
	id, upload := s.begin(t)
	var want []string
	for _, n := range []int{10_000, 2, 11, 1} {
		s.part(t, s, id, upload, n, fmt.Sprint(n), int64(n))
	}
	for _, n := range []int{1, 2, 11, 10_000} {
		want = append(want, fmt.Sprint(n))
	}
	for _, c := range []struct{ after, limit, from, to int }{{0, 1000, 0, 4}, {0, 4, 0, 4}, {0, 3, 0, 3}, {1, 1, 1, 2}, {2, 5, 2, 4}, {3, 5, 2, 4}, {10_000, 5, 4, 4}} {
		parts, more, err := s.Other.Parts(t.Context(), s.Bucket, id, upload, c.after, c.limit)
		if err != nil || len(parts) != c.to-c.from || more != (c.to < 4) {
			t.Fatalf("%d behind %d: %+v, more: %t, %v", c.limit, c.after, parts, more, err)
		}
		for i, p := range parts {
			h := md5.New()
			if _, err := io.Copy(h, newBody(want[c.from+i], p.Size)); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(p.Number) != want[c.from+i] || p.Size != int64(p.Number) || p.ETag != hex.EncodeToString(h.Sum(nil)) || p.ModifiedAt.IsZero() {
				t.Errorf("part %+v", p)
			}
		}
	}
	if _, _, err := s.Parts(t.Context(), s.Bucket, id, upload, 0, 0); fence.CodeOf(err) != fence.CodeInvalidRequest {
		t.Errorf("no parts: %v", err)
	}
}

func testPartReplaced(t *testing.T, s PartStore) {
	id, upload := s.begin(t)
	old := s.part(t, s, id, upload, 1, "old", 70_000)
	now := s.part(t, s.Other, id, upload, 1, "new", 60_000)
	if parts, _, err := s.Parts(t.Context(), s.Bucket, id, upload, 0, 10); err != nil || len(parts) != 1 || parts[0].ETag != now.ETag {
		t.Errorf("parts %+v, %v", parts, err)
	}
	if err := s.JoinParts(t.Context(), s.Bucket, id, upload, []stores.Part{old}); fence.CodeOf(err) != fence.CodeInvalidRequest {
		t.Errorf("join of a part that was replaced: %v", err)
	}
	s.checkNone(t, id)
	s.join(t, id, upload, now)
	s.checkBody(t, id, 60_000, newBody("new", 60_000))
}

func testWrongParts(t *testing.T, s PartStore) {
	id, upload := s.begin(t)
	first, second := s.part(t, s, id, upload, 1, "a", smallPart), s.part(t, s, id, upload, 2, "b", 10)
	other, absent := first, first
	other.ETag, absent.Number = second.ETag, 3
	for name, parts := range map[string][]stores.Part{
		"None": {}, "WrongOrder": {second, first}, "Twice": {first, first}, "OtherETag": {other}, "Absent": {first, absent},
	} {
		t.Run(name, func(t *testing.T) {
			if err := s.JoinParts(t.Context(), s.Bucket, id, upload, parts); fence.CodeOf(err) != fence.CodeInvalidRequest {
				t.Errorf("join: %v", err)
			}
			s.checkNone(t, id)
		})
	}
	for _, number := range []int{0, -1, 10_001} {
		if _, err := s.PutPart(t.Context(), s.Bucket, id, upload, number, bytes.NewReader(nil), 0); fence.CodeOf(err) != fence.CodeInvalidRequest {
			t.Errorf("part %d: %v", number, err)
		}
	}
	s.join(t, id, upload, first, second)
}

func testBrokenPart(t *testing.T, s PartStore) {
	broken := errors.New("the sender is gone")
	id, upload := s.begin(t)
	for name, c := range map[string]struct {
		body io.Reader
		size int64
		want error
	}{
		"Short":         {newBody("a", 99), 100, nil},
		"Long":          {newBody("a", 101), 100, nil},
		"StreamedShort": {newBody("a", 2*mebi), 2*mebi + 1, nil},
		"StreamedLong":  {newBody("a", 2*mebi), 2*mebi - 1, nil},
		"Broken":        {io.MultiReader(newBody("a", 10), onRead(func() error { return broken })), 20, broken},
		"StreamBroken":  {io.MultiReader(newBody("a", mebi), onRead(func() error { return broken })), 2 * mebi, broken},
		"Negative":      {newBody("a", 1), -1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.PutPart(t.Context(), s.Bucket, id, upload, 1, c.body, c.size)
			if c.want != nil && !errors.Is(err, c.want) || c.want == nil && fence.CodeOf(err) != fence.CodeInvalidRequest {
				t.Errorf("put: %v", err)
			}
		})
	}
	// Not part 1: a server that keeps what came of a broken one may do so later, in place of one that was put since.
	s.join(t, id, upload, s.part(t, s, id, upload, 2, "a", mebi))
	s.checkBody(t, id, mebi, newBody("a", mebi))
}

func testDropped(t *testing.T, s PartStore) {
	id, upload := s.begin(t)
	p := s.part(t, s, id, upload, 1, "a", 10)
	for range 2 {
		if err := s.Other.DropParts(t.Context(), s.Bucket, id, upload); err != nil {
			t.Errorf("drop: %v", err)
		}
	}
	if _, err := s.PutPart(t.Context(), s.Bucket, id, upload, 1, newBody("a", 10), 10); !errors.Is(err, stores.ErrMissing) {
		t.Errorf("put: %v", err)
	}
	if _, _, err := s.Parts(t.Context(), s.Bucket, id, upload, 0, 10); !errors.Is(err, stores.ErrMissing) {
		t.Errorf("parts: %v", err)
	}
	if err := s.JoinParts(t.Context(), s.Bucket, id, upload, []stores.Part{p}); !errors.Is(err, stores.ErrMissing) {
		t.Errorf("join: %v", err)
	}
	s.checkNone(t, id)
}

func testBadPartNames(t *testing.T, s PartStore) {
	id, upload := s.begin(t)
	for _, c := range []struct{ bucket, id, upload string }{{"a/b", id, upload}, {s.Bucket, "../../x", upload}, {s.Bucket, id, "../x"}, {s.Bucket, id, ""}} {
		if _, err := s.PutPart(t.Context(), c.bucket, c.id, c.upload, 1, newBody("a", 1), 1); err == nil {
			t.Errorf("part of %q: no error", c)
		}
		if err := s.JoinParts(t.Context(), c.bucket, c.id, c.upload, []stores.Part{{Number: 1, Size: 1}}); err == nil {
			t.Errorf("join of %q: no error", c)
		}
	}
}

// testPartMemory puts one part that is longer than a store may keep in memory.
func testPartMemory(t *testing.T, s PartStore) {
	const size, allowed = 96 * mebi, 32 * mebi
	id, upload := s.begin(t)
	watch := &heapWatch{r: newBody("a", size)}
	start := watch.sample()
	p, err := s.PutPart(t.Context(), s.Bucket, id, upload, 1, watch, size)
	if err != nil {
		t.Fatal(err)
	}
	if watch.peak > start+allowed {
		t.Errorf("the heap grew by %d MiB, allowed are %d", (watch.peak-start)/mebi, allowed/mebi)
	}
	s.join(t, id, upload, p)
	if err := s.Blobs.Delete(context.WithoutCancel(t.Context()), s.Bucket, id); err != nil {
		t.Error(err)
	}
}
