package etcdlease

import (
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	digest := rapid.Custom(func(t *rapid.T) fence.Digest { return fence.DigestOf(rapid.String().Draw(t, "digest")) })
	ttl := rapid.Map(rapid.Int64Range(1, lease.MaxTTL.Milliseconds()), func(n int64) time.Duration { return time.Duration(n) * time.Millisecond })
	rapid.Check(t, func(t *rapid.T) {
		h := held{
			value: digest.Draw(t, "value"), gateway: "G", holder: rapid.String().Draw(t, "holder"), reserved: rapid.Bool().Draw(t, "reserved"),
			ttl: ttl.Draw(t, "ttl"), stamp: rapid.Int64().Draw(t, "stamp"), waiters: rapid.IntRange(0, 1e6).Draw(t, "waiters"),
		}
		if rapid.Bool().Draw(t, "extended") {
			h.tenant, h.renewed = digest.Draw(t, "tenant"), ttl.Draw(t, "renewed")
		}
		if got := parseHeld(&mvccpb.KeyValue{Value: []byte(h.String())}); got != h {
			t.Fatalf("%+v was written, %+v read", h, got)
		}
		s := stand{place: rapid.Int64Range(1, 1<<62).Draw(t, "place"), value: h.value, gateway: h.gateway}
		if got, ok := parseStand(s.String()); !ok || got != s {
			t.Fatalf("%+v was written, %+v read", s, got)
		}
		// The order of keys is that of places.
		if behind := (stand{place: s.place + 1, value: digest.Draw(t, "other")}); s.String() >= behind.String() {
			t.Fatalf("%s does not stand before %s", s, behind)
		}
	})
}

func FuzzRecord(f *testing.F) {
	h := held{value: fence.DigestOf("v"), gateway: "g", holder: "h", ttl: time.Minute, stamp: 1}
	f.Add(h.String())
	f.Add(stand{place: 2, value: h.value, gateway: "g"}.String())
	f.Fuzz(func(t *testing.T, text string) {
		kv := &mvccpb.KeyValue{Key: []byte("queue/" + text), Value: []byte(text), ModRevision: 3}
		got := parseHeld(kv)
		if got.ttl < time.Millisecond || got.ttl > lease.MaxTTL || got.renewed < 0 || got.renewed > lease.MaxTTL || got.waiters < 0 {
			t.Fatalf("%q is %+v", text, got)
		}
		if got.holder != unknownHolder && got != parseHeld(&mvccpb.KeyValue{Value: []byte(got.String())}) {
			t.Fatalf("%q is %+v, which is written as %s", text, got, got)
		}
		parseEntry(kv)
		if where, ok := standOf(kv); ok && where.String() != text {
			t.Fatalf("%q stands at %+v", text, where)
		}
	})
}

// An etcd lease outlives every record that is hung on it, and not by more than is promised.
func TestBackstopsLastLongEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ttl := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(lease.MaxTTL)).Draw(t, "ttl"))
		class := class(ttl)
		granted, spare := time.Duration(class+spare(class))*time.Second, time.Duration(spare(class))*time.Second
		age := time.Duration(rapid.Int64Range(0, int64(2*spare)).Draw(t, "age"))
		began := time.Now().Add(-age)
		b := backstop{1, began, began.Round(0)}
		if usable := b.usable(class); usable && granted-age < ttl || !usable && age < spare-time.Second/10 {
			t.Fatalf("for a ttl of %v, one of %v is usable after %v: %v", ttl, granted, age, usable)
		}
		if late := granted - ttl; late > ttl/4+3*time.Second {
			t.Fatalf("a record that runs for %v is kept for %v", ttl, granted)
		}
	})
	now := time.Now()
	for _, b := range []backstop{{1, now, now.Round(0).Add(-time.Minute)}, {1, now.Add(-time.Minute), now.Round(0)}} {
		if b.usable(8) {
			t.Errorf("%+v is usable, which ended while the machine slept, or before its clock was set back", b)
		}
	}
	if (backstop{}).usable(8) {
		t.Error("none is usable")
	}
}

// A store that lost its data may come to the same revision again, a sighting not to the same record.
func TestSightings(t *testing.T) {
	s, err := newSightings()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.left("a", 1); ok {
		t.Error("it was seen already")
	}
	first := s.add("a", 1, time.Minute)
	if again := s.add("a", 1, time.Hour); first > time.Minute || again > first {
		t.Errorf("seen again it runs for %v, at first for %v", again, first)
	}
	if shorter := s.add("a", 1, time.Second); shorter > time.Second {
		t.Errorf("it runs for %v, known to end in a second", shorter)
	}
	if _, ok := s.left("a", 2); ok {
		t.Error("another record was seen already")
	}
	if anew := s.add("a", 2, time.Hour); anew < time.Minute {
		t.Errorf("another record runs for %v", anew)
	}
	if s.forget("a"); s.of.Len() != 0 {
		t.Error("it is remembered")
	}
}
