package leasetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// Space is a server that keeps leases in memory: the contract of lease.Locker with one mutex in place of the scripts.
// It can forget everything, as a server does that is flushed.
type Space struct {
	mu     sync.Mutex // guards what follows
	leases map[string]*kept
	places int64
	calls  int
}

// kept is a lease and its queue.
type kept struct {
	value, tenant fence.Digest
	by            *Memory // whose value it is
	holder        string
	reserved      bool
	until         time.Time
	renewed       time.Time
	queue         []*stand // in the order of their places
	notes         map[fence.Digest]lease.Entry
	entered       map[fence.Digest]bool // all that ever were: to look for others would be slow
}

type stand struct {
	lease.Entry
	by *Memory
}

// NewSpace makes an empty server.
func NewSpace() *Space { return &Space{leases: map[string]*kept{}} }

// Flush forgets every lease and every queue, and tells nobody.
func (s *Space) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases = map[string]*kept{}
}

// Calls is how many calls the server has answered.
func (s *Space) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Names are the leases that it knows something of.
func (s *Space) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, k := range s.leases {
		k.handOn(name)
		if (k.value != fence.Digest{}) || len(k.queue) > 0 {
			names = append(names, name)
		}
	}
	return names
}

var _ lease.Locker = (*Memory)(nil)

// Memory is the locker of one gateway in a Space.
type Memory struct {
	s    *Space
	tell func(lease.Signal) // guarded by s.mu; nil while nobody listens
	// signals are told in their order by Listen.
	signals chan lease.Signal
}

// Locker makes a locker for one more gateway.
func (s *Space) Locker() *Memory { return &Memory{s: s, signals: make(chan lease.Signal, 10_000)} }

// Listen implements lease.Locker.
func (m *Memory) Listen(ctx context.Context, f func(lease.Signal)) error {
	m.s.mu.Lock()
	m.tell = func(s lease.Signal) {
		select {
		case m.signals <- s:
		default: // lost
		}
	}
	m.s.mu.Unlock()
	defer func() {
		m.s.mu.Lock()
		defer m.s.mu.Unlock()
		m.tell = nil
	}()
	f(lease.Signal{Kind: lease.Resync})
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-m.signals:
			f(s)
		}
	}
}

// push reserves the lease for a value, unless its gateway has gone.
func (k *kept) push(name string, value fence.Digest, holder string, by *Memory) bool {
	if by.tell == nil {
		return false
	}
	k.value, k.by, k.holder, k.reserved, k.tenant, k.renewed = value, by, holder, true, fence.Digest{}, time.Time{}
	k.until = time.Now().Add(lease.Window)
	by.tell(lease.Signal{Kind: lease.Pushed, Name: name, Value: value})
	return true
}

// handOn gives a lease that is free to the first of its queue.
func (k *kept) handOn(name string) {
	if (k.value != fence.Digest{}) && time.Now().Before(k.until) {
		return
	}
	if k.reserved {
		by := k.by
		k.queue = slices.DeleteFunc(k.queue, func(s *stand) bool { return s.by == by })
	}
	delete(k.notes, k.value)
	k.value, k.by, k.reserved = fence.Digest{}, nil, false
	for len(k.queue) > 0 {
		first := k.queue[0]
		k.queue = k.queue[1:]
		if k.push(name, first.Value, first.Holder, first.by) {
			k.notes[first.Value] = first.Entry
			return
		}
		k.queue = slices.DeleteFunc(k.queue, func(s *stand) bool { return s.by == first.by })
	}
}

func (m *Memory) begin(ctx context.Context, name string) (*kept, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fence.Wrap(fence.CodeUnavailable, err, "the locker was not asked in time")
	}
	m.s.mu.Lock()
	m.s.calls++
	k := m.s.leases[name]
	if k == nil {
		k = &kept{notes: map[fence.Digest]lease.Entry{}, entered: map[fence.Digest]bool{}}
		m.s.leases[name] = k
	}
	k.handOn(name)
	return k, m.s.mu.Unlock, nil
}

func (m *Memory) beginWith(ctx context.Context, name string, e lease.Entry) (*kept, func(), error) {
	if len(e.Note) > lease.MaxNote {
		return nil, nil, fence.Errorf(fence.CodeInvalidRequest, "a note has at most %d bytes", lease.MaxNote).In("note")
	}
	return m.begin(ctx, name)
}

