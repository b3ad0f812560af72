package localservers

import (
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func TestEtcdKeepsItsDataAndItsAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startEtcdOn(t, dir)
	if _, err := etcdClient(t, e).Put(t.Context(), "lease", "worker-a"); err != nil {
		t.Fatal(err)
	}
	e.Kill()
	again := startEtcdOn(t, dir)
	defer stopProcess(t, again.Process)
	if again.URL() != e.URL() {
		t.Errorf("the URL changed from %s to %s", e.URL(), again.URL())
	}
	got, err := etcdClient(t, again).Get(t.Context(), "lease")
	if err != nil || got.Count != 1 || string(got.Kvs[0].Value) != "worker-a" {
		t.Errorf("it remembers %v, %v", got, err)
	}
}

func TestEtcdRefusesASecondServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startEtcdOn(t, dir)
	defer stopProcess(t, e.Process)
	if second, err := StartEtcd(t.Context(), EtcdConfig{Dir: dir}); err == nil {
		stopProcess(t, second.Process)
		t.Fatal("two servers on one folder")
	}
	if !e.healthy(t.Context()) {
		t.Error("the first server does not answer any more")
	}
}

func TestEtcdIgnoresSettingsOfAnother(t *testing.T) {
	t.Setenv("ETCD_LISTEN_METRICS_URLS", "no url")
	for _, v := range etcdEnvironment() {
		if strings.HasPrefix(v, "ETCD_") {
			t.Errorf("%s is passed on", v)
		}
	}
}

func startEtcdOn(t *testing.T, dir string) *Etcd {
	t.Helper()
	e, err := StartEtcd(t.Context(), EtcdConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func etcdClient(t *testing.T, e *Etcd) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.URL()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
