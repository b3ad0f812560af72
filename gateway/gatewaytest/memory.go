// Package gatewaytest is a backend in memory for tests of the gateway and of its clients. It decides with
// fence.Decide, so that an answer has the code that the ledger would give.
package gatewaytest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/lease"
)

// started is the time of everything that happens in a Memory.
var started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Memory keeps leases, rows, objects and events. A row "t" with key "k" is protected by lease "t:k", an object with key "k"
// by "report:k", or, if it begins with "shared/", by "report:shared". Leases expire only when Expire says so.
type Memory struct {
	mu      sync.Mutex // guards what follows
	blocks  fence.Token
	grants  map[string]*fence.Grant
	held    map[string]bool
	marks   map[string]*markRecord
	rows    map[string][]byte
	objects map[string]*object
	bodies  map[string][]byte
	waiting map[string][]lease.Waiting
	uploads map[string]upload
	history map[string][]former
	made    map[string][]fence.Token // the tokens of a table's inserts, in their order
	// events are those that are kept, pruned how many there were before them.
	events []fence.Event
	pruned int
}

type markRecord struct {
	fence.Mark
	lease   string
	created bool
}

var (
	_ gateway.Leases    = (*Memory)(nil)
	_ gateway.Rows      = (*Memory)(nil)
	_ gateway.Commits   = (*Memory)(nil)
	_ gateway.Objects   = (*Memory)(nil)
	_ gateway.Events    = (*Memory)(nil)
	_ gateway.Readiness = (*Memory)(nil)
)

// New makes an empty Memory.
func New() *Memory {
	return &Memory{
		grants: map[string]*fence.Grant{}, held: map[string]bool{}, marks: map[string]*markRecord{},
		rows: map[string][]byte{}, objects: map[string]*object{}, bodies: map[string][]byte{},
		waiting: map[string][]lease.Waiting{}, uploads: map[string]upload{}, history: map[string][]former{}, made: map[string][]fence.Token{},
	}
}

// Ready reports that writes can be served.
func (m *Memory) Ready(context.Context) error { return nil }

// Expire lets a lease run out under its holder.
func (m *Memory) Expire(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held[name] = false
}

// Acquire grants a lease that nobody holds.
func (m *Memory) Acquire(_ context.Context, r lease.Request) (*lease.Held, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.TTL == 0 {
		r.TTL = 30 * time.Second
	}
	if r.Holder == "" {
		r.Holder = r.Principal
	}
	if m.held[r.Name] {
		e := fence.Errorf(fence.CodeLeaseHeld, "%s holds the lease", m.grants[r.Name].Holder)
		e.Holder, e.Lease, e.Remaining = m.grants[r.Name].Holder, r.Name, 29500*time.Millisecond
		return nil, e
	}
	if old := m.grants[r.Name]; old != nil && old.Ended == "" {
		m.happened(fence.EventExpired, old)
	}
	m.held[r.Name] = true
	b := m.block()
	g := &fence.Grant{
		Lease: r.Name, ID: fmt.Sprintf("id-%d", b.First), Principal: r.Principal, Holder: r.Holder,
		Blocks: []fence.Block{b}, TTL: r.TTL, GrantedAt: started,
	}
	m.grants[r.Name] = g
	m.happened(fence.EventGranted, g)
	return heldOf(g), nil
}

func (m *Memory) block() fence.Block {
	m.blocks++
	return fence.Block{First: m.blocks * fence.BlockSize, Last: m.blocks*fence.BlockSize + fence.BlockSize - 1}
}

func heldOf(g *fence.Grant) *lease.Held {
	h := &lease.Held{Grant: *g, Remaining: g.TTL}
	h.Blocks = append([]fence.Block(nil), g.Blocks...)
	return h
}

func (m *Memory) own(ref lease.Ref) (*fence.Grant, error) {
	g := m.grants[ref.Name]
	if g == nil || g.ID != ref.ID || g.Principal != ref.Principal {
		return nil, fence.Errorf(fence.CodeLeaseLost, "the grant is not the newest of the lease")
	}
	return g, nil
}

func (m *Memory) live(ref lease.Ref) (*fence.Grant, error) {
	g, err := m.own(ref)
	if err == nil && (g.Ended != "" || !m.held[ref.Name]) {
		e := fence.Errorf(fence.CodeLeaseLost, "the lease has run out or ended")
		e.Ended, e.EndedBy = g.Ended, g.EndedBy
		return nil, e
	}
	return g, err
}

// Renew sets the TTL of a lease that is still held.
func (m *Memory) Renew(_ context.Context, ref lease.Ref, ttl time.Duration) (*lease.Held, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, err := m.live(ref)
	if err != nil {
		return nil, err
	}
	if ttl != 0 {
		g.TTL = ttl
	}
	return heldOf(g), nil
}

