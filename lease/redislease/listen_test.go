package redislease_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/redislease"
)

// TestCutOffIsToldAndServed ends the connections for signals alone. Who waits is told that signals may be lost, and gets
// the next ones.
func TestCutOffIsToldAndServed(t *testing.T) {
	url := testenv.RedisServer(t).URL()
	a, b := listen(t, url, redislease.Config{}), listen(t, url, redislease.Config{})
	_, client := open(t, url, redislease.Config{})
	for i := range 3 {
		killed, err := client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Int()
		if err != nil || killed != 2 {
			t.Fatalf("%d connections were ended, %v; want 2", killed, err)
		}
		eventually(t, "told", func() bool { return a.resyncs() == i+2 && b.resyncs() == i+2 })
	}
	handOff(t, a, b, "cut off")
}

// TestSilenceIsFound lets the packets of a connection vanish: neither side is told.
func TestSilenceIsFound(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t)
	wire := newWire(t, server)
	a := listen(t, server.URL(), redislease.Config{})
	b := listen(t, "redis://"+wire.address, redislease.Config{})
	began := time.Now()
	wire.cut()
	eventually(t, "told", func() bool { return b.resyncs() == 2 })
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("it took %v to find out", took)
	}
	handOff(t, a, b, "silence")
}

func TestListensOnceAtATime(t *testing.T) {
	l := listen(t, testenv.Redis(t), redislease.Config{Prefix: prefix(t)})
	if err := l.Listen(t.Context(), func(lease.Signal) {}); err == nil {
		t.Fatal("it listened twice")
	}
	l.leave()
	ctx, cancel := context.WithCancel(t.Context())
	if err := l.Listen(ctx, func(lease.Signal) { cancel() }); err != nil {
		t.Fatalf("listen again: %v", err)
	}
}

// TestListenOutlastsAnAbsentServer begins before there is a server.
func TestListenOutlastsAnAbsentServer(t *testing.T) {
	t.Parallel()
	awaitPools(t)
	config := localservers.RedisConfig{Dir: t.TempDir()}
	server, err := localservers.StartRedis(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	l, client := open(t, server.URL(), redislease.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	var told atomic.Bool
	listening.Go(func() {
		if err := l.Listen(ctx, func(lease.Signal) { told.Store(true) }); err != nil {
			t.Errorf("listen: %v", err)
		}
	})
	defer listening.Wait()
	defer cancel()
	eventually(t, "the server is missed", func() bool { return client.Ping(t.Context()).Err() != nil })
	if told.Load() {
		t.Fatal("told that it listens to nobody")
	}
	if server, err = localservers.StartRedis(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	eventually(t, "told", told.Load)
}

func TestRingIsRefused(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "localhost:1"}})
	defer ring.Close()
	if _, err := redislease.New(ring, redislease.Config{}); err == nil || !strings.Contains(err.Error(), "ring") {
		t.Fatalf("%v, want a ring refused", err)
	}
}

// handOff lets a hold a lease for which b waits, and then b for which a waits.
func handOff(t *testing.T, a, b *listener, name string) {
	t.Helper()
	take(t, a, name, "a")
	enter(t, b, name, "b", 1)
	if got := drop(t, a, name, "a"); !got.Next {
		t.Fatalf("dropped %+v, want another next", got)
	}
	b.pushed(t, name, "b")
	enter(t, a, name, "a", 1)
	eventually(t, "b is told of a", func() bool {
		return b.heard(lease.Signal{Kind: lease.Followed, Name: name, Value: value("b")}) > 0
	})
	drop(t, b, name, "b")
	a.pushed(t, name, "a")
	drop(t, a, name, "a")
}

// wire passes on connections to a server until it is cut: from then on the connections that it has pass on nothing.
type wire struct {
	address string

	mu    sync.Mutex // guards what follows
	conns []*wireConn
}

type wireConn struct {
	dead atomic.Bool
	ends [2]net.Conn
}

func newWire(t *testing.T, server *localservers.Redis) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{address: l.Addr().String()}
	var running sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		w.mu.Lock()
		for _, c := range w.conns {
			c.ends[0].Close()
			c.ends[1].Close()
		}
		w.mu.Unlock()
		running.Wait()
	})
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", strings.TrimPrefix(server.URL(), "unix://"))
			if err != nil {
				in.Close()
				continue
			}
			c := &wireConn{ends: [2]net.Conn{in, out}}
			w.mu.Lock()
			w.conns = append(w.conns, c)
			w.mu.Unlock()
			running.Go(func() { c.pass(0, 1) })
			running.Go(func() { c.pass(1, 0) })
		}
	})
	return w
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.dead.Store(true)
	}
}

func (c *wireConn) pass(from, to int) {
	defer c.ends[to].Close()
	io.Copy(writer(func(p []byte) (int, error) {
		if c.dead.Load() {
			return len(p), nil
		}
		return c.ends[to].Write(p)
	}), c.ends[from])
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
