package testenv

import (
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