// Enter implements lease.Locker.
func (m *Memory) Enter(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
	k, done, err := m.beginWith(ctx, name, e)
	if err != nil {
		return lease.Standing{}, err
	}
	defer done()
	i := -1
	if k.entered[e.Value] {
		i = k.find(e.Value)
	}
	k.entered[e.Value] = true
	switch {
	case k.value == e.Value, i >= 0:
		if k.value == e.Value && !k.reserved {
			e.Waiters = max(0, e.Waiters-1)
		}
		return k.renew(i, e), nil
	case k.value == fence.Digest{} && (len(k.queue) == 0 || e.Place > 0 && e.Place < k.queue[0].Place):
		k.value, k.by, k.holder, k.tenant, k.renewed = e.Value, m, e.Holder, fence.Digest{}, time.Time{}
		k.until = time.Now().Add(e.TTL)
		e.Waiters = max(0, e.Waiters-1)
		k.notes[e.Value] = e
		st := k.standing(e.Value)
		if st.Place = e.Place; st.Place == 0 {
			st.Place = m.place()
		}
		return st, nil
	case e.Waiters == 0:
		return k.standing(e.Value), nil
	case len(k.queue) >= lease.MaxQueue:
		return lease.Standing{}, fence.Errorf(fence.CodeRateLimited, "the queue is full")
	}
	if e.Place == 0 {
		e.Place = m.place()
	}
	m.s.places = max(m.s.places, e.Place) // the queue's end is behind it
	last, by := k.value, k.by
	if n := len(k.queue); n > 0 {
		last, by = k.queue[n-1].Value, k.queue[n-1].by
	}
	if by != nil && by != m && by.tell != nil {
		by.tell(lease.Signal{Kind: lease.Followed, Name: name, Value: last})
	}
	at := len(k.queue)
	for at > 0 && k.queue[at-1].Place > e.Place {
		at--
	}
	k.queue = slices.Insert(k.queue, at, &stand{e, m})
	return k.standing(e.Value), nil
}

func (m *Memory) place() int64 {
	m.s.places = max(m.s.places+1, time.Now().UnixMicro())
	return m.s.places
}

// Stay implements lease.Locker.
func (m *Memory) Stay(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
	k, done, err := m.beginWith(ctx, name, e)
	if err != nil {
		return lease.Standing{}, err
	}
	defer done()
	return k.renew(k.find(e.Value), e), nil
}

// Extend implements lease.Locker.
func (m *Memory) Extend(ctx context.Context, name string, x lease.Extension) (lease.Standing, error) {
	k, done, err := m.begin(ctx, name)
	if err != nil {
		return lease.Standing{}, err
	}
	defer done()
	if k.value == x.Value {
		until := time.Now().Add(x.TTL)
		ends := until
		if (x.Next == fence.Digest{}) && !k.reserved && until.Before(k.until) {
			ends = k.until
		}
		if k.reserved {
			k.holder = x.Holder
		}
		k.reserved, k.tenant, k.renewed = false, x.Tenant, time.Time{}
		if k.by != m {
			k.renewed = until
		}
		k.until = ends
		note := k.notes[k.value]
		if k.by == m && x.Waiters >= 0 {
			note.Waiters = x.Waiters
		}
		if (x.Next != fence.Digest{}) {
			delete(k.notes, k.value)
			k.value, x.Value = x.Next, x.Next
		}
		k.notes[k.value] = note
	}
	return k.standing(x.Value), nil
}

// Drop implements lease.Locker.
func (m *Memory) Drop(ctx context.Context, name string, value fence.Digest) (lease.Dropped, error) {
	k, done, err := m.begin(ctx, name)
	if err != nil {
		return lease.Dropped{}, err
	}
	defer done()
	if i := k.find(value); i >= 0 {
		k.queue = slices.Delete(k.queue, i, i+1)
		return lease.Dropped{Had: true}, nil
	}
	if k.value != value {
		return lease.Dropped{}, nil
	}
	next, note := lease.NextValue(value), k.notes[value]
	if k.by != m && note.Waiters > 0 && k.push(name, next, k.holder, k.by) {
		delete(k.notes, value)
		k.notes[next] = note
		return lease.Dropped{Had: true, Next: true}, nil
	}
	k.until, k.reserved = time.Time{}, false
	k.handOn(name)
	return lease.Dropped{Had: true, Next: k.value != fence.Digest{}}, nil
}

// Look implements lease.Locker.
func (m *Memory) Look(ctx context.Context, name string, entries int) (lease.Standing, error) {
	k, done, err := m.begin(ctx, name)
	if err != nil {
		return lease.Standing{}, err
	}
	defer done()
	st := k.standing(fence.Digest{})
	for _, s := range k.queue[:min(entries, len(k.queue))] {
		st.Queue = append(st.Queue, lease.Queued{Value: s.Value, Waiters: s.Waiters, Note: s.Note})
	}
	return st, nil
}

// find begins at the end of the queue, where those stand who have just entered.
func (k *kept) find(value fence.Digest) int {
	for i, s := range slices.Backward(k.queue) {
		if s.Value == value {
			return i
		}
	}
	return -1
}

// renew renews the note of a value that holds the lease or stands at i.
func (k *kept) renew(i int, e lease.Entry) lease.Standing {
	switch {
	case k.value == e.Value:
		k.notes[e.Value] = e
	case i >= 0:
		k.queue[i].Waiters, k.queue[i].Note = e.Waiters, e.Note
	}
	return k.standing(e.Value)
}

func (k *kept) standing(value fence.Digest) lease.Standing {
	st := lease.Standing{
		Value: k.value, Reserved: k.reserved, Holder: k.holder, Tenant: k.tenant, Behind: k.notes[k.value].Waiters, Entries: len(k.queue),
	}
	if (k.value == fence.Digest{}) {
		return lease.Standing{Entries: len(k.queue)}
	}
	now := time.Now()
	st.Remaining = k.until.Sub(now)
	if !k.renewed.IsZero() {
		st.Renewed = k.renewed.Sub(now)
	}
	if i := k.find(value); i >= 0 {
		st.Place, st.Followed = k.queue[i].Place, i < len(k.queue)-1
	} else if k.value == value {
		st.Followed = len(k.queue) > 0
	}
	return st
}
