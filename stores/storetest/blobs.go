// Package storetest holds the conformance suites that every blob store runs.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/stores"
)

const (
	mebi = 1 << 20
	// Stores cut bodies in parts of 5 MiB at least and 8 MiB by default: the interesting sizes lie around these.
	smallPart   = 5 * mebi
	defaultPart = 8 * mebi
)

// store is a blob store and the bucket in it that a test uses.
type store struct {
	stores.Blobs
	bucket string
}

// RunBlobs checks that a blob store keeps the contract of stores.Blobs. Each test opens a store of its own, with a
// bucket that exists.
func RunBlobs(t *testing.T, open func(t *testing.T) (b stores.Blobs, bucket string)) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, store)
	}{
		{"RoundTrip", testRoundTrip},
		{"Ranges", testRanges},
		{"WrongSizeLeavesNothing", testWrongSize},
		{"ReaderErrorLeavesNothing", testReaderError},
		{"CancelLeavesNothing", testCancel},
		{"CancelledBeforehand", testCancelledBeforehand},
		{"Missing", testMissing},
		{"DeleteTwice", testDelete},
		{"BadNames", testBadNames},
		{"Concurrent", testConcurrent},
		{"ConstantMemory", testMemory},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, bucket := open(t)
			c.run(t, store{b, bucket})
		})
	}
}

func testRoundTrip(t *testing.T, b store) {
	for _, size := range []int64{
		0, 1, 4095, 64 << 10, 64<<10 + 1, mebi + 1, smallPart - 1, smallPart, smallPart + 1,
		defaultPart - 1, defaultPart, defaultPart + 1, 2 * defaultPart, 20*mebi + 7,
	} {
		for _, announced := range []int64{size, -1} {
			t.Run(fmt.Sprintf("%dAnnounced%d", size, announced), func(t *testing.T) {
				id := newID()
				if err := b.Put(t.Context(), b.bucket, id, newBody(id, size), announced); err != nil {
					t.Fatalf("put: %v", err)
				}
				checkWhole(t, b, id, size)
			})
		}
	}
}

func testRanges(t *testing.T, b store) {
	const size = smallPart + 1000
	id := newID()
	if err := b.Put(t.Context(), b.bucket, id, newBody(id, size), size); err != nil {
		t.Fatalf("put: %v", err)
	}
	whole, err := io.ReadAll(newBody(id, size))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct{ offset, length int64 }{
		{0, 0}, {0, 1}, {0, size}, {1, size - 1}, {size - 1, 1}, {size, 0},
		{smallPart - 1, 2}, {smallPart, 1000}, {17, 100_000},
	} {
		t.Run(fmt.Sprintf("%dFrom%d", r.length, r.offset), func(t *testing.T) {
			got, err := readAll(t, b, id, r.offset, r.length)
			if err != nil {
				t.Fatal(err)
			}
			if want := whole[r.offset : r.offset+r.length]; !bytes.Equal(got, want) {
				t.Errorf("read %d bytes that are not those of the blob", len(got))
			}
		})
	}
	for _, r := range []struct{ offset, length int64 }{{0, size + 1}, {size, 1}, {size - 1, 2}, {size + 1, 1}, {-1, 1}, {0, -1}} {
		t.Run(fmt.Sprintf("Refuses%dFrom%d", r.length, r.offset), func(t *testing.T) {
			if got, err := readAll(t, b, id, r.offset, r.length); err == nil {
				t.Errorf("read %d bytes and no error", len(got))
			}
		})
	}
}

func testWrongSize(t *testing.T, b store) {
	for _, c := range []struct{ size, announced int64 }{
		{0, 1}, {99, 100}, {1, 0}, {101, 100}, {defaultPart - 1, defaultPart}, {defaultPart + 1, defaultPart},
		{defaultPart, 20 * mebi}, {20 * mebi, 20*mebi + 1}, {20*mebi + 1, 20 * mebi},
	} {
		t.Run(fmt.Sprintf("%dAnnounced%d", c.size, c.announced), func(t *testing.T) {
			id := newID()
			if err := b.Put(t.Context(), b.bucket, id, newBody(id, c.size), c.announced); err == nil {
				t.Error("put: no error")
			}
			checkFailed(t, b, id, c.announced)
		})
	}
}

