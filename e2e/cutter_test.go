package e2e

import (
	"bytes"
	bigendian "encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// cutter stands between a client and a server and cuts a connection where a test wants it.
type cutter struct {
	t        testing.TB
	listener net.Listener
	dial     func() (net.Conn, error)
	plan     atomic.Pointer[cut]
	group    sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]bool // guarded by mu; nil once closed
}

// cut says where the next connection to send the marker is cut, once.
type cut struct {
	marker string
	// before cuts it before the server gets what contains the marker; else the server gets it and answers, and the
	// cut comes once whole says that the answer, none of which is passed on, is complete.
	before bool
	// atOnce cuts it when the server has been sent the marker, whatever it makes of it.
	atOnce bool
	whole  func(answer []byte) bool
	then   *cut // the next plan
	done   atomic.Bool
}

func newCutter(t testing.TB, dial func() (net.Conn, error)) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{t: t, listener: l, dial: dial, open: map[net.Conn]bool{}}
	c.group.Go(c.accept)
	t.Cleanup(c.close)
	return c
}

// cutHTTP stands before a gateway: it loses the reply to the next request.
func cutHTTP(t testing.TB, w *wire) (*cutter, *wire) {
	t.Helper()
	addr := strings.TrimPrefix(w.base, "http://")
	c := newCutter(t, func() (net.Conn, error) { return net.Dial("tcp", addr) })
	return c, newWire(t, "http://"+c.listener.Addr().String())
}

// loseReply makes the gateway's next answer, whose first byte tells that it was decided, never arrive.
func (c *cutter) loseReply() *cut {
	return c.set(&cut{marker: "HTTP/1.1\r\n", whole: func(answer []byte) bool { return len(answer) > 0 }})
}

// cutPostgres stands before a PostgreSQL and returns the URL that leads through it.
func cutPostgres(t testing.TB, database string) (*cutter, string) {
	t.Helper()
	config, err := pgconn.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	network, addr := pgconn.NetworkAddress(config.Host, config.Port)
	c := newCutter(t, func() (net.Conn, error) { return net.Dial(network, addr) })
	through := url.URL{Scheme: "postgres", User: url.UserPassword(config.User, config.Password), Host: c.listener.Addr().String(), Path: "/" + config.Database, RawQuery: "sslmode=disable"}
	return c, through.String()
}

// loseTransaction cuts the connection that sends the marker: before PostgreSQL sees it, or after it has answered the
// Sync behind it, by when the transaction is committed or undone.
func (c *cutter) loseTransaction(marker string, before bool) *cut {
	return c.set(&cut{marker: marker, before: before, whole: readyForQuery})
}

// readyForQuery looks for the message that ends the answer to a Sync.
func readyForQuery(answer []byte) bool {
	const header = 5 // type and length; the length counts itself and not the type
	for len(answer) >= header {
		size := 1 + int(bigendian.BigEndian.Uint32(answer[1:]))
		if len(answer) < size {
			return false
		}
		if answer[0] == 'Z' {
			return true
		}
		answer = answer[size:]
	}
	return false
}

func (c *cutter) set(p *cut) *cut {
	c.plan.Store(p)
	return p
}

// happened fails the test unless the connection was cut.
func (p *cut) happened(t testing.TB) {
	t.Helper()
	if !p.done.Load() {
		t.Fatalf("nothing was cut: no connection sent %q", p.marker)
	}
}

func (c *cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := c.dial()
		if err != nil {
			client.Close()
			continue
		}
		if !c.keep(client, server) {
			return
		}
		var losing atomic.Pointer[cut]
		end := func() {
			client.Close()
			server.Close()
		}
		c.group.Go(func() {
			defer end()
			c.forward(client, server, &losing)
		})
		c.group.Go(func() {
			defer end()
			c.backward(server, client, &losing)
		})
	}
}

// forward passes on what the client sends, up to the marker when a cut is planned.
func (c *cutter) forward(client io.Reader, server io.Writer, losing *atomic.Pointer[cut]) {
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if n > 0 {
			if p := c.plan.Load(); p != nil && bytes.Contains(buf[:n], []byte(p.marker)) && c.plan.CompareAndSwap(p, p.then) {
				if p.before {
					p.done.Store(true)
					return
				}
				losing.Store(p)
			}
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
			if p := losing.Load(); p != nil && p.atOnce {
				p.done.Store(true)
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// backward passes on what the server answers, unless the answer is to be lost.
func (c *cutter) backward(server io.Reader, client io.Writer, losing *atomic.Pointer[cut]) {
	buf := make([]byte, 64<<10)
	var lost []byte
	for {
		n, err := server.Read(buf)
		if p := losing.Load(); p != nil {
			lost = append(lost, buf[:n]...)
			if p.whole != nil && p.whole(lost) {
				p.done.Store(true)
				return
			}
		} else if _, err := client.Write(buf[:n]); err != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

// keep remembers connections to be closed; false once the cutter is closed.
func (c *cutter) keep(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		if c.open == nil {
			conn.Close()
			continue
		}
		c.open[conn] = true
	}
	return c.open != nil
}

func (c *cutter) close() {
	c.listener.Close()
	c.mu.Lock()
	for conn := range c.open {
		conn.Close()
	}
	c.open = nil
	c.mu.Unlock()
	c.group.Wait()
}
