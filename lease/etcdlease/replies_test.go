package etcdlease_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/etcdlease"
)

// loser loses the replies to changes, as often as it is told to.
type loser struct{ replies atomic.Int64 }

func (l *loser) intercept(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := call(ctx, method, request, reply, conn, options...)
	if txn, ok := request.(*pb.TxnRequest); ok && err == nil && len(txn.Compare) > 0 && reply.(*pb.TxnResponse).Succeeded && l.replies.Add(-1) >= 0 {
		return status.Error(codes.Unavailable, "the reply is lost")
	}
	return err
}

// A call that got no answer is made again, and finds what it did itself.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	url := testenv.Etcd(t)
	config := patient(prefix(t))
	var lost loser
	l, err := etcdlease.New(connect(t, url, grpc.WithChainUnaryInterceptor(lost.intercept)), config)
	if err != nil {
		t.Fatal(err)
	}
	a, b := listen(t, l), listen(t, open(t, url, config))
	dropped := func(want lease.Dropped) {
		t.Helper()
		if got, err := a.Drop(t.Context(), "lost", value("a")); err != nil || got != want {
			t.Errorf("dropped %+v, %v; want %+v", got, err, want)
		}
	}
	lose := func(what string, call func()) {
		t.Helper()
		lost.replies.Store(1)
		call()
		if lost.replies.Load() > 0 {
			t.Fatalf("%s: no reply was lost", what)
		}
		lost.replies.Store(0)
	}

	lose("take", func() { holds(t, enter(t, a, "lost", entry("a", 0, time.Minute)), "a") })
	lose("note", func() {
		if got := enter(t, a, "lost", entry("a", 4, time.Minute)); got.Behind != 3 {
			t.Errorf("it stands %+v, want 3 behind it", got)
		}
	})
	lose("extend", func() {
		got, err := a.Extend(t.Context(), "lost", lease.Extension{Value: value("a"), TTL: time.Hour})
		if err != nil || got.Value != value("a") || got.Remaining < 59*time.Minute {
			t.Errorf("it stands %+v, %v", got, err)
		}
	})
	lose("drop", func() { dropped(lease.Dropped{Had: true}) })
	if got := look(t, b, "lost"); got.Remaining > 0 {
		t.Errorf("it stands %+v, want it free", got)
	}

	enter(t, b, "lost", entry("b", 1, time.Minute))
	lose("append", func() {
		got := enter(t, a, "lost", entry("a", 1, time.Minute))
		if again := enter(t, a, "lost", entry("a", 1, time.Minute)); got.Place == 0 || again.Place != got.Place || again.Entries != 1 {
			t.Errorf("it stands %+v, then %+v", got, again)
		}
	})
	b.told(t, lease.Followed, "lost", "b")
	lose("leave", func() { dropped(lease.Dropped{Had: true}) })

	enter(t, a, "lost", entry("a", 1, time.Minute))
	if _, err := b.Drop(t.Context(), "lost", value("b")); err != nil {
		t.Fatal(err)
	}
	lose("claim", func() {
		got, err := a.Extend(t.Context(), "lost", lease.Extension{Value: value("a"), TTL: time.Hour, Holder: "a"})
		if err != nil {
			t.Fatal(err)
		}
		holds(t, got, "a")
	})
	enter(t, b, "lost", entry("b", 1, time.Minute))
	lose("hand on", func() { dropped(lease.Dropped{Had: true, Next: true}) })
	b.told(t, lease.Pushed, "lost", "b")
	if n := b.count(lease.Signal{Kind: lease.Pushed, Name: "lost", Value: value("b")}); n != 1 {
		t.Errorf("b was pushed %d times", n)
	}
}
