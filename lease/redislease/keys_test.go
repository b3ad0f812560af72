package redislease_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/redislease"
)

// TestKeysExpire looks at every key at every step: none is without an expiry, all of a lease have one slot, and nothing
// is left.
func TestKeysExpire(t *testing.T) {
	url := testenv.RedisServer(t).URL()
	config := redislease.Config{Prefix: "fg"}
	a, b := listen(t, url, config), listen(t, url, config)
	_, client := open(t, url, config)
	for _, name := range []string{"}x", "{}", "a{b}c", "日本/ü"} {
		key := redislease.KeyOf(config, name)
		tag, ok := strings.CutPrefix(key, "fg:{")
		tag, closed := strings.CutSuffix(tag, "}")
		if !ok || !closed || tag == "" || strings.ContainsAny(tag, "{}") {
			t.Fatalf("%q: key %q has no hash tag of its own", name, key)
		}
		stands := func(when string, suffixes ...string) {
			t.Helper()
			keys := allKeys(t, client)
			if len(keys) != len(suffixes) {
				t.Fatalf("%s: keys %q, want %q", when, keys, suffixes)
			}
			for i, k := range keys {
				left := client.PTTL(t.Context(), k).Val()
				if k != key+suffixes[i] || left <= 0 || left > 2*time.Hour {
					t.Fatalf("%s: key %q expires in %v, want %q", when, k, left, key+suffixes[i])
				}
			}
		}
		enter(t, a, name, "a", 1)
		stands("taken", "")
		last := func() string { return client.HGet(t.Context(), key+":n", "last").Val() }
		enter(t, b, name, "b", 1)
		enter(t, b, name, "b2", 1)
		stands("queued", "", ":n", ":q")
		if err := client.Persist(t.Context(), key+":q").Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Stay(t.Context(), name, entry("b", 1)); err != nil {
			t.Fatal(err)
		}
		stands("renewed", "", ":n", ":q")
		drop(t, a, name, "a")
		stands("reserved", "", ":n", ":q")
		if got := last(); got != redislease.GatewayOf(b.Locker) {
			t.Fatalf("reserved for %q, want the gateway of b", got)
		}
		if client.HExists(t.Context(), key+":n", value("b").String()).Val() || !client.HExists(t.Context(), key+":n", value("b2").String()).Val() {
			t.Fatalf("notes of %q, want of b2 alone", client.HKeys(t.Context(), key+":n").Val())
		}
		if drop(t, b, name, "b2"); name == "{}" {
			stands("reserved, and nobody waits", "")
			drop(t, b, name, "b")
			continue
		}
		enter(t, b, name, "b2", 1)
		b.pushed(t, name, "b")
		if got := last(); got != "" {
			t.Fatalf("claimed, it is reserved for %q still", got)
		}
		drop(t, a, name, "b")
		stands("dropped by another gateway, and reserved again", "", ":n", ":q")
		drop(t, b, name, "b+")
		stands("given up, and reserved for the last one", "")
		drop(t, b, name, "b2")
		stands("dropped")
		if name != "}x" {
			continue
		}
		short := entry("b", 1)
		short.TTL = 100 * time.Millisecond
		if _, err := b.Enter(t.Context(), name, short); err != nil {
			t.Fatal(err)
		}
		enter(t, a, name, "a", 1)
		eventually(t, "everything expires", func() bool {
			got, err := b.Look(t.Context(), name, 1)
			if err != nil {
				t.Fatal(err)
			}
			return got.Value == (fence.Digest{})
		})
		stands("expired, and the reservation too")
	}
}

func TestGoneGatewayIsSkippedAtOnce(t *testing.T) {
	url, config := testenv.Redis(t), redislease.Config{Prefix: prefix(t)}
	a, gone, c := listen(t, url, config), listen(t, url, config), listen(t, url, config)
	take(t, a, "gone", "a")
	for _, who := range []string{"gone1", "gone2"} {
		enter(t, gone, "gone", who, 1)
	}
	enter(t, c, "gone", "c", 1)
	gone.leave()
	if got := drop(t, a, "gone", "a"); !got.Next {
		t.Fatalf("dropped %+v, want another next", got)
	}
	got, err := a.Look(t.Context(), "gone", 9)
	if err != nil || got.Value != value("c") || !got.Reserved || got.Entries != 0 || got.Remaining > lease.Window {
		t.Fatalf("%+v, %v; want it reserved for c and nobody waiting", got, err)
	}
}

// TestGoneGatewayGetsNothingBack drops, from elsewhere, the lease of a gateway that is gone: who waited behind it there is
// gone too.
func TestGoneGatewayGetsNothingBack(t *testing.T) {
	url, config := testenv.Redis(t), redislease.Config{Prefix: prefix(t)}
	gone, b := listen(t, url, config), listen(t, url, config)
	enter(t, gone, "gone", "gone", 2)
	gone.leave()
	enter(t, b, "gone", "b", 1)
	if got := drop(t, b, "gone", "gone"); got != (lease.Dropped{Had: true, Next: true}) {
		t.Fatalf("dropped %+v, want another next", got)
	}
	if got, err := b.Look(t.Context(), "gone", 0); err != nil || got.Value != value("b") {
		t.Fatalf("%+v, %v; want it reserved for b", got, err)
	}
}

