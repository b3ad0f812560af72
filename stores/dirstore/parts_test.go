package dirstore_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/dirstore"
)

func putPart(t *testing.T, s *dirstore.Store, number int, body string) stores.Part {
	t.Helper()
	upload, err := s.BeginParts(t.Context(), "reports", id)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.PutPart(t.Context(), "reports", id, upload, number, strings.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDamagedPartIsNotJoined(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	p := putPart(t, s, 1, "body")
	f, err := os.OpenFile(filepath.Join(dir, "reports", "01", id+".parts", "1"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("B"), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.JoinParts(t.Context(), "reports", id, "parts", []stores.Part{p}); fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Errorf("join: %v", err)
	}
	if got := strings.Join(files(t, dir), " "); got != "reports/01/"+id+".parts/1" {
		t.Errorf("files: %s", got)
	}
}

func TestPartsGoWithTheirBlob(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	putPart(t, s, 1, "body")
	if err := s.Delete(t.Context(), "reports", id); err != nil {
		t.Fatal(err)
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("files: %q", got)
	}
	p := putPart(t, s, 2, "more")
	if err := s.JoinParts(t.Context(), "reports", id, "parts", []stores.Part{p}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(files(t, dir), " "); got != "reports/01/"+id {
		t.Errorf("files: %s", got)
	}
}

// Several gateways join the same parts at once: all succeed, and the blob is whole.
func TestPartsAreJoinedAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	parts := []stores.Part{putPart(t, s, 1, strings.Repeat("a", 100_000)), putPart(t, s, 2, "b")}
	gateways := make([]*dirstore.Store, 8)
	for i := range gateways {
		gateways[i] = open(t, dir)
	}
	var all sync.WaitGroup
	for _, other := range gateways {
		all.Go(func() {
			if err := other.JoinParts(t.Context(), "reports", id, "parts", parts); err != nil {
				t.Errorf("join: %v", err)
			}
		})
	}
	all.Wait()
	r, err := s.Open(t.Context(), "reports", id, 100_000, 1)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if got := strings.Join(files(t, dir), " "); got != "reports/01/"+id {
		t.Errorf("files: %s", got)
	}
}

func TestPartsThatADeadProcessWasRemovingAreRemoved(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if err := os.MkdirAll(filepath.Join(dir, ".tmp", "dead"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".tmp", "dead", "1"), []byte("part"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("files: %q", got)
	}
}
