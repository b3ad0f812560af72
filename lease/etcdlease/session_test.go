package etcdlease_test

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/etcdlease"
)

// The session of a process that was stopped for long is gone when it wakes up.
func TestSessionThatIsLost(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	a, b := listen(t, open(t, server.URL(), patient(""))), listen(t, open(t, server.URL(), patient("")))
	enter(t, a, "session", entry("a", 0, time.Hour))
	stood := enter(t, b, "session", entry("b", 1, time.Hour))
	enter(t, a, "session", entry("c", 1, time.Hour))
	before := b.resyncs()
	client := connect(t, server.URL())
	gateways, err := client.Get(t.Context(), "fencegate/gateways/", clientv3.WithPrefix())
	if err != nil || len(gateways.Kvs) != 2 {
		t.Fatalf("%d gateways, %v", len(gateways.Kvs), err)
	}
	for _, kv := range gateways.Kvs {
		if _, err := client.Revoke(t.Context(), clientv3.LeaseID(kv.Lease)); err != nil {
			t.Fatal(err)
		}
	}
	if got := look(t, a, "session"); got.Entries != 0 {
		t.Fatalf("it stands %+v, want nobody in the queue", got)
	}
	eventually(t, "it looks again", func() bool { return b.resyncs() > before })
	e := entry("c", 1, time.Hour)
	enter(t, a, "session", e)
	e = entry("b", 1, time.Hour)
	e.Place = stood.Place
	if got := enter(t, b, "session", e); got.Place != stood.Place || !got.Followed {
		t.Errorf("it stands %+v, want its place %d before c", got, stood.Place)
	}
	a.Drop(t.Context(), "session", value("a"))
	b.told(t, lease.Pushed, "session", "b")
}

// An entry outlives the session under which it was made if it is entered again.
func TestEntryMovesToTheNextSession(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	l := open(t, server.URL(), patient(""))
	enter(t, l, "moves", entry("a", 0, time.Hour))
	place := enter(t, l, "moves", entry("b", 1, time.Hour)).Place
	client := connect(t, server.URL())
	old, err := client.Get(t.Context(), "fencegate/gateways/", clientv3.WithPrefix())
	if err != nil || len(old.Kvs) != 1 {
		t.Fatalf("%v, %v", old, err)
	}
	etcdlease.ForgetSession(l)
	if got := enter(t, l, "moves", entry("b", 1, time.Hour)); got.Place != place {
		t.Fatalf("it stands %+v, want place %d", got, place)
	}
	if _, err := client.Revoke(t.Context(), clientv3.LeaseID(old.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
	if got := look(t, l, "moves"); got.Entries != 1 {
		t.Errorf("it stands %+v, want b in the queue still", got)
	}
	if got, err := l.Stay(t.Context(), "moves", entry("b", 1, time.Hour)); err != nil || got.Place != place {
		t.Errorf("it stands %+v, %v; want place %d", got, err, place)
	}
}

// A gateway that claims nothing loses its entries, and is told to look.
func TestIdleGatewayIsToldToLook(t *testing.T) {
	t.Parallel()
	config := patient(prefix(t))
	a, idle := listen(t, open(t, testenv.Etcd(t), config)), listen(t, open(t, testenv.Etcd(t), config))
	enter(t, a, "idle", entry("a", 0, time.Hour))
	enter(t, idle, "idle", entry("b", 1, time.Hour))
	// More than one transaction holds.
	etcdlease.Fill(t, idle.Locker, "idle", 150)
	before := idle.resyncs()
	a.Drop(t.Context(), "idle", value("a"))
	eventually(t, "its entries are forgotten", func() bool { return look(t, a, "idle").Entries == 0 })
	eventually(t, "it is told", func() bool { return idle.resyncs() > before })
	if got := look(t, a, "idle"); got.Value == value("b") {
		t.Errorf("it stands %+v, want it free", got)
	}
}

func TestListensOnce(t *testing.T) {
	t.Parallel()
	l := open(t, testenv.Etcd(t), patient(prefix(t)))
	g := listen(t, l)
	if err := l.Listen(t.Context(), func(lease.Signal) {}); err == nil {
		t.Error("it listens twice")
	}
	g.leave()
	listen(t, l).leave()
	l.Close()
	if err := l.Listen(t.Context(), func(lease.Signal) {}); err == nil {
		t.Error("it listens though it is closed")
	}
	unavailable(t, l, "closed", time.Second)
}

// Who stops listening is gone at once.
func TestGatewayThatLeft(t *testing.T) {
	t.Parallel()
	config := patient(prefix(t))
	a, b, c := listen(t, open(t, testenv.Etcd(t), config)), listen(t, open(t, testenv.Etcd(t), config)), open(t, testenv.Etcd(t), config)
	enter(t, a, "left", entry("a", 1, time.Hour))
	enter(t, b, "left", entry("b", 1, time.Hour))
	enter(t, c, "left", entry("c", 1, time.Hour))
	b.leave()
	if got := look(t, c, "left"); got.Entries != 1 {
		t.Errorf("it stands %+v, want c alone in the queue", got)
	}
	// Nobody is left in whose name a lease could be kept for those behind it.
	a.leave()
	if got, err := c.Drop(t.Context(), "left", value("a")); err != nil || got != (lease.Dropped{Had: true, Next: true}) {
		t.Fatalf("dropped %+v, %v", got, err)
	}
	if got := look(t, c, "left"); got.Value != value("c") || !got.Reserved {
		t.Errorf("it stands %+v, want it reserved for c", got)
	}
}
