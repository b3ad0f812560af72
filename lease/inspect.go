package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Inspect tells who holds a lease, without the grant's ID; CodeNotFound when nobody does. While the grant is being
// made, or when the lease is held by something that is no grant, only Lease, Holder and Remaining are set and there
// are no Blocks.
func (m *Manager) Inspect(ctx context.Context, name string) (*View, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	st, err := m.locker.Look(ctx, name, shownEntries)
	if err != nil {
		return nil, fmt.Errorf("look at lease %s: %w", name, coded(err))
	}
	if (st.Value == fence.Digest{}) {
		return nil, notHeld(name)
	}
	g, err := m.ledger.Newest(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("find the grant of lease %s: %w", name, coded(err))
	}
	v := m.turns.view(name, st)
	if g != nil && g.Ended == "" && g.Hold == st.Value && !st.Reserved {
		g.ID = ""
		v.Grant = *g
	}
	return v, nil
}

// shownEntries is how many entries of a queue are looked at for one view.
const shownEntries = 100

// view is a lease as the locker knows it, with those that wait. Who waits in this gateway it knows better.
func (t *turns) view(name string, st Standing) *View {
	v := &View{Held: Held{Grant: fence.Grant{Lease: name, Holder: st.Holder}, Remaining: st.Remaining}, Queued: st.Behind}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.holds[HoldOf(st.Value)]; b != nil {
		v.Queued = len(b.waiters)
		v.Waiting = readNote(b.note(), now)
	}
	for _, q := range st.Queue {
		n, note := q.Waiters, q.Note
		if b := t.holds[HoldOf(q.Value)]; b != nil {
			n, note = len(b.waiters), b.note()
		}
		v.Queued += n
		v.Waiting = append(v.Waiting, readNote(note, now)...)
	}
	v.Queued += max(0, st.Entries-len(st.Queue)) // at least one waits behind each
	return v
}

// Verify returns nil while the principal may still use the token, else the refusal that a write would get. It
// changes nothing, and is out of date when it returns: a successor may be granted at any moment.
func (m *Manager) Verify(ctx context.Context, name, principal string, token fence.Token) error {
	if err := checkName(name); err != nil {
		return err
	}
	g, err := m.ledger.Newest(ctx, name)
	if err != nil {
		return fmt.Errorf("find the grant of lease %s: %w", name, coded(err))
	}
	code := fence.DecideGrant(g, principal, token)
	if code == fence.CodeAccepted {
		return nil
	}
	e := &fence.Error{Code: code, Message: verdict(code, name, g), Lease: name, Token: token}
	if g != nil {
		e.First, e.Holder = g.First(), g.Holder
	}
	return e
}

func verdict(code fence.Code, name string, g *fence.Grant) string {
	switch {
	case g == nil:
		return fmt.Sprintf("lease %s was never granted", name)
	case code == fence.CodeStaleToken:
		return fmt.Sprintf("lease %s was granted again since; its newest grant, of %s, starts at %d", name, g.Holder, g.First())
	case code == fence.CodeForeignToken:
		return fmt.Sprintf("the token belongs to another principal's grant of lease %s", name)
	case code == fence.CodeGrantEnded:
		return fmt.Sprintf("the grant of lease %s has ended (%s)", name, g.Ended)
	default:
		return fmt.Sprintf("no grant of lease %s issued the token", name)
	}
}
