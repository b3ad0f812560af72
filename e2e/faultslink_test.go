package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// faultsLink is a connection from one place to another that can be disturbed: toxiproxy, and behind it a bridge whose
// far end can be exchanged.
type faultsLink struct {
	name   string
	proxy  *toxiproxy.Proxy
	bridge *bridge
}

// newFaultsLink makes a link. Where it leads is set by its bridge's lead.
func newFaultsLink(t testing.TB, server *toxiproxy.ApiServer, name string) *faultsLink {
	t.Helper()
	b := newBridge(t)
	l := &faultsLink{name: name, bridge: b, proxy: toxiproxy.NewProxy(server, name, "127.0.0.1:0", b.listener.Addr().String())}
	if err := l.proxy.Start(); err != nil {
		t.Fatalf("link %s: %v", name, err)
	}
	t.Cleanup(l.proxy.Stop)
	return l
}

// newToxiproxy makes the server that links belong to. It serves no API.
func newToxiproxy() *toxiproxy.ApiServer {
	return toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
}

func (l *faultsLink) address() string { return l.proxy.Listen }

// poison disturbs the link until cure is called.
func (l *faultsLink) poison(toxic, stream string, attributes map[string]int) error {
	content, err := json.Marshal(map[string]any{"name": toxic, "type": toxic, "stream": stream, "attributes": attributes})
	if err != nil {
		return err
	}
	_, err = l.proxy.Toxics.AddToxicJson(strings.NewReader(string(content)))
	return err
}

func (l *faultsLink) cure(ctx context.Context) { l.proxy.Toxics.ResetToxics(ctx) }

// bridge passes on what it is sent to wherever it leads at the time of the connection.
type bridge struct {
	listener net.Listener
	to       atomic.Pointer[far]
	group    sync.WaitGroup

	mu    sync.Mutex
	pairs map[*pair]bool // guarded by mu; nil once closed
}

type far struct{ network, address string }

type pair struct{ near, far net.Conn }

func newBridge(t testing.TB) *bridge {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bridge{listener: l, pairs: map[*pair]bool{}}
	b.group.Go(b.accept)
	t.Cleanup(b.close)
	return b
}

// lead sets where the next connections go.
func (b *bridge) lead(network, address string) { b.to.Store(&far{network, address}) }

func (b *bridge) accept() {
	for {
		near, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.group.Go(func() { b.serve(near) })
	}
}

func (b *bridge) serve(near net.Conn) {
	defer near.Close()
	to := b.to.Load()
	if to == nil {
		return
	}
	there, err := net.Dial(to.network, to.address)
	if err != nil {
		return
	}
	defer there.Close()
	p := &pair{near, there}
	if !b.keep(p) {
		return
	}
	defer b.drop(p)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, there)
		closeWrite(near)
	})
	_, _ = io.Copy(there, near)
	closeWrite(there)
	back.Wait()
}

// keep remembers a pair; false once the bridge is closed.
func (b *bridge) keep(p *pair) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pairs != nil {
		b.pairs[p] = true
	}
	return b.pairs != nil
}

func (b *bridge) drop(p *pair) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pairs, p)
}

// halfClose ends one direction of every connection that is open: what was sent arrives, what is answered is not heard,
// or the other way round.
func (b *bridge) halfClose(answers bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range b.pairs {
		if answers {
			closeWrite(p.near)
		} else {
			closeWrite(p.far)
		}
	}
}

// sever ends every connection that is open.
func (b *bridge) sever() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range b.pairs {
		p.near.Close()
		p.far.Close()
	}
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

func (b *bridge) close() {
	b.listener.Close()
	b.mu.Lock()
	for p := range b.pairs {
		p.near.Close()
		p.far.Close()
	}
	b.pairs = nil
	b.mu.Unlock()
	b.group.Wait()
}
