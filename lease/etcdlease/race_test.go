package etcdlease_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/etcdlease"
)

// meanwhile does something between what a call reads and what it changes, once.
type meanwhile struct{ do atomic.Pointer[func()] }

func (m *meanwhile) intercept(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if txn, ok := request.(*pb.TxnRequest); ok && len(txn.Compare) > 0 {
		if do := m.do.Swap(nil); do != nil {
			(*do)()
		}
	}
	return call(ctx, method, request, reply, conn, options...)
}

// What a call builds on may have changed before it changes anything: then it begins anew.
func TestOthersAreFaster(t *testing.T) {
	t.Parallel()
	url := testenv.Etcd(t)
	config := patient(prefix(t))
	var others meanwhile
	slow, err := etcdlease.New(connect(t, url, grpc.WithChainUnaryInterceptor(others.intercept)), config)
	if err != nil {
		t.Fatal(err)
	}
	s, a, b := listen(t, slow), listen(t, open(t, url, config)), listen(t, open(t, url, config))
	drop := func(g *gateway, name, who string) lease.Dropped {
		got, err := g.Drop(t.Context(), name, value(who))
		if err != nil {
			t.Errorf("drop %s: %v", who, err)
		}
		return got
	}
	// during does a call of the slow one, and something else before it changes anything.
	during := func(t *testing.T, do, call func()) {
		t.Helper()
		others.do.Store(&do)
		if call(); others.do.Swap(nil) != nil {
			t.Error("it was not slow")
		}
	}
	t.Run("TakeThatSomebodyWaitsFor", func(t *testing.T) {
		const name, ttl = "take", 300 * time.Millisecond
		enter(t, a, name, entry("a", 0, ttl))
		holds(t, look(t, s, name), "a")
		<-time.After(ttl)
		// Who has just come does not know that it has ended.
		during(t, func() { enter(t, b, name, entry("b", 1, time.Hour)) }, func() {
			if got := enter(t, s, name, entry("s", 0, time.Hour)); got.Value != value("b") || !got.Reserved {
				t.Errorf("it stands %+v, want it reserved for b", got)
			}
		})
	})
	t.Run("TakeThatWasTaken", func(t *testing.T) {
		during(t, func() { enter(t, a, "taken", entry("a", 0, time.Hour)) }, func() {
			holds(t, enter(t, s, "taken", entry("s", 0, time.Hour)), "a")
		})
	})
	t.Run("AppendWhenItBecameFree", func(t *testing.T) {
		enter(t, a, "append", entry("a", 0, time.Hour))
		during(t, func() { drop(a, "append", "a") }, func() {
			holds(t, enter(t, s, "append", entry("s", 1, time.Hour)), "s")
		})
	})
	t.Run("DropWhenSomebodyCame", func(t *testing.T) {
		enter(t, s, "drop", entry("s", 0, time.Hour))
		during(t, func() { enter(t, b, "drop", entry("b", 1, time.Hour)) }, func() {
			if got := drop(s, "drop", "s"); got != (lease.Dropped{Had: true, Next: true}) {
				t.Errorf("dropped %+v, want it handed on", got)
			}
		})
		b.told(t, lease.Pushed, "drop", "b")
	})
	t.Run("DropThatWasDropped", func(t *testing.T) {
		enter(t, s, "dropped", entry("s", 0, time.Hour))
		during(t, func() { drop(a, "dropped", "s") }, func() {
			if got := drop(s, "dropped", "s"); got != (lease.Dropped{}) {
				t.Errorf("dropped %+v what somebody else had dropped", got)
			}
		})
	})
	for _, how := range []string{"Left", "CameBefore"} {
		t.Run("HandOnWhenTheFirst"+how, func(t *testing.T) {
			enter(t, s, how, entry("s", 0, time.Hour))
			enter(t, a, how, entry("a", 1, time.Hour))
			if how == "Left" {
				enter(t, b, how, entry("b", 1, time.Hour))
			}
			during(t, func() {
				if how == "Left" {
					drop(a, how, "a")
					return
				}
				e := entry("b", 1, time.Hour)
				e.Place = 1
				enter(t, b, how, e)
			}, func() { drop(s, how, "s") })
			b.told(t, lease.Pushed, how, "b")
			if a.count(lease.Signal{Kind: lease.Pushed, Name: how, Value: value("a")}) > 0 {
				t.Error("a was told that it is its turn")
			}
		})
	}
	t.Run("ExtendWhatPassedOn", func(t *testing.T) {
		enter(t, s, "extend", entry("s", 0, time.Hour))
		enter(t, b, "extend", entry("b", 1, time.Hour))
		during(t, func() { drop(a, "extend", "s") }, func() {
			got, err := s.Extend(t.Context(), "extend", lease.Extension{Value: value("s"), TTL: time.Hour})
			if err != nil || got.Value != value("b") {
				t.Errorf("it stands %+v, %v; want it reserved for b", got, err)
			}
		})
	})
	t.Run("NoteOfWhatLeft", func(t *testing.T) {
		enter(t, a, "note", entry("a", 0, time.Hour))
		enter(t, s, "note", entry("s", 1, time.Hour))
		during(t, func() { drop(b, "note", "s") }, func() {
			got, err := s.Stay(t.Context(), "note", entry("s", 2, time.Hour))
			if err != nil || got.Place != 0 || got.Entries != 0 {
				t.Errorf("it stands %+v, %v; want no place", got, err)
			}
		})
	})
}
