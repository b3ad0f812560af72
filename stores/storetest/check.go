package storetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	mrand "math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/fencegate/fencegate/stores"
)

func newID() string { return rand.Text() }

// period is how often a body repeats: a prime, so that no two parts of it are alike.
const period = 65521

// body is a reader of size bytes that depend on a seed and on their position, made as they are read.
type body struct {
	pattern  []byte
	at, size int64
}

func newBody(seed string, size int64) *body {
	b := &body{pattern: make([]byte, period), size: size}
	key := sha256.Sum256([]byte(seed))
	mrand.NewChaCha8(key).Read(b.pattern)
	return b
}

func (b *body) Read(p []byte) (int, error) {
	if b.at == b.size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), b.size-b.at)]
	n := copy(p, b.pattern[b.at%period:])
	for n < len(p) {
		n += copy(p[n:], b.pattern)
	}
	b.at += int64(n)
	return n, nil
}

// onRead is a reader without bytes that does something when it is read.
type onRead func() error

func (f onRead) Read([]byte) (int, error) { return 0, f() }

func sum(t *testing.T, r io.Reader) (int64, [sha256.Size]byte) {
	t.Helper()
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return n, [sha256.Size]byte(h.Sum(nil))
}

func checkWhole(t *testing.T, b store, id string, size int64) {
	t.Helper()
	r, err := b.Open(t.Context(), b.bucket, id, 0, size)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer r.Close()
	n, got := sum(t, r)
	if _, want := sum(t, newBody(id, size)); n != size || got != want {
		t.Errorf("read %d bytes with SHA-256 %x, want %d with %x", n, got, size, want)
	}
}

func readAll(t *testing.T, b store, id string, offset, length int64) ([]byte, error) {
	t.Helper()
	r, err := b.Open(t.Context(), b.bucket, id, offset, length)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// checkMissing looks for a blob whose Put was refused, also as the empty blob that an interrupted one might leave.
func checkMissing(t *testing.T, b store, id string) {
	t.Helper()
	for _, length := range []int64{0, 1} {
		r, err := b.Open(context.WithoutCancel(t.Context()), b.bucket, id, 0, length)
		if err == nil {
			r.Close()
		}
		if !errors.Is(err, stores.ErrMissing) {
			t.Errorf("open %d bytes: got %v, want ErrMissing", length, err)
		}
	}
}

// checkFailed looks for the blob of a Put that failed. Nothing of it may be there; but a server that a body of known length is streamed to may
// keep what had arrived when it broke off, and say so after the Put: never all of it, and it can be deleted.
func checkFailed(t *testing.T, b store, id string, announced int64) {
	t.Helper()
	if announced <= smallPart {
		checkMissing(t, b, id)
		return
	}
	ctx := context.WithoutCancel(t.Context())
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if r, err := b.Open(ctx, b.bucket, id, 0, announced); err == nil {
			r.Close()
			t.Error("the whole blob is there")
		}
		r, err := b.Open(ctx, b.bucket, id, 0, 0)
		if errors.Is(err, stores.ErrMissing) {
			return
		}
		if err == nil {
			r.Close()
		}
		if err := b.Delete(ctx, b.bucket, id); err != nil {
			t.Errorf("delete: %v", err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("what is left of a blob cannot be deleted: %v", err)
		}
	}
}

// testMemory streams far more than a store may keep in memory, with and without a size.
func testMemory(t *testing.T, b store) {
	const size = 200 * mebi
	for _, c := range []struct {
		name      string
		announced int64
		allowed   uint64
	}{{"Known", size, 32 * mebi}, {"Unknown", -1, 64 * mebi}} {
		t.Run(c.name, func(t *testing.T) {
			id := newID()
			runtime.GC()
			watch := &heapWatch{r: newBody(id, size)}
			start := watch.sample()
			if err := b.Put(t.Context(), b.bucket, id, watch, c.announced); err != nil {
				t.Fatalf("put: %v", err)
			}
			r, err := b.Open(t.Context(), b.bucket, id, 0, size)
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			defer r.Close()
			watch.r = r
			n, got := sum(t, watch)
			if _, want := sum(t, newBody(id, size)); n != size || got != want {
				t.Errorf("read %d bytes with SHA-256 %x, want %d with %x", n, got, size, want)
			}
			if watch.peak > start+c.allowed {
				t.Errorf("the heap grew by %d MiB, allowed are %d", (watch.peak-start)/mebi, c.allowed/mebi)
			}
			if err := b.Delete(t.Context(), b.bucket, id); err != nil {
				t.Errorf("delete: %v", err)
			}
		})
	}
}

// heapWatch samples the heap while it is read.
type heapWatch struct {
	r           io.Reader
	since, peak uint64
}

func (w *heapWatch) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if w.since += uint64(n); w.since >= 4*mebi {
		w.since = 0
		w.sample()
	}
	return n, err
}

func (w *heapWatch) sample() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.peak = max(w.peak, m.HeapInuse)
	return m.HeapInuse
}
