package etcdlease_test

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/etcdlease"
)

func TestOpenWithAPassword(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	client := connect(t, server.URL())
	for _, err := range []error{
		second(client.UserAdd(t.Context(), "root", "r")),
		second(client.UserGrantRole(t.Context(), "root", "root")),
		second(client.RoleAdd(t.Context(), "gateway")),
		second(client.RoleGrantPermission(t.Context(), "gateway", "fencegate/", "fencegate0", 2)),
		second(client.UserAdd(t.Context(), "gate", "p@ss")),
		second(client.UserGrantRole(t.Context(), "gate", "gateway")),
		second(client.AuthEnable(t.Context())),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	url := func(password string) string { return "etcd://gate:" + password + "@" + server.Address() }
	wrong := open(t, url("secret"), patient(""))
	_, err := wrong.Look(t.Context(), "a", 0)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("with a wrong password: %v", err)
	}
	// It begins while the server is down.
	server.Kill()
	late := open(t, url("p%40ss"), patient(""))
	unavailable(t, open(t, url("p%40ss"), etcdlease.Config{CallTimeout: 300 * time.Millisecond}), "a", 3*time.Second)
	g := begin(t, late)
	server.start(t)
	eventually(t, "it listens", func() bool { return g.resyncs() > 0 })
	// All that it does is allowed below its prefix, and nothing elsewhere.
	enter(t, late, "a", entry("a", 1, time.Hour))
	if got := enter(t, late, "a", entry("b", 1, time.Hour)); got.Place == 0 {
		t.Errorf("it stands %+v, want a place", got)
	}
	if _, err := late.Drop(t.Context(), "a", value("a")); err != nil {
		t.Error(err)
	}
	g.told(t, lease.Pushed, "a", "b")
	g.leave()
	unavailable(t, open(t, url("p%40ss"), patient("other")), "a", patience)
}

func second[T any](_ T, err error) error { return err }

func TestOpenWithTLS(t *testing.T) {
	t.Parallel()
	etcd := strings.TrimPrefix(testenv.EtcdServer(t).URL(), "http://")
	// Its certificate is for 127.0.0.1 and its own authority.
	https := httptest.NewTLSServer(nil)
	defer https.Close()
	way := newLink(t, etcd, func(l net.Listener) net.Listener {
		return tls.NewListener(l, &tls.Config{Certificates: https.TLS.Certificates, NextProtos: []string{"h2"}})
	})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"etcds", "https"} {
		l := open(t, scheme+"://"+way.address()+"?ca="+ca, patient(prefix(t)))
		holds(t, enter(t, l, "a", entry("a", 0, time.Hour)), "a")
		listen(t, l)
	}
	unavailable(t, open(t, "etcds://"+way.address(), etcdlease.Config{CallTimeout: 500 * time.Millisecond}), "a", time.Second)
	if _, err := etcdlease.Open("etcds://a?ca="+filepath.Join(t.TempDir(), "none"), etcdlease.Config{}); err == nil {
		t.Error("a file that is not there is taken")
	}
}
