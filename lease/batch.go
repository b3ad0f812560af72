package lease

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// phase is where a batch stands.
type phase int

const (
	// entering: it is not known to the locker yet, or was forgotten there.
	entering phase = iota
	// queued: it stands in the locker's queue.
	queued
	// holding: its value holds the lease.
	holding
	// over: it is done with, and nobody finds it any more.
	over
)

// batch is those that wait for a lease together, and the hold under which they get it one after the other. t.mu guards it.
type batch struct {
	t    *turns
	name string
	// value is under what the locker knows it, count the highest of this hold that was seen.
	value fence.Digest
	count uint32
	place int64
	phase phase
	// inline: whoever began it is entering it himself.
	inline bool
	// doubt: it was entered, and whether that arrived is not known.
	doubt bool
	// unanswered are values under which the hold may have gone on: whether it has was not answered.
	unanswered []fence.Digest
	// cutOff: the last of them was not looked after yet.
	cutOff bool
	// pushed: the locker says that the lease is reserved for it.
	pushed bool
	// followed: somebody else stands behind it. It takes in nobody any more.
	followed bool
	waiters  []*waiter

	// turn is who is being granted the lease, tenant to whom it was granted.
	turn   *turn
	tenant *tenant
	// floor is the certificate's for the next: the previous grant's first token, or what was read before the lease was taken
	// or proved.
	floor fence.Token
	// unproved: the lease has to be proved before it is handed on.
	unproved bool
	// leaving is the release that waits for the next one's grant, nil if none does.
	leaving *handover
	// until is when the lease runs out in the locker, at the earliest.
	until time.Time

	tended bool
	wake   chan struct{}
	// lookAt is when to look how it stands, noted when it was last told, and how many waited then.
	lookAt, noted time.Time
	notedWaiters  int
	// pause is until when nothing is tried, after an error.
	pause time.Time
	retry *backoff
	// next is where those that waited went on, once the batch was lost.
	next *batch
	// clock ends the memory of a batch with nobody behind.
	clock *time.Timer
}

// tenant is whom a batch's lease was granted to.
type tenant struct {
	id        fence.Digest
	principal string
	acquire   fence.Digest
	holder    string
	first     fence.Token
	// deadline is when the lease ends for him, unless a renewal is under way.
	deadline time.Time
	renewals int
}

// waiter is one that waits.
type waiter struct {
	acquire fence.Digest
	holder  string
	ttl     time.Duration
	since   time.Time
	batch   *batch
	// told gets one outcome.
	told chan outcome
}

// outcome is what waiting ends with: a turn, an error, or, with neither, that another copy of the same acquire was granted.
type outcome struct {
	turn *turn
	err  error
}

// turn is the right to ask for a grant. Whoever has it keeps it (granted) or passes it on.
type turn struct {
	*batch
	value         fence.Digest
	floor         fence.Token
	local, handed bool
	leaving       *handover
	// since is when the lease began to run for whoever has the turn.
	since time.Time
	// unknown: a certificate of the turn may have been made.
	unknown bool
	// ended is the first token of a grant that was ended before the turn was over.
	ended fence.Token
}

// handover is a release that the next one's grant completes.
type handover struct {
	// first is the released grant's first token.
	first fence.Token
	done  chan handed
}

// handed is what became of a handover.
type handed int

const (
	// notHanded: no grant came of it. The release has to end its own.
	notHanded handed = iota
	// sealed: the next grant came right after the released one, and sealed it.
	sealed
	// maybeSealed: whether it did is not known.
	maybeSealed
)

// settle may be called on nil, and once.
func (h *handover) settle(became handed) {
	if h != nil {
		h.done <- became
	}
}

// nudge wakes the steward.
func (b *batch) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// tend makes sure that the batch has a steward who looks at it.
func (b *batch) tend() {
	b.stopClock()
	switch {
	case b.phase == over, b.inline:
	case b.tended:
		b.nudge()
	case !b.t.closed:
		b.tended = true
		b.t.spawn(b.steward)
	}
}

// join takes in one more.
func (b *batch) join(w *waiter) {
	w.batch = b
	b.waiters = append(b.waiters, w)
	b.t.waiting++
	b.tend()
}

// leave takes one out, and reports whether he still waited.
func (b *batch) leave(w *waiter) bool {
	i := slices.Index(b.waiters, w)
	if i < 0 {
		return false
	}
	b.waiters = slices.Delete(b.waiters, i, i+1)
	b.t.waiting--
	if len(b.waiters) == 0 {
		b.nudge()
	}
	return true
}

// tell ends the waiting of the first with an outcome.
func (b *batch) tell(o outcome) {
	w := b.waiters[0]
	b.waiters = slices.Delete(b.waiters, 0, 1)
	b.t.waiting--
	w.told <- o
}

