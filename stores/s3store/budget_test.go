package s3store_test

import (
	"crypto/rand"
	"io"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/s3store"
)

// An upload holds what it buffers, one that finds none left waits, and both give back what they had.
func TestMemory(t *testing.T) {
	env := testenv.Bucket(t)
	cfg := configOf(env)
	cfg.PartSize, cfg.Memory = 5<<20, 5<<20
	s := open(t, cfg)
	const size = 200_000
	sent := make([]*io.PipeWriter, 2)
	done := make(chan error, 2)
	for i := range sent {
		var body *io.PipeReader
		body, sent[i] = io.Pipe()
		go func() { done <- s.Put(t.Context(), env.Bucket, rand.Text(), body, []int64{5 << 20, size}[i]) }()
		want := s3store.Memory{Size: 5 << 20, InUse: 5 << 20, Waiting: int64(i)}
		for deadline := time.Now().Add(5 * time.Second); s.Memory() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%+v, want %+v", s.Memory(), want)
			}
		}
	}
	for i, n := range []int{5 << 20, size} {
		if _, err := sent[i].Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		sent[i].Close()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Memory(); got != (s3store.Memory{Size: 5 << 20}) {
		t.Errorf("%+v when nobody is left", got)
	}
}
