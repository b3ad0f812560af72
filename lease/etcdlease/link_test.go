package etcdlease_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// link is a way to a server that can be cut and mended.
type link struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	isCut bool                  // guarded by mu
	conns map[net.Conn]struct{} // guarded by mu
}

// newLink listens for those who go to a server by it; wrap makes what it listens on, nil for plain TCP.
func newLink(t *testing.T, to string, wrap func(net.Listener) net.Listener) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if wrap != nil {
		listener = wrap(listener)
	}
	l := &link{listener: listener, to: to, conns: map[net.Conn]struct{}{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { l.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		l.cut()
		serving.Wait()
	})
	return l
}

func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) serve(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer to.Close()
	if !l.add(from, to) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		io.Copy(from, to)
		from.Close()
	})
	io.Copy(to, from)
	to.Close()
	back.Wait()
}

func (l *link) add(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		l.conns[c] = struct{}{}
	}
	return !l.isCut
}

// cut ends all connections, and lets no other through until it is mended.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for c := range l.conns {
		c.Close()
		delete(l.conns, c)
	}
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = false
}