// TestGoneQueueIsNobody enters a free lease before which only gateways stand that are gone.
func TestGoneQueueIsNobody(t *testing.T) {
	url, config := testenv.Redis(t), redislease.Config{Prefix: prefix(t)}
	a, gone := listen(t, url, config), listen(t, url, config)
	_, client := open(t, url, config)
	take(t, a, "nobody", "a")
	enter(t, gone, "nobody", "gone", 1)
	gone.leave()
	if err := client.Del(t.Context(), redislease.KeyOf(config, "nobody")).Err(); err != nil {
		t.Fatal(err)
	}
	take(t, a, "nobody", "b")
}

// TestRefusedReservationCostsNothing gives a reservation back through another gateway: its own one did not let it pass, and
// keeps its other entries.
func TestRefusedReservationCostsNothing(t *testing.T) {
	url, config := testenv.Redis(t), redislease.Config{Prefix: prefix(t)}
	a, b, c := listen(t, url, config), listen(t, url, config), listen(t, url, config)
	take(t, a, "refused", "a")
	enter(t, b, "refused", "b", 1)
	enter(t, b, "refused", "b2", 1)
	enter(t, c, "refused", "c", 1)
	if _, err := b.Stay(t.Context(), "refused", entry("b", 0)); err != nil {
		t.Fatal(err)
	}
	drop(t, a, "refused", "a")
	drop(t, a, "refused", "b")
	b.pushed(t, "refused", "b2")
}

// TestSlowGatewayKeepsItsPlaces lets a reservation pass whose gateway then looks by itself: it is not stopped, and its other
// entry is next.
func TestSlowGatewayKeepsItsPlaces(t *testing.T) {
	url, config := testenv.Redis(t), redislease.Config{Prefix: prefix(t)}
	a, slow, c := listen(t, url, config), listen(t, url, config), listen(t, url, config)
	take(t, a, "slow", "a")
	enter(t, slow, "slow", "slow1", 1)
	enter(t, slow, "slow", "slow2", 1)
	enter(t, c, "slow", "c", 1)
	drop(t, a, "slow", "a")
	eventually(t, "the reservation passes", func() bool {
		got, err := slow.Stay(t.Context(), "slow", entry("slow2", 1))
		if err != nil {
			t.Fatal(err)
		}
		return got.Value != value("slow1")
	})
	slow.pushed(t, "slow", "slow2")
	// Its old place is the first one still.
	drop(t, slow, "slow", "slow2")
	c.pushed(t, "slow", "c")
}

// TestFirstInLineTakesWhatIsFree comes back to its place when the lease has just become free: nobody need be asked.
func TestFirstInLineTakesWhatIsFree(t *testing.T) {
	url, config := testenv.Redis(t), redislease.Config{Prefix: prefix(t)}
	a, b, c := listen(t, url, config), listen(t, url, config), listen(t, url, config)
	_, client := open(t, url, config)
	for _, name := range []string{"in the queue", "back at its place"} {
		take(t, a, name, "a")
		e := entry("b", 1)
		e.Place = enter(t, b, name, "b", 1).Place
		enter(t, c, name, "c", 1)
		if name == "back at its place" {
			drop(t, b, name, "b")
		}
		if err := client.Del(t.Context(), redislease.KeyOf(config, name)).Err(); err != nil {
			t.Fatal(err)
		}
		got, err := b.Enter(t.Context(), name, e)
		if err != nil || got.Value != e.Value || got.Reserved || !got.Followed || got.Place != e.Place || got.Entries != 1 {
			t.Fatalf("%s: %+v, %v; want the lease, with c behind it", name, got, err)
		}
		drop(t, b, name, "b")
		c.pushed(t, name, "c")
	}
}

// TestFlushedWithoutAWord is the loss that nobody is told of: who waits finds it out by looking.
func TestFlushedWithoutAWord(t *testing.T) {
	url := testenv.RedisServer(t).URL()
	a, b := listen(t, url, redislease.Config{}), listen(t, url, redislease.Config{})
	_, client := open(t, url, redislease.Config{})
	take(t, a, "flushed", "a")
	e := entry("b", 1)
	e.Place = enter(t, b, "flushed", "b", 1).Place
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	got, err := b.Stay(t.Context(), "flushed", e)
	if err != nil || got.Value != (fence.Digest{}) || got.Place != 0 {
		t.Fatalf("stay: %+v, %v; want neither lease nor place", got, err)
	}
	got, err = b.Enter(t.Context(), "flushed", e)
	if err != nil || got.Value != e.Value || got.Reserved || got.Place != e.Place {
		t.Fatalf("enter: %+v, %v; want the lease", got, err)
	}
	if b.resyncs() != 1 {
		t.Fatalf("told Resync %d times: if it is told of this, the docs may say so", b.resyncs())
	}
}

func TestScriptsAreSentAgainAfterAFlush(t *testing.T) {
	l, client := open(t, testenv.RedisServer(t).URL(), redislease.Config{})
	for what, call := range calls(t, l) {
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := call(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}
