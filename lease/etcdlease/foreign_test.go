package etcdlease_test

import (
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/etcdlease"
)

// What an operator writes in a lease's place holds it, with a value that nobody made, and not for ever.
func TestForeignRecords(t *testing.T) {
	t.Parallel()
	url := testenv.Etcd(t)
	config := patient(prefix(t))
	client := connect(t, url)
	ours := etcdlease.Record(value("b"))
	for name, text := range map[string]string{
		"Empty":       "",
		"Words":       "mine",
		"OtherJSON":   `{"a":1}`,
		"NoTTL":       `{"value":"` + value("b").String() + `","gateway":"g","ttl_ms":0}`,
		"LongTTL":     `{"value":"` + value("b").String() + `","gateway":"g","ttl_ms":86400001}`,
		"HalfADigest": `{"value":"` + value("b").String()[:32] + `","gateway":"g","ttl_ms":1000}`,
		"Binary":      "\x00\xff",
		"Cut":         ours[:len(ours)-1],
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, url, config)
			key := etcdlease.HeldKey(config, name)
			if _, err := client.Put(t.Context(), key, text); err != nil {
				t.Fatal(err)
			}
			want := lease.Standing{Value: fence.DigestOf("foreign", text), Holder: "unknown"}
			for _, got := range []lease.Standing{look(t, l, name), enter(t, l, name, entry("b", 0, time.Hour))} {
				if got.Remaining < lease.MaxTTL-time.Minute || got.Remaining > lease.MaxTTL {
					t.Errorf("%v remain, want %v", got.Remaining, lease.MaxTTL)
				}
				if got.Remaining = 0; got.Value != want.Value || got.Holder != want.Holder || got.Reserved || got.Behind != 0 {
					t.Errorf("it stands %+v, want %+v", got, want)
				}
			}
			if got, err := l.Drop(t.Context(), name, value("b")); err != nil || got.Had {
				t.Errorf("dropped %+v, %v", got, err)
			}
			kept, err := client.Get(t.Context(), key)
			if err != nil || len(kept.Kvs) != 1 || string(kept.Kvs[0].Value) != text || kept.Kvs[0].Lease == 0 {
				t.Errorf("%v, %v is kept; want it as it was, but not for ever", kept, err)
			}
			if _, err := client.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			holds(t, enter(t, l, name, entry("b", 0, time.Hour)), "b")
		})
	}
}

func TestForeignEntries(t *testing.T) {
	t.Parallel()
	url := testenv.Etcd(t)
	config := patient(prefix(t))
	client := connect(t, url)
	a, b := listen(t, open(t, url, config)), listen(t, open(t, url, config))
	put := func(key, text string) {
		t.Helper()
		if _, err := client.Put(t.Context(), key, text); err != nil {
			t.Fatal(err)
		}
	}
	const name = "entries"
	enter(t, a, name, entry("a", 0, time.Hour))
	// Nobody's, and before all that are somebody's.
	put(etcdlease.QueueKey(config, name)+"!", "mine")
	put(etcdlease.QueueKey(config, name)+"00000000000000000001-ff-gateway", "{}")
	// Where a value stands is told wrongly.
	put(etcdlease.EntryKey(config, name, value("b")), "00000000000000000007-"+value("b").String()+"-gateway")
	if got := enter(t, b, name, entry("b", 1, time.Hour)); got.Place <= 7 || got.Followed {
		t.Fatalf("it stands %+v, want the last place", got)
	}
	if got := look(t, a, name); got.Entries != 3 || len(got.Queue) != 3 {
		t.Errorf("it stands %+v, want 3 entries", got)
	}
	a.Drop(t.Context(), name, value("a"))
	eventually(t, "it is handed to one that is there", func() bool {
		got, err := b.Stay(t.Context(), name, entry("b", 1, time.Hour))
		return err == nil && got.Value == value("b")
	})
	b.told(t, lease.Pushed, name, "b")
	// A signal that says nothing is passed over.
	put(etcdlease.SignalKey(config, b.Locker, "nonsense"), "x")
	put(etcdlease.SignalKey(config, b.Locker, "pushed/%%%"), value("b").String())
	hears(t, a, b, "later")
}

func TestPrefixesDoNotMeet(t *testing.T) {
	t.Parallel()
	url, common := testenv.Etcd(t), prefix(t)
	for _, p := range []string{common, common + "1", common + "/leases", common + "/leases/YQ"} {
		l := listen(t, open(t, url, patient(p)))
		holds(t, enter(t, l, "a", entry(p, 0, time.Hour)), p)
		enter(t, l, "a", entry("waits", 1, time.Hour))
		if got := look(t, l, "a"); got.Entries != 1 {
			t.Errorf("%s: it stands %+v, want one entry", p, got)
		}
	}
}
