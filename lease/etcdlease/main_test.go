package etcdlease_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/etcdlease"
)

// patience bounds what is waited for, and the calls of tests that are about something else than time.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	// Most tests wait: for the seconds that etcd counts, or for a server to start.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(testenv.Main(m))
}

// patient is a locker's configuration that a busy machine cannot make fail.
func patient(prefix string) etcdlease.Config {
	return etcdlease.Config{Prefix: prefix, CallTimeout: patience}
}

// prefixes makes prefixes unique within the test binary's shared server.
var prefixes atomic.Int64

func prefix(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("test-%d-%d", os.Getpid(), prefixes.Add(1))
}

// open returns a locker on the server at url.
func open(t testing.TB, url string, c etcdlease.Config) *etcdlease.Locker {
	t.Helper()
	l, err := etcdlease.Open(url, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// connect returns a client of the test's own.
func connect(t testing.TB, url string, options ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop(), DialOptions: options})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// server is an etcd of the test's own that can be started again.
type server struct {
	*localservers.Etcd
	dir string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{dir: testenv.QuickDir(t)}
	s.start(t)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	var err error
	if s.Etcd, err = localservers.StartEtcd(t.Context(), localservers.EtcdConfig{Dir: s.dir}); err != nil {
		t.Fatal(err)
	}
}

// gateway is a locker that listens.
type gateway struct {
	*etcdlease.Locker
	leave func() // ends the listening and waits for it

	mu      sync.Mutex
	signals []lease.Signal // guarded by mu
}

// listen makes a locker listen, and returns when it does.
func listen(t *testing.T, l *etcdlease.Locker) *gateway {
	t.Helper()
	g := begin(t, l)
	eventually(t, "it listens", func() bool { return g.count(lease.Signal{Kind: lease.Resync}) > 0 })
	return g
}

// begin makes a locker listen once it can.
func begin(t *testing.T, l *etcdlease.Locker) *gateway {
	t.Helper()
	g := &gateway{Locker: l}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var listening sync.WaitGroup
	listening.Go(func() {
		if err := l.Listen(ctx, g.hear); err != nil {
			t.Errorf("listen: %v", err)
		}
	})
	g.leave = func() { cancel(); listening.Wait() }
	t.Cleanup(g.leave)
	return g
}

func (g *gateway) hear(s lease.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.signals = append(g.signals, s)
}

// count is how often a signal was told.
func (g *gateway) count(want lease.Signal) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.signals {
		if s == want {
			n++
		}
	}
	return n
}

func (g *gateway) resyncs() int { return g.count(lease.Signal{Kind: lease.Resync}) }

// told waits for a signal.
func (g *gateway) told(t testing.TB, kind lease.SignalKind, name, who string) {
	t.Helper()
	eventually(t, "a signal to "+who, func() bool {
		return g.count(lease.Signal{Kind: kind, Name: name, Value: value(who)}) > 0
	})
}

// eventually polls until ok, for at most a generous while.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func value(who string) fence.Digest { return fence.DigestOf("test", who) }

func entry(who string, waiters int, ttl time.Duration) lease.Entry {
	return lease.Entry{Value: value(who), Holder: who, TTL: ttl, Waiters: waiters}
}

// enter enters and must get an answer.
func enter(t testing.TB, l lease.Locker, name string, e lease.Entry) lease.Standing {
	t.Helper()
	st, err := l.Enter(t.Context(), name, e)
	if err != nil {
		t.Fatalf("enter %s: %v", e.Holder, err)
	}
	return st
}

func look(t testing.TB, l lease.Locker, name string) lease.Standing {
	t.Helper()
	st, err := l.Look(t.Context(), name, 100)
	if err != nil {
		t.Fatalf("look: %v", err)
	}
	return st
}

// holds checks who holds a lease.
func holds(t testing.TB, st lease.Standing, who string) {
	t.Helper()
	if st.Value != value(who) || st.Reserved {
		t.Fatalf("it stands %+v, want it held by %s", st, who)
	}
}

// calls are all that ask the server.
func calls(ctx context.Context, l lease.Locker, name string) map[string]func() error {
	return map[string]func() error{
		"enter": func() error { _, err := l.Enter(ctx, name, entry("caller", 1, time.Minute)); return err },
		"stay":  func() error { _, err := l.Stay(ctx, name, entry("caller", 1, time.Minute)); return err },
		"extend": func() error {
			_, err := l.Extend(ctx, name, lease.Extension{Value: value("caller"), TTL: time.Minute})
			return err
		},
		"drop": func() error { _, err := l.Drop(ctx, name, value("caller")); return err },
		"look": func() error { _, err := l.Look(ctx, name, 1); return err },
	}
}

// unavailable checks that all calls fail in time.
func unavailable(t testing.TB, l lease.Locker, name string, within time.Duration) {
	t.Helper()
	all := calls(t.Context(), l, name)
	failures := make(chan string, len(all))
	var calling sync.WaitGroup
	for what, call := range all {
		calling.Go(func() {
			began := time.Now()
			err := call()
			if took := time.Since(began); fence.CodeOf(err) != fence.CodeUnavailable || took > within {
				failures <- fmt.Sprintf("%s: %v after %v, want %s within %v", what, err, took, fence.CodeUnavailable, within)
			}
		})
	}
	calling.Wait()
	close(failures)
	var failed []string
	for f := range failures {
		failed = append(failed, f)
	}
	if len(failed) > 0 {
		slices.Sort(failed)
		t.Fatal(failed)
	}
}
