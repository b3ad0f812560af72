package testenv

import (
	"os"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/internal/localservers"
)

// Etcd returns the URL of the test binary's etcd. Tests share it: each keeps to a prefix of its own.
func Etcd(t testing.TB) string {
	t.Helper()
	url, err := mustShared(t).etcdServer()
	if err != nil {
		t.Fatalf("testenv: etcd: %v", err)
	}
	return url
}

// EtcdServer starts an etcd of the test's own, for tests that pause, kill or configure it.
func EtcdServer(t testing.TB) *localservers.Etcd {
	t.Helper()
	e, err := localservers.StartEtcd(t.Context(), localservers.EtcdConfig{Dir: QuickDir(t)})
	if err != nil {
		t.Fatalf("testenv: etcd: %v", err)
	}
	stopAfter(t, e)
	return e
}

// QuickDir makes a folder for the data of a server that waits for the disk with each write and cannot be told otherwise. It
// survives the server, and not the machine. It is removed when the test ends.
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
