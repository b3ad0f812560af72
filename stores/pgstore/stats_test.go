package pgstore_test

import (
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores/pgstore"
)

func TestCountBlobs(t *testing.T) {
	w, g := objectWorld(t)
	count := func(want pgstore.BlobCounts) {
		t.Helper()
		if got, err := w.CountBlobs(t.Context()); err != nil || got != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	}
	count(pgstore.BlobCounts{})
	for i := range 2 {
		if _, err := w.PutObject(t.Context(), objectWrite(fence.OpPut, g.First()+fence.Token(i)), w.blob("x")); err != nil {
			t.Fatal(err)
		}
	}
	count(pgstore.BlobCounts{Committed: 1, Garbage: 1})
	id := w.blob("y").ID
	count(pgstore.BlobCounts{Committed: 1, Garbage: 1, Pending: 1})
	if err := w.AbortBlob(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	count(pgstore.BlobCounts{Committed: 1, Garbage: 1, Aborted: 1})

	// More than are counted one by one.
	w.exec(`SET session_replication_role = replica;
		INSERT INTO fence.blobs (bucket, principal, state) SELECT 'b', 'p', 'garbage' FROM generate_series(1, 110000);
		INSERT INTO fence.objects (bucket, key, blob, deleted, modified_at)
		SELECT 'b', n::text, id, false, now() FROM (SELECT id, row_number() OVER () AS n FROM fence.blobs WHERE bucket = 'b') b;
		RESET session_replication_role`)
	count(pgstore.BlobCounts{Committed: 100_000, Garbage: 100_000, Aborted: 1})
	w.exec("ANALYZE fence.objects")
	count(pgstore.BlobCounts{Committed: 110_001, Garbage: 100_000, Aborted: 1})
}

// A writer that waits for a lock is in its share; one for whom the share has no room waits for it.
func TestStats(t *testing.T) {
	w := newWorld(t)
	s, err := pgstore.Open(pgstore.Config{URL: w.url, MaxConns: 2, LockTimeout: 20 * time.Second, ConnectTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if stats := s.Stats(); stats.Writes.Size != 1 || stats.Grants.Size != 1 || stats.Pool.MaxConns() != 2 {
		t.Fatalf("%+v", stats)
	}
	tx, err := w.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE fence.blobs"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := s.BeginBlob(t.Context(), "reports", "alice")
			done <- err
		}()
	}
	want := pgstore.ShareStats{Size: 1, InUse: 1, Waiting: 1}
	for deadline := time.Now().Add(10 * time.Second); s.Stats().Grants != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v, want %+v", s.Stats().Grants, want)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Stats().Grants; got != (pgstore.ShareStats{Size: 1}) {
		t.Errorf("%+v when nobody is left", got)
	}
}