// end forgets the batch. Whoever waits in it must have been told, or moved.
func (b *batch) end() {
	if b.phase == over {
		return
	}
	b.phase = over
	b.stopClock()
	delete(b.t.holds, HoldOf(b.value))
	l := b.t.lines[b.name]
	l.batches = slices.DeleteFunc(l.batches, func(o *batch) bool { return o == b })
	if len(l.batches) == 0 {
		delete(b.t.lines, b.name)
	}
	b.leaving.settle(notHanded)
	b.leaving = nil
	b.nudge()
}

// fail ends the batch, and the waiting of everybody in it.
func (b *batch) fail(err error) {
	for len(b.waiters) > 0 {
		b.tell(outcome{err: err})
	}
	b.end()
}

// lose ends a batch whose hold the locker does not know any more. Those that wait go on in a new one, at the old place:
// nobody is skipped. A value that held the lease is never used again: a late drop of its first hold would end the second.
func (b *batch) lose() *batch {
	n := b.t.begin(b.name, max(1, b.place))
	// At the front of its line, too.
	l := b.t.lines[b.name]
	i := slices.Index(l.batches, b)
	l.batches = l.batches[:len(l.batches)-1]
	l.batches = slices.Insert(l.batches, i+1, n)
	n.waiters, b.waiters = b.waiters, nil
	for _, w := range n.waiters {
		w.batch = n
	}
	n.followed = b.followed
	b.next = n
	b.end()
	n.tend()
	return n
}

// lasts says until when the lease runs at least.
func (b *batch) lasts(until time.Time) {
	if until.After(b.until) {
		b.until = until
	}
}

// reserved takes on the value for which the lease is reserved: somebody gave it up, in whom nobody here had a part.
func (b *batch) reserved(value fence.Digest) {
	b.value, b.count, b.pushed = value, max(b.count, countOf(value)), true
}

// debt is what has to be given up in the locker when the batch ends: its value, then those under which it may have gone on.
func (b *batch) debt() debt {
	return debt{name: b.name, value: b.value, unconfirmed: b.doubt, then: b.unanswered}
}

// busy tells whether somebody has the lease, or is about to.
func (b *batch) busy() bool { return b.turn != nil || b.tenant != nil }

// slack is how much longer than asked a lease is made to run behind which others wait, so that it need not be extended
// for each of them.
func slack(ttl time.Duration) time.Duration { return min(ttl/2, 5*time.Second) }

// hand gives the turn to the first that waits, from since on. The lease is held, nobody has it, and it runs until
// since + ttl at least.
func (b *batch) hand(since time.Time, local bool) {
	t := &turn{batch: b, value: b.value, floor: b.floor, local: local, handed: b.leaving != nil, leaving: b.leaving, since: since}
	b.leaving = nil
	b.turn = t
	b.tell(outcome{turn: t})
}

// handOn gives the turn to the next without asking the locker, if that is possible now.
func (b *batch) handOn(now time.Time) bool {
	if b.unproved || b.pushed || b.phase != holding || b.busy() || len(b.waiters) == 0 || b.until.Sub(now) < b.waiters[0].ttl {
		return false
	}
	b.hand(now, true)
	return true
}

// vacate ends the tenancy: the lease is free for the next in the batch.
func (b *batch) vacate() {
	if b.tenant != nil {
		b.floor = b.tenant.first
	}
	b.tenant = nil
}

// note describes those that wait, for people.
func (b *batch) note() string {
	const most = 10
	type one struct {
		Holder string `json:"h"`
		Since  int64  `json:"s"`
	}
	var all []one
	size := 0
	for _, w := range b.waiters[:min(most, len(b.waiters))] {
		if size += len(w.holder) + 40; size > MaxNote/2 {
			break
		}
		all = append(all, one{w.holder, w.since.UnixMilli()})
	}
	text, err := json.Marshal(all)
	if err != nil || len(text) > MaxNote {
		return ""
	}
	return string(text)
}

// readNote is the reverse of note. What cannot be read is nobody: it is for people only.
func readNote(note string, now time.Time) []Waiting {
	var all []struct {
		Holder string `json:"h"`
		Since  int64  `json:"s"`
	}
	if json.Unmarshal([]byte(note), &all) != nil {
		return nil
	}
	out := make([]Waiting, 0, len(all))
	for _, w := range all {
		out = append(out, Waiting{Holder: w.Holder, For: max(0, now.Sub(time.UnixMilli(w.Since)))})
	}
	return out
}

func (b *batch) stopClock() {
	if b.clock != nil {
		b.clock.Stop()
	}
}

// entry is the batch as the locker knows it.
func (b *batch) entry() Entry {
	e := Entry{Value: b.value, Waiters: len(b.waiters), Note: b.note(), Place: b.place}
	if len(b.waiters) > 0 {
		e.Holder, e.TTL = b.waiters[0].holder, b.waiters[0].ttl
	}
	return e
}
