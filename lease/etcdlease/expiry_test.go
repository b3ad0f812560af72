package etcdlease_test

import (
	"fmt"
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
	config := patient(prefix(t))
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

// An extension is seen by those who counted how long the lease ran before, and a note is no extension.
func TestExtensionCountsAnew(t *testing.T) {
	t.Parallel()
	config := patient(prefix(t))
	a, b := open(t, testenv.Etcd(t), config), open(t, testenv.Etcd(t), config)
	const ttl = 600 * time.Millisecond
	for try := 0; !outlasts(t, a, b, fmt.Sprint("extended", try), ttl); try++ {
		if try == 5 {
			t.Fatalf("this machine cannot extend a lease within %v", ttl)
		}
	}
	enter(t, a, "noted", entry("a", 1, time.Hour))
	left := look(t, b, "noted").Remaining
	<-time.After(10 * time.Millisecond)
	if got, err := a.Stay(t.Context(), "noted", entry("a", 2, time.Hour)); err != nil || got.Behind != 2 {
		t.Fatalf("it stands %+v, %v", got, err)
	}
	if got := look(t, b, "noted"); got.Behind != 2 || got.Remaining > left-10*time.Millisecond {
		t.Errorf("it stands %+v, want less than %v left, and 2 behind it", got, left)
	}
}

// outlasts extends a lease for thrice its ttl under the eyes of another. It reports false when it was too late for that.
func outlasts(t *testing.T, a, b lease.Locker, name string, ttl time.Duration) bool {
	t.Helper()
	last := time.Now()
	enter(t, a, name, entry("a", 1, ttl))
	for began := time.Now(); time.Since(began) < 3*ttl; {
		<-time.After(ttl / 4)
		now := time.Now()
		extended, err := a.Extend(t.Context(), name, lease.Extension{Value: value("a"), TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		seen := enter(t, b, name, entry("b", 0, ttl))
		if time.Since(last) > ttl*9/10 {
			return false
		}
		holds(t, extended, "a")
		holds(t, seen, "a")
		last = now
	}
	return true
}

// Nobody looks at the lease again: etcd removes it, and what was kept of signals.
func TestNothingStaysThatNobodyLooksAt(t *testing.T) {
	t.Parallel()
	url := testenv.Etcd(t)
	config := patient(prefix(t))
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
	config := patient(prefix(t))
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
