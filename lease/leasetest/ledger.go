package leasetest

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

var _ lease.Ledger = (*Ledger)(nil)

// Ledger is the reference ledger: the contract of lease.Ledger in memory, one mutex in place of the transactions.
type Ledger struct {
	secret [32]byte

	mu     sync.Mutex                // guards what follows
	blocks fence.Token               // blocks drawn
	newest map[string]*fence.Grant   // by lease, with their IDs
	grants map[string][]*fence.Grant // by lease, every grant ever, oldest first
}

// NewLedger makes an empty ledger with a secret of its own.
func NewLedger() *Ledger {
	l := &Ledger{newest: map[string]*fence.Grant{}, grants: map[string][]*fence.Grant{}}
	rand.Read(l.secret[:])
	return l
}

// Grants returns every grant that a lease ever had, oldest first, without IDs.
func (l *Ledger) Grants(name string) []*fence.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*fence.Grant
	for _, g := range l.grants[name] {
		all = append(all, withoutID(g))
	}
	return all
}

// Newest implements lease.Ledger.
func (l *Ledger) Newest(ctx context.Context, name string) (*fence.Grant, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.newest[name]; g != nil {
		return withoutID(g), nil
	}
	return nil, nil
}

// Held implements lease.Ledger.
func (l *Ledger) Held(ctx context.Context, name string, by fence.GrantRef) (*fence.Grant, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.newest[name]
	if !names(by, g) || g.Ended != "" {
		return nil, lost(name, g)
	}
	return withoutID(g), nil
}

// Certify implements lease.Ledger.
func (l *Ledger) Certify(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	if c.Hold == (fence.Digest{}) {
		c.Hold = c.Acquire
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.newest[c.Lease]
	if g != nil && g.Acquire == c.Acquire {
		switch {
		case g.Ended != "":
			return nil, about(fence.Errorf(fence.CodeGrantEnded, "the grant of this acquire has ended (%s)", g.Ended), c.Lease, g)
		case g.Holder != c.Holder:
			return nil, about(fence.Errorf(fence.CodeInvalidRequest, "the acquire was made with another holder").In("holder"), c.Lease, g)
		case g.TTL != c.TTL:
			return nil, about(fence.Errorf(fence.CodeInvalidRequest, "the acquire was made with another ttl").In("ttl"), c.Lease, g)
		}
		g.Hold = c.Hold
		return clone(g), nil
	}
	var first fence.Token
	if g != nil {
		first = g.First()
	}
	if first != c.Floor || c.Local && !passesOn(g, c.Hold) {
		return nil, fence.ErrVoid
	}
	b := l.draw()
	g = &fence.Grant{
		Lease:     c.Lease,
		ID:        l.id(c, b.First),
		Principal: c.Principal,
		Holder:    c.Holder,
		Acquire:   c.Acquire,
		Hold:      c.Hold,
		Blocks:    []fence.Block{b},
		TTL:       c.TTL,
		GrantedAt: time.Now().UTC(),
	}
	l.newest[c.Lease] = g
	l.grants[c.Lease] = append(l.grants[c.Lease], g)
	return clone(g), nil
}

// End implements lease.Ledger.
func (l *Ledger) End(ctx context.Context, name string, by fence.GrantRef, e fence.Ending) (*fence.Grant, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.newest[name]
	if !names(by, g) {
		return nil, lost(name, g)
	}
	if g.Ended == "" {
		g.Ended, g.EndedBy = e.Why, e.By
	}
	return withoutID(g), nil
}

// More implements lease.Ledger.
func (l *Ledger) More(ctx context.Context, name string, by fence.GrantRef) (*fence.Grant, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.newest[name]
	if !names(by, g) || g.Ended != "" {
		return nil, lost(name, g)
	}
	b := l.draw()
	if last := len(g.Blocks) - 1; g.Blocks[last].Last+1 == b.First {
		g.Blocks[last].Last = b.Last
	} else {
		g.Blocks = append(g.Blocks, b)
	}
	return withoutID(g), nil
}

// List implements lease.Ledger.
func (l *Ledger) List(ctx context.Context, prefix, after string, limit int) ([]*fence.Grant, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if limit < 1 {
		return nil, fence.Errorf(fence.CodeInvalidRequest, "at least one grant is asked for").In("limit")
	}
	var live []string
	for name, g := range l.newest {
		if g.Ended == "" && name > after && strings.HasPrefix(name, prefix) {
			live = append(live, name)
		}
	}
	slices.Sort(live)
	var found []*fence.Grant
	for _, name := range live[:min(limit, len(live))] {
		found = append(found, withoutID(l.newest[name]))
	}
	return found, nil
}

// passesOn tells whether a lease may be handed on from its newest grant to another of the same hold, without asking the
// locker. Whoever ends a grant gives its lease away.
func passesOn(g *fence.Grant, hold fence.Digest) bool {
	return g != nil && g.Hold == hold && g.Ended == ""
}

// draw takes the next block. l.mu is held.
func (l *Ledger) draw() fence.Block {
	l.blocks++
	first := l.blocks * fence.BlockSize
	return fence.Block{First: first, Last: first + fence.BlockSize - 1}
}

// id is the grant's secret: an HMAC over length-prefixed fields, so that a repeated acquire gets the same one.
func (l *Ledger) id(c fence.Certificate, first fence.Token) string {
	mac := hmac.New(sha256.New, l.secret[:])
	for _, field := range []string{c.Principal, c.Lease, string(c.Acquire[:]), strconv.FormatInt(int64(first), 10)} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(field)))
		mac.Write(size[:])
		mac.Write([]byte(field))
	}
	return hex.EncodeToString(mac.Sum(nil))
}

func names(by fence.GrantRef, g *fence.Grant) bool {
	switch {
	case g == nil:
		return false
	case by.ID != "":
		return fence.IDDigest(by.ID) == fence.IDDigest(g.ID) && by.Principal == g.Principal
	case by.Acquire != fence.Digest{}:
		return by.Acquire == g.Acquire && (by.Hold == fence.Digest{} || by.Hold == g.Hold)
	default:
		return by.Newest
	}
}

func alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fence.Wrap(fence.CodeUnavailable, err, "the ledger was not asked in time")
	}
	return nil
}

func lost(name string, g *fence.Grant) error {
	return about(fence.Errorf(fence.CodeLeaseLost, "the grant of lease %s is not the newest, or has ended", name), name, g)
}

func about(e *fence.Error, name string, g *fence.Grant) error {
	e.Lease = name
	if g != nil {
		e.First, e.Holder = g.First(), g.Holder
	}
	return e
}

func clone(g *fence.Grant) *fence.Grant {
	c := *g
	c.Blocks = slices.Clone(g.Blocks)
	return &c
}

func withoutID(g *fence.Grant) *fence.Grant {
	c := clone(g)
	c.ID = ""
	return c
}
