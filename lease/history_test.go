package lease_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// history records, on one logical clock, when leases were taken or proven and what was certified for them.
type history struct {
	mu     sync.Mutex // guards what follows
	clock  int
	grants []certified
	voids  int
}

// certified is a new grant, and the take or proof of the lease that came before its certificate.
type certified struct {
	who          string
	sent, taken  int // when the take was sent and when it was answered
	first        fence.Token
	newlyGranted int // when the certificate was answered
}

func (h *history) tick() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	return h.clock
}

func (h *history) certified(c certified) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	c.newlyGranted = h.clock
	for _, g := range h.grants {
		if g.first == c.first && g.who == c.who {
			return // the same grant, repeated to its own acquire
		}
	}
	h.grants = append(h.grants, c)
}

// check returns the first violation of I4: a token that was issued twice, or a holder whose lease was taken or
// proven earlier and who has the higher token.
func (h *history) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, a := range h.grants {
		for j, b := range h.grants {
			switch {
			case i != j && a.first == b.first:
				return fmt.Errorf("%s and %s both have token %d", a.who, b.who, a.first)
			case a.taken < b.sent && a.first > b.first:
				return fmt.Errorf("%s took the lease at %d and has token %d; %s took it later, at %d, and has %d",
					a.who, a.taken, a.first, b.who, b.sent, b.first)
			}
		}
	}
	return nil
}

// The points at which a client can be paused: around every step of an acquire.
var points = []string{"before the floor", "after the floor", "before the take", "after the take", "before the certificate", "after the certificate"}

// client is one client's view of locker and ledger: it records the history and stops at every point. It serves one
// acquire at a time.
type client struct {
	lease.Locker
	lease.Ledger
	h           *history
	at          func(point string)
	sent, taken int
}

func (c *client) Newest(ctx context.Context, name string) (*fence.Grant, error) {
	c.at("before the floor")
	g, err := c.Ledger.Newest(ctx, name)
	c.at("after the floor")
	return g, err
}

func (c *client) Enter(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
	c.at("before the take")
	sent := c.h.tick()
	st, err := c.Locker.Enter(ctx, name, e)
	if err == nil && st.Value == e.Value && !st.Reserved {
		c.sent, c.taken = sent, c.h.tick()
	}
	c.at("after the take")
	return st, err
}

// Extend claims a lease that was pushed, or proves one.
func (c *client) Extend(ctx context.Context, name string, x lease.Extension) (lease.Standing, error) {
	c.at("before the take")
	sent := c.h.tick()
	st, err := c.Locker.Extend(ctx, name, x)
	won := x.Value
	if (x.Next != fence.Digest{}) {
		won = x.Next
	}
	if err == nil && st.Value == won && !st.Reserved {
		c.sent, c.taken = sent, c.h.tick()
	}
	c.at("after the take")
	return st, err
}

func (c *client) Certify(ctx context.Context, cert fence.Certificate) (*fence.Grant, error) {
	c.at("before the certificate")
	g, err := c.Ledger.Certify(ctx, cert)
	switch {
	case err == nil:
		c.h.certified(certified{who: cert.Acquire.String(), sent: c.sent, taken: c.taken, first: g.First()})
	case err == fence.ErrVoid:
		c.h.mu.Lock()
		c.h.voids++
		c.h.mu.Unlock()
	}
	c.at("after the certificate")
	return g, err
}
