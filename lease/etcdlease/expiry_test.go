package etcdlease_test

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/etcdlease"
)

// Whoever sees a lease for the first time does not know how old it is: he asks when it will be removed.
func TestRemainingOfALeaseThatIsSeenLate(t *testing.T) {
	t.Parallel()
	url := testenv.Etcd(t)
	config := etcdlease.Config{Prefix: prefix(t)}
	client := connect(t, url)
	enter(t, open(t, url, config), "old", entry("a", 0, time.Hour))
	key := etcdlease.HeldKey(config, "old")
	record, err := client.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := client.Grant(t.Context(), 20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), key, string(record.Kvs[0].Value), clientv3.WithLease(ends.ID)); err != nil {
		t.Fatal(err)
	}
	got := look(t, open(t, url, config), "old")
	holds(t, got, "a")
	if got.Remaining < 15*time.Second || got.Remaining > 21*time.Second {
		t.Errorf("%v remain, want 20s", got.Remaining)
	}
}

// An extension is seen by those who counted how long the lease ran before.
func TestExtensionCountsAnew(t *testing.T) {
	t.Parallel()
	config := etcdlease.Config{Prefix: prefix(t)}
	a, b := open(t, testenv.Etcd(t), config), open(t, testenv.Etcd(t), config)
	const ttl = 400 * time.Millisecond
	enter(t, a, "extended", entry("a", 1, ttl))
	holds(t, look(t, b, "extended"), "a")
	began := time.Now()
	for time.Since(began) < 3*ttl {
		if got, err := a.Extend(t.Context(), "extended", lease.Extension{Value: value("a"), TTL: ttl}); err != nil || got.Value != value("a") {
			t.Fatalf("it stands %+v, %v", got, err)
		}
		// A note is no extension.
		for i := range 2 {
			a.Stay(t.Context(), "extended", entry("a", i+1, ttl))
		}
		holds(t, enter(t, b, "extended", entry("b", 0, ttl)), "a")
		<-time.After(ttl / 4)
	}
	noted := 0
	began = time.Now()
	eventually(t, "it ends", func() bool {
		noted++
		a.Stay(t.Context(), "extended", entry("a", noted%2+1, ttl))
		return enter(t, b, "extended", entry("b", 0, ttl)).Value == value("b")
	})
	if took := time.Since(began); took > 2*ttl {
		t.Errorf("with new notes it ran for %v, want %v", took, ttl)
	}
}

// Nobody looks at the lease again: etcd removes it, and what was kept of signals.
func TestNothingStaysThatNobodyLooksAt(t *testing.T) {
	t.Parallel()
	url := testenv.Etcd(t)
	config := etcdlease.Config{Prefix: prefix(t)}
	a, b := open(t, url, config), open(t, url, config)
	enter(t, a, "forgotten", entry("a", 0, 100*time.Millisecond))
	enter(t, b, "forgotten", entry("b", 1, 100*time.Millisecond))
	enter(t, a, "forgotten", entry("c", 1, 100*time.Millisecond))
	if len(etcdlease.Leftovers(t, url, config, "forgotten")) < 6 {
		t.Fatalf("the lease and its queue are nowhere to be found")
	}
	client := connect(t, url)
	// Nobody listened either: the gateways are gone, too, as if they had died.
	eventually(t, "all is gone", func() bool {
		all, err := client.Get(t.Context(), config.Prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && all.Count == 0
	})
}

func TestGatewayThatDied(t *testing.T) {
	t.Parallel()
	url := testenv.Etcd(t)
	config := etcdlease.Config{Prefix: prefix(t)}
	a, c := listen(t, open(t, url, config)), listen(t, open(t, url, config))
	dead := open(t, url, config)
	enter(t, a, "died", entry("a", 0, time.Hour))
	enter(t, dead, "died", entry("dead", 1, time.Hour))
	enter(t, dead, "died", entry("dead too", 1, time.Hour))
	enter(t, c, "died", entry("c", 1, time.Hour))
	enter(t, dead, "died", entry("last", 1, time.Hour))
	dead.Close()
	began := time.Now()
	a.Drop(t.Context(), "died", value("a"))
	eventually(t, "it goes on", func() bool {
		got, err := c.Stay(t.Context(), "died", entry("c", 1, time.Hour))
		return err == nil && got.Value == value("c")
	})
	if took := time.Since(began); took > 4*lease.Window {
		t.Errorf("a dead gateway cost %v", took)
	}
	if got := look(t, a, "died"); got.Entries != 0 {
		t.Errorf("it stands %+v, want the dead forgotten", got)
	}
}
