package testenv

import (
	"os"
	"syscall"
	"testing"
)

// QuickDir makes a folder in memory, if there is enough, for the data of a server: a database's files are made and removed in
// a fraction of the time that a disk takes. What is in it survives the server, and not the machine. It is removed when the
// test ends.
func QuickDir(t testing.TB) string {
	t.Helper()
	dir, err := quickDir()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("testenv: %v", err)
		}
	})
	return dir
}

func quickDir() (string, error) {
	const memory, enough = "/dev/shm", 1 << 30
	var fs syscall.Statfs_t
	if syscall.Statfs(memory, &fs) == nil && fs.Bavail*uint64(fs.Bsize) > enough {
		if dir, err := os.MkdirTemp(memory, "fencegate-test-"); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp("", "fencegate-test-")
}
