package redislease_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/redislease"
)

// TestForeignKeyHoldsTheLease finds in a lease's place what this package did not put there: it holds the lease, nobody
// extends or drops it, and it ends.
func TestForeignKeyHoldsTheLease(t *testing.T) {
	config := redislease.Config{Prefix: prefix(t)}
	l, client := open(t, testenv.Redis(t), config)
	ours := value("a").String()
	text := func(s string) func(string) error {
		return func(key string) error { return client.Set(t.Context(), key, s, 0).Err() }
	}
	for name, put := range map[string]func(key string) error{
		"Text":         text("maintenance"),
		"Empty":        text(""),
		"OldFormat":    text(ours + ":a"),
		"List":         func(key string) error { return client.RPush(t.Context(), key, "x").Err() },
		"Hash":         func(key string) error { return client.HSet(t.Context(), key, "value", ours).Err() },
		"NoGateway":    text(ours + "  h 0 0  a"),
		"OtherKind":    text(ours + " G x 0 0  a"),
		"NoWaiters":    text(ours + " G h  0  a"),
		"UpperCase":    text(strings.ToUpper(ours) + " G h 0 0  a"),
		"TooShort":     text(ours[:62] + " G h 5 0  a"),
		"TooLong":      text(ours + "00 G h 5 0  a"),
		"NoHex":        text(strings.Repeat("z", 64) + " G h 0 0  a"),
		"EmptyValue":   text(" G h 0 0  a"),
		"ForeignValue": text("foreign G h 0 0  a"),
	} {
		t.Run(name, func(t *testing.T) {
			key := redislease.KeyOf(config, name)
			if err := put(key); err != nil {
				t.Fatal(err)
			}
			held := func(what string, got lease.Standing, err error) {
				t.Helper()
				if err != nil || got.Value == (fence.Digest{}) || got.Value == value("a") || got.Holder != "unknown" || got.Reserved ||
					got.Remaining <= lease.MaxTTL-time.Minute || got.Remaining > lease.MaxTTL || got.Behind != 0 || got.Tenant != (fence.Digest{}) {
					t.Fatalf("%s: %+v, %v; want it held by something unknown for %v", what, got, err, lease.MaxTTL)
				}
			}
			got, err := l.Look(t.Context(), name, 1)
			held("look", got, err)
			first := got.Value
			got, err = l.Enter(t.Context(), name, entry("a", 1))
			held("enter", got, err)
			if got.Place == 0 || got.Value != first {
				t.Fatalf("enter: %+v, want a place behind the same", got)
			}
			got, err = l.Extend(t.Context(), name, extension("a"))
			held("extend", got, err)
			got, err = l.Stay(t.Context(), name, entry("a", 2))
			held("stay", got, err)
			if got := drop(t, l, name, "a"); got != (lease.Dropped{Had: true}) {
				t.Fatalf("dropped %+v, want its place", got)
			}
			if got := drop(t, l, name, "a"); got != (lease.Dropped{}) {
				t.Fatalf("dropped %+v", got)
			}
			if left := client.PTTL(t.Context(), key).Val(); left <= 0 || left > lease.MaxTTL {
				t.Fatalf("the key expires in %v", left)
			}
		})
	}
}

func TestNothingIsHeldForEver(t *testing.T) {
	config := redislease.Config{Prefix: prefix(t)}
	l, client := open(t, testenv.Redis(t), config)
	for name, spoil := range map[string]func(key string) error{
		"WithoutExpiry": func(key string) error { return client.Persist(t.Context(), key).Err() },
		"BeyondADay":    func(key string) error { return client.PExpire(t.Context(), key, 1000*time.Hour).Err() },
	} {
		for what, ask := range map[string]func() (lease.Standing, error){
			"enter":            func() (lease.Standing, error) { return l.Enter(t.Context(), name, entry("a", 0)) },
			"enter by another": func() (lease.Standing, error) { return l.Enter(t.Context(), name, entry("b", 0)) },
			"stay":             func() (lease.Standing, error) { return l.Stay(t.Context(), name, entry("a", 0)) },
			"look":             func() (lease.Standing, error) { return l.Look(t.Context(), name, 0) },
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				take(t, l, name, "a")
				if err := spoil(redislease.KeyOf(config, name)); err != nil {
					t.Fatal(err)
				}
				got, err := ask()
				if err != nil || got.Value != value("a") || got.Remaining != lease.MaxTTL {
					t.Fatalf("%+v, %v; want it held for %v", got, err, lease.MaxTTL)
				}
				if left := client.PTTL(t.Context(), redislease.KeyOf(config, name)).Val(); left <= 0 || left > lease.MaxTTL {
					t.Fatalf("the key expires in %v", left)
				}
				drop(t, l, name, "a")
			})
		}
	}
}

// TestForeignQueueIsRemoved finds something else in place of a queue, of its notes, or in them: waiting goes on.
func TestForeignQueueIsRemoved(t *testing.T) {
	url, config := testenv.Redis(t), redislease.Config{Prefix: prefix(t)}
	a, b := listen(t, url, config), listen(t, url, config)
	_, client := open(t, url, config)
	set := func(suffix string) func(string) error {
		return func(key string) error { return client.Set(t.Context(), key+suffix, "x", 0).Err() }
	}
	for name, spoil := range map[string]func(key string) error{
		"Queue":        set(":q"),
		"Notes":        set(":n"),
		"NoNotes":      func(key string) error { return client.Del(t.Context(), key+":n").Err() },
		"LastIsNobody": func(key string) error { return client.HSet(t.Context(), key+":n", "last", "x y").Err() },
		"Note":         func(key string) error { return client.HSet(t.Context(), key+":n", value("b").String(), "x").Err() },
		"Members": func(key string) error {
			for i, member := range []string{"", ":", "x", value("x").String(), value("x").String() + ":", value("x").String() + ":" + "a b", strings.Repeat("x", 70)} {
				if err := client.ZAdd(t.Context(), key+":q", redis.Z{Score: float64(i), Member: member}).Err(); err != nil {
					return err
				}
			}
			return client.ZAdd(t.Context(), key+":q", redis.Z{Score: 2e15, Member: "last"}).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			take(t, a, name, "a")
			if err := client.Set(t.Context(), redislease.KeyOf(config, name)+":n", "before anybody waits", 0).Err(); err != nil {
				t.Fatal(err)
			}
			e := entry("b", 1)
			e.Place = enter(t, b, name, "b", 1).Place
			if err := spoil(redislease.KeyOf(config, name)); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Look(t.Context(), name, 99); err != nil {
				t.Fatal(err)
			}
			if got, err := b.Enter(t.Context(), name, e); err != nil || got.Place != e.Place {
				t.Fatalf("%+v, %v; want place %d", got, err, e.Place)
			}
			if got := drop(t, a, name, "a"); got != (lease.Dropped{Had: true, Next: true}) {
				t.Fatalf("dropped %+v, want b next", got)
			}
			b.pushed(t, name, "b")
			drop(t, b, name, "b")
			if got, err := a.Look(t.Context(), name, 99); err != nil || got.Value != (fence.Digest{}) || got.Entries != 0 {
				t.Fatalf("%+v, %v; want nothing left", got, err)
			}
		})
	}
}