// More adds a block to the grant.
func (m *Memory) More(_ context.Context, ref lease.Ref) (*lease.Held, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, err := m.live(ref)
	if err != nil {
		return nil, err
	}
	g.Blocks = append(g.Blocks, m.block())
	return heldOf(g), nil
}

// Release ends the grant.
func (m *Memory) Release(_ context.Context, ref lease.Ref) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, err := m.own(ref)
	if err != nil {
		return err
	}
	if g.Ended == "" {
		g.Ended, m.held[ref.Name] = fence.EndReleased, false
		m.happened(fence.EventReleased, g)
	}
	return nil
}

// Break ends whatever grant is the newest.
func (m *Memory) Break(_ context.Context, name, by, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.grants[name]
	if g == nil {
		return fence.Errorf(fence.CodeNotFound, "nobody holds the lease")
	}
	if g.Ended == "" {
		g.Ended, g.EndedBy, m.held[name] = fence.EndBroken+": "+reason, by, false
		m.happened(fence.EventBroken, g)
	}
	return nil
}

// Inspect shows who holds the lease.
func (m *Memory) Inspect(_ context.Context, name string) (*lease.View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.held[name] {
		return nil, fence.Errorf(fence.CodeNotFound, "nobody holds the lease")
	}
	view := &lease.View{Held: *heldOf(m.grants[name]), Queued: len(m.waiting[name]), Waiting: m.waiting[name]}
	view.ID = ""
	return view, nil
}

// Wait shows somebody as waiting for a lease.
func (m *Memory) Wait(name string, w lease.Waiting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting[name] = append(m.waiting[name], w)
}

// List shows the leases that are held.
func (m *Memory) List(_ context.Context, l lease.Listing) (lease.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.Limit == 0 {
		l.Limit = 100
	}
	var page lease.Page
	for _, name := range slices.Sorted(maps.Keys(m.held)) {
		if !m.held[name] || !strings.HasPrefix(name, l.Prefix) || name <= l.After {
			continue
		}
		if len(page.Leases) == l.Limit {
			page.Next = page.Leases[l.Limit-1].Lease
			break
		}
		view := lease.View{Held: *heldOf(m.grants[name]), Queued: len(m.waiting[name]), Waiting: m.waiting[name]}
		view.ID = ""
		page.Leases = append(page.Leases, view)
	}
	return page, nil
}

// Verify tells whether a write with the token would pass the grant.
func (m *Memory) Verify(_ context.Context, name, principal string, t fence.Token) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refusal(fence.DecideGrant(m.grants[name], principal, t), name, t, nil)
}

// refusal makes the error of a verdict, nil when it is none.
func (m *Memory) refusal(code fence.Code, name string, t fence.Token, s *fence.State) error {
	if code == fence.CodeAccepted || code == fence.CodeReplayed {
		return nil
	}
	e := fence.Errorf(code, "token %d is refused", t)
	e.Token, e.Lease, e.State = t, name, s
	if g := m.grants[name]; g != nil {
		e.First, e.Holder = g.First(), g.Holder
		if code == fence.CodeGrantEnded {
			e.Ended, e.EndedBy = g.Ended, g.EndedBy
		}
	}
	return e
}

// admit decides about a write and raises the mark when it is accepted. exists tells whether the data does.
func (m *Memory) admit(resource, name string, a fence.Access, c fence.Condition, d fence.Digest, exists bool) (fence.State, bool, error) {
	rec := m.marks[resource]
	if rec == nil {
		rec = &markRecord{lease: name}
	}
	state := m.state(resource, name)
	code := fence.Decide(m.grants[name], rec.Mark, fence.Write{Token: a.Token, Principal: a.Principal, Digest: d, If: c})
	if code == fence.CodeAccepted && (c.Exists && !exists || c.Absent && exists) {
		code = fence.CodePreconditionFailed
	}
	if code != fence.CodeAccepted {
		return state, code == fence.CodeReplayed, m.refusal(code, name, a.Token, &state)
	}
	m.marks[resource] = &markRecord{fence.Mark{Token: a.Token, Principal: a.Principal, Digest: d}, name, !exists}
	return m.state(resource, name), false, nil
}

// readable refuses a read whose token would not pass the grant.
func (m *Memory) readable(s fence.State, a fence.Access) error {
	if a.Token == 0 {
		return nil
	}
	return m.refusal(fence.DecideGrant(m.grants[s.Lease], a.Principal, a.Token), s.Lease, a.Token, &s)
}

func (m *Memory) state(resource, name string) fence.State {
	s := fence.State{Resource: resource, Lease: name}
	if rec := m.marks[resource]; rec != nil {
		s.Mark, s.MarkedBy, s.WrittenAt = rec.Token, rec.Principal, started
	}
	return s
}
