package gatewaytest

import (
	"context"
	"strconv"

	"github.com/fencegate/fencegate/fence"
)

// happened records what became of a grant. The caller holds the lock.
func (m *Memory) happened(kind fence.EventKind, g *fence.Grant) {
	m.record(fence.Event{
		At: started, Kind: kind, Lease: g.Lease, Principal: g.Principal, Holder: g.Holder, First: g.First(), Why: g.Ended, By: g.EndedBy,
	})
}

func (m *Memory) record(e fence.Event) {
	e.Position = strconv.Itoa(m.pruned + len(m.events) + 1)
	m.events = append(m.events, e)
}

// Events returns events behind a position; positions count from 1.
func (m *Memory) Events(_ context.Context, after string, limit int) (found []fence.Event, gone bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := 0
	if after == "" {
		seen = m.pruned
	} else if seen, err = strconv.Atoi(after); err != nil || seen < 0 {
		return nil, false, fence.Errorf(fence.CodeInvalidRequest, "this is no id of an event").In("after")
	}
	from := max(seen-m.pruned, 0)
	if from >= len(m.events) {
		return nil, seen < m.pruned, nil
	}
	found = m.events[from:min(from+limit, len(m.events))]
	return append([]fence.Event(nil), found...), seen < m.pruned, nil
}

// LastEvent returns the position of the newest event, the empty one if there never was any.
func (m *Memory) LastEvent(context.Context) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.pruned + len(m.events); n > 0 {
		return strconv.Itoa(n), nil
	}
	return "", nil
}

// NoteRefusals records writes that were refused, by the clock of the Memory.
func (m *Memory) NoteRefusals(_ context.Context, refused []fence.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range refused {
		e.At = started
		m.record(e)
	}
	return nil
}

// Prune forgets all events so far.
func (m *Memory) Prune() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pruned += len(m.events)
	m.events = nil
}
