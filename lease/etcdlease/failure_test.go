package etcdlease_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/etcdlease"
)

func TestHungServerIsUnavailableInTime(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	const timeout = time.Second
	g := listen(t, open(t, server.URL(), etcdlease.Config{CallTimeout: timeout}))
	enter(t, g, "hung", entry("a", 0, time.Hour))
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	defer server.Resume()
	// A signal takes a moment to arrive.
	eventually(t, "it hangs", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), timeout/10)
		defer cancel()
		_, err := g.Look(ctx, "hung", 0)
		return err != nil
	})
	unavailable(t, g, "hung", timeout+time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), timeout/3)
	defer cancel()
	began := time.Now()
	if _, err := g.Look(ctx, "hung", 0); fence.CodeOf(err) != fence.CodeUnavailable || time.Since(began) > timeout {
		t.Errorf("a deadline of %v: %v after %v", timeout/3, err, time.Since(began))
	}
	began = time.Now()
	g.leave()
	if took := time.Since(began); took > timeout+time.Second {
		t.Errorf("it stopped listening after %v", took)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "available again", func() bool { _, err := g.Look(t.Context(), "hung", 0); return err == nil })
	holds(t, look(t, g, "hung"), "a")
}

func TestRestartUnderThoseThatWait(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	a, b := listen(t, open(t, server.URL(), patient(""))), listen(t, open(t, server.URL(), patient("")))
	enter(t, a, "lasts", entry("a", 0, time.Hour))
	enter(t, a, "ends", entry("a", 0, 300*time.Millisecond))
	for _, name := range []string{"lasts", "ends"} {
		if got := enter(t, b, name, entry("b", 1, time.Hour)); got.Place == 0 {
			t.Fatalf("it stands %+v, want a place", got)
		}
	}
	hasty := open(t, server.URL(), etcdlease.Config{CallTimeout: 300 * time.Millisecond})
	before := b.resyncs()
	server.Kill()
	unavailable(t, hasty, "lasts", 2*time.Second)
	// Who begins to listen now is told when there is something to listen to.
	late := begin(t, open(t, server.URL(), patient("")))
	server.start(t)
	eventually(t, "those that wait look again", func() bool { return b.resyncs() > before && late.resyncs() > 0 })

	holds(t, look(t, b, "lasts"), "a")
	if got := look(t, a, "lasts"); got.Entries != 1 {
		t.Errorf("it stands %+v, want b in the queue still", got)
	}
	if got, err := a.Drop(t.Context(), "lasts", value("a")); err != nil || got != (lease.Dropped{Had: true, Next: true}) {
		t.Fatalf("dropped %+v, %v", got, err)
	}
	b.told(t, lease.Pushed, "lasts", "b")
	eventually(t, "what ended meanwhile is handed on", func() bool {
		got, err := b.Stay(t.Context(), "ends", entry("b", 1, time.Hour))
		return err == nil && got.Value == value("b") && got.Reserved
	})
	b.told(t, lease.Pushed, "ends", "b")
}

// A store that begins anew has lower revisions than those that were watched last.
func TestServerThatLostItsData(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	a, b := listen(t, open(t, server.URL(), patient(""))), listen(t, open(t, server.URL(), patient("")))
	for range 30 {
		enter(t, a, "lost", entry("a", 0, time.Hour))
		a.Drop(t.Context(), "lost", value("a"))
	}
	enter(t, a, "lost", entry("a", 0, time.Hour))
	enter(t, b, "lost", entry("b", 1, time.Hour))
	before := b.resyncs()
	server.Kill()
	if err := os.RemoveAll(filepath.Join(server.dir, "data")); err != nil {
		t.Fatal(err)
	}
	server.start(t)
	eventually(t, "those that wait look again", func() bool { return b.resyncs() > before })
	if got := enter(t, b, "lost", entry("b", 1, time.Hour)); got.Value != value("b") {
		t.Fatalf("it stands %+v, want it taken", got)
	}
	hears(t, a, b, "later")
}

// hears waits until a gateway is told when another drops a lease for which it waits.
func hears(t *testing.T, a, b *gateway, name string) {
	t.Helper()
	eventually(t, "it hears again", func() bool {
		if enter(t, a, name, entry("a", 0, time.Hour)); enter(t, b, name, entry("b", 1, time.Hour)).Place > 0 {
			a.Drop(t.Context(), name, value("a"))
		}
		b.Drop(t.Context(), name, value("b"))
		return b.count(lease.Signal{Kind: lease.Pushed, Name: name, Value: value("b")}) > 0
	})
}

func TestSignalsSurviveACut(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	way := newLink(t, server.Address(), nil)
	a, b := listen(t, open(t, server.URL(), patient(""))), listen(t, open(t, "etcd://"+way.address(), patient("")))
	push := func(name string) {
		t.Helper()
		enter(t, a, name, entry("a", 0, time.Hour))
		enter(t, b, name, entry("b", 1, time.Hour))
		way.cut()
		if got, err := a.Drop(t.Context(), name, value("a")); err != nil || !got.Next {
			t.Fatalf("dropped %+v, %v", got, err)
		}
	}
	push("cut")
	before := b.resyncs()
	way.mend()
	b.told(t, lease.Pushed, "cut", "b")
	eventually(t, "it was told of the cut", func() bool { return b.resyncs() > before })

	// What it would have heard is not there any more: it looks again, and hears what comes then.
	push("compacted")
	client := connect(t, server.URL())
	now, err := client.Put(t.Context(), "revision", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	before = b.resyncs()
	way.mend()
	eventually(t, "it looks again", func() bool { return b.resyncs() > before })
	hears(t, a, b, "later")
}
