package localservers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSocketFolder(t *testing.T) {
	// Not below TMPDIR, which may be long itself.
	home, err := os.MkdirTemp("/tmp", "fg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	for name, tt := range map[string]struct {
		folder string
		below  bool
	}{
		"Short":        {"a", true},
		"Comma":        {"a,b", false},
		"Quote":        {`a"b`, false},
		"Long":         {strings.Repeat("a", maxSocketFolder), false},
		"LongTempDir":  {strings.Repeat("b", maxSocketFolder), false},
		"AwkwardSigns": {"a b+%", true},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(home, tt.folder)
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			if name == "LongTempDir" {
				t.Setenv("TMPDIR", folder)
			}
			got, err := socketFolder(folder, identity{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(got) })
			if below := filepath.Dir(got) == folder; below != tt.below || len(got) > maxSocketFolder {
				t.Errorf("got %s", got)
			}
			again, err := socketFolder(folder, identity{})
			if err != nil || again != got {
				t.Errorf("the second time: %s, %v", again, err)
			}
			info, err := os.Stat(got)
			if err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("mode: %v, %v", info.Mode(), err)
			}
		})
	}
}

// Somebody else can plant a link under a name that he can compute.
func TestSocketFolderRefusesALink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if err := ownFolder(link, identity{}); err == nil {
		t.Error("a link passes for a folder of ours")
	}
}
