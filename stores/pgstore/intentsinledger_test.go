package pgstore_test

import (
	"context"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// Intents that were recorded in advance stand in the ledger when they are given out, and what was not needed is gone with the store.
func TestIntentsInAdvance(t *testing.T) {
	w, g := objectWorld(t)
	store, err := pgstore.Open(pgstore.Config{URL: w.url})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(principal string) string {
		id, err := store.BeginBlob(context.Background(), "reports", principal)
		if err != nil {
			t.Error(err)
		}
		return id
	}
	var (
		all  sync.WaitGroup
		mu   sync.Mutex // of the connection, too
		seen = map[string]bool{}
	)
	for _, principal := range []string{"p", "q", "p"} {
		all.Go(func() {
			for range 200 {
				id := begin(principal)
				mu.Lock()
				if got := w.text("SELECT principal || bucket || state FROM fence.blobs WHERE id = $1", id); got != principal+"reportspending" || seen[id] {
					t.Errorf("%s of %s: %s, seen %v", id, principal, got, seen[id])
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if w.text("SELECT count(*)::text FROM (SELECT FROM fence.blobs GROUP BY state_at HAVING count(*) > 1) several") == "0" {
		t.Error("none were recorded in advance")
	}

	// One that was given up meanwhile cannot be published, and is not given out again.
	lost := fence.Blob{ID: begin("p"), Size: 1}
	lost.SHA256[0] = 1
	w.exec("DELETE FROM fence.blobs WHERE id = '" + lost.ID + "'")
	_, err = store.PutObject(t.Context(), objectWrite(fence.OpPut, g.First()), lost)
	wantCode(t, err, fence.CodeUploadExpired)

	// Neither is one whose like was found to be lost.
	for range 20 {
		begin("p")
	}
	lost.ID = begin("p")
	w.exec("DELETE FROM fence.blobs WHERE state_at = (SELECT state_at FROM fence.blobs WHERE id = '" + lost.ID + "')")
	wantCode(t, store.KeepBlob(t.Context(), lost, fence.ObjectHeader{}), fence.CodeUploadExpired)
	if err := store.KeepBlob(t.Context(), fence.Blob{ID: begin("p"), Size: 1}, fence.ObjectHeader{}); err != nil {
		t.Errorf("after one was lost: %v", err)
	}

	w.exec("DELETE FROM fence.blobs")
	for range 600 {
		begin("q")
	}
	store.Close()
	if got := w.text("SELECT count(*)::text FROM fence.blobs"); got != "600" {
		t.Errorf("%s intents are left of 600 that were given out", got)
	}
}