func testReaderError(t *testing.T, b store) {
	broken := errors.New("the sender is gone")
	for _, at := range []int64{0, 1, 100_000, defaultPart, 20 * mebi} {
		for _, announced := range []int64{at + 1, 30 * mebi, -1} {
			t.Run(fmt.Sprintf("After%dAnnounced%d", at, announced), func(t *testing.T) {
				id := newID()
				body := io.MultiReader(newBody(id, at), onRead(func() error { return broken }))
				err := b.Put(t.Context(), b.bucket, id, body, announced)
				if !errors.Is(err, broken) {
					t.Errorf("put: got %v, want the reader's error", err)
				}
				checkFailed(t, b, id, announced)
			})
		}
	}
}

func testCancel(t *testing.T, b store) {
	for _, at := range []int64{0, 100_000, 20 * mebi} {
		for _, announced := range []int64{at + mebi, -1} {
			t.Run(fmt.Sprintf("After%dAnnounced%d", at, announced), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				id := newID()
				body := io.MultiReader(newBody(id, at), onRead(func() error { cancel(); return io.EOF }), newBody(id, mebi))
				if err := b.Put(ctx, b.bucket, id, body, announced); !errors.Is(err, context.Canceled) {
					t.Errorf("put: got %v, want a cancelled context", err)
				}
				checkFailed(t, b, id, announced)
			})
		}
	}
}

func testCancelledBeforehand(t *testing.T, b store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	id := newID()
	if err := b.Put(ctx, b.bucket, id, newBody(id, 10), 10); err == nil {
		t.Error("put: no error")
	}
	checkMissing(t, b, id)
}

func testMissing(t *testing.T, b store) { checkMissing(t, b, newID()) }

func testDelete(t *testing.T, b store) {
	id := newID()
	if err := b.Put(t.Context(), b.bucket, id, newBody(id, 100), 100); err != nil {
		t.Fatalf("put: %v", err)
	}
	for _, which := range []string{"first", "second"} {
		if err := b.Delete(t.Context(), b.bucket, id); err != nil {
			t.Errorf("%s delete: %v", which, err)
		}
		checkMissing(t, b, id)
	}
	if err := b.Delete(t.Context(), b.bucket, newID()); err != nil {
		t.Errorf("delete of a blob that never was: %v", err)
	}
}

func testBadNames(t *testing.T, b store) {
	for _, id := range []string{"", ".", "..", "abc", "../../../etc/passwd", "abcd/efgh", `abcd\efgh`, "abcd\x00", "abcd.", "äöüß", string(make([]byte, 500))} {
		if err := b.Put(t.Context(), b.bucket, id, newBody(id, 1), 1); err == nil {
			t.Errorf("put of id %q: no error", id)
		}
		if r, err := b.Open(t.Context(), b.bucket, id, 0, 1); err == nil {
			r.Close()
			t.Errorf("open of id %q: no error", id)
		}
		if err := b.Delete(t.Context(), b.bucket, id); err == nil {
			t.Errorf("delete of id %q: no error", id)
		}
	}
	for _, bucket := range []string{"", ".", "..", "a/b", "a\x00b"} {
		id := newID()
		if err := b.Put(t.Context(), bucket, id, newBody(id, 1), 1); err == nil {
			t.Errorf("put in bucket %q: no error", bucket)
		}
	}
}

func testConcurrent(t *testing.T, b store) {
	const writers = 8
	ids := make([]string, writers)
	var all sync.WaitGroup
	for i := range ids {
		ids[i] = newID()
		all.Go(func() {
			announced := int64(-1)
			if i%2 == 0 {
				announced = sizeOf(i)
			}
			if err := b.Put(t.Context(), b.bucket, ids[i], newBody(ids[i], sizeOf(i)), announced); err != nil {
				t.Errorf("put %d: %v", i, err)
			}
		})
	}
	all.Wait()
	for i, id := range ids {
		checkWhole(t, b, id, sizeOf(i))
	}
}

// sizeOf gives every writer another size, half of them more than a part.
func sizeOf(writer int) int64 { return int64(writer%2)*(defaultPart+1) + int64(writer)*1001 }
