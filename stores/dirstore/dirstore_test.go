package dirstore_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/dirstore"
	"github.com/fencegate/fencegate/stores/storetest"
)

func open(t *testing.T, dir string) *dirstore.Store {
	t.Helper()
	s, err := dirstore.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestBlobs(t *testing.T) {
	storetest.RunBlobs(t, func(t *testing.T) (stores.Blobs, string) { return open(t, t.TempDir()), "reports" })
}

func TestAssembler(t *testing.T) {
	storetest.RunAssembler(t, func(t *testing.T) storetest.PartStore {
		dir := t.TempDir()
		s := open(t, dir)
		return storetest.PartStore{Assembler: s, Blobs: s, Other: open(t, dir), Bucket: "reports"}
	})
}

const id = "0123456789abcdef"

func TestBlobSurvivesReopening(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	put(t, open(t, dir), "reports", "body")
	if got := files(t, dir); len(got) != 1 || got[0] != "reports/01/"+id {
		t.Errorf("files: %q", got)
	}
	r, err := open(t, dir).Open(t.Context(), "reports", id, 0, 4)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}

func TestFailedPutLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, dir).Put(t.Context(), "reports", id, strings.NewReader("short"), 100); fence.CodeOf(err) != fence.CodeInvalidRequest {
		t.Errorf("put: %v", err)
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("files: %q", got)
	}
}

func TestFailedRenameLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	// A directory in the place of the blob makes the last step fail.
	if err := os.MkdirAll(filepath.Join(dir, "reports", "01", id, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "reports", id, strings.NewReader("body"), 4); fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Errorf("put: %v", err)
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("files: %q", got)
	}
}

func TestDirectoriesAreMadeAgain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "reports", "body")
	if err := os.RemoveAll(filepath.Join(dir, "reports")); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "reports", id, strings.NewReader("body"), 4); err == nil {
		t.Error("put into a removed directory: no error")
	}
	put(t, s, "reports", "body")
}

func TestTempFilesOfDeadProcessesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	for _, name := range []string{"dead", "alive"} {
		if err := os.WriteFile(filepath.Join(dir, ".tmp", name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	alive, err := os.Open(filepath.Join(dir, ".tmp", "alive"))
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	if err := syscall.Flock(int(alive.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	put(t, open(t, dir), ".tmp", "a bucket of that name is another directory")
	open(t, dir)
	if got := strings.Join(files(t, dir), " "); got != "%2Etmp/01/"+id+" .tmp/alive" {
		t.Errorf("files: %q", got)
	}
}

func TestPutKeepsItsTempFileFromOthers(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	restart := readFunc(func([]byte) (int, error) {
		open(t, dir)
		return 0, io.EOF
	})
	if err := s.Put(t.Context(), "reports", id, io.MultiReader(strings.NewReader("bo"), restart, strings.NewReader("dy")), 4); err != nil {
		t.Errorf("put while another process starts: %v", err)
	}
}

func TestSymlinkDoesNotLeadOut(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s := open(t, dir)
	if err := os.MkdirAll(filepath.Join(outside, "01"), 0o700); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(outside, "01", id)
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "reports")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "reports", id, 0, 6); err == nil {
		t.Error("open followed the link")
	}
	if err := s.Put(t.Context(), "reports", "01other", strings.NewReader("body"), 4); err == nil {
		t.Error("put followed the link")
	}
	if err := s.Delete(t.Context(), "reports", id); err == nil {
		t.Error("delete followed the link")
	}
	if got := files(t, outside); len(got) != 1 {
		t.Errorf("files outside: %q", got)
	}
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("files beside the link: %q", got)
	}
}

func TestBucketsDoNotMeet(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	buckets := []string{"a", "A", "%41", ".a", "a.b", "ä", "a b", strings.Repeat("x", 255)}
	for _, b := range buckets {
		put(t, s, b, b)
	}
	folded := map[string]bool{}
	for _, f := range files(t, dir) {
		folded[strings.ToLower(f)] = true
	}
	if len(folded) != len(buckets) {
		t.Errorf("%d buckets have %d files: %v", len(buckets), len(folded), folded)
	}
	if err := s.Put(t.Context(), strings.Repeat("x", 256), id, strings.NewReader(""), 0); fence.CodeOf(err) != fence.CodeInvalidRequest {
		t.Errorf("put in a bucket whose name is too long: %v", err)
	}
}

func TestClosedStoreIsUnavailable(t *testing.T) {
	s := open(t, t.TempDir())
	s.Close()
	if err := s.Put(t.Context(), "reports", id, strings.NewReader(""), 0); fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Errorf("put: %v", err)
	}
	if _, err := s.Open(t.Context(), "reports", id, 0, 0); fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Errorf("open: %v", err)
	}
	if err := s.Delete(t.Context(), "reports", id); fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Errorf("delete: %v", err)
	}
}

func put(t *testing.T, s *dirstore.Store, bucket, body string) {
	t.Helper()
	if err := s.Put(t.Context(), bucket, id, strings.NewReader(body), int64(len(body))); err != nil {
		t.Fatalf("put in %q: %v", bucket, err)
	}
}

// files lists what lies below dir, in order.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return list
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
