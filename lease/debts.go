package lease

import (
	"container/heap"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// debt is a value that is to be given up in the locker.
type debt struct {
	name  string
	value fence.Digest
	// unconfirmed: an entry of the value was sent and not answered. It may still be under way, and come after the drop.
	unconfirmed bool
	// then are values that may hold the lease once this one does not.
	then []fence.Digest
	// dropped is how often it was dropped, due when it is dropped next.
	dropped    int
	due, until time.Time
}

const (
	// maxDebts bounds how many are remembered. What is not stands until it runs out.
	maxDebts = 10_000
	// debtKept is how long one is tried.
	debtKept = MaxTTL
)

// dropAgain is how long after its n-th drop an unconfirmed debt is dropped once more: a server that was cut off can get an entry
// for as long as the system of whoever sent it repeats it. It is false when that is over.
func dropAgain(n int) (time.Duration, bool) {
	pauses := [...]time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute}
	if n > len(pauses) {
		return 0, false
	}
	return pauses[n-1], true
}

// debts are what this gateway has to give up and has not yet. turns.mu guards them.
type debts struct {
	byDue   dueFirst
	working bool
	wake    chan struct{}
}

// dueFirst is a heap.
type dueFirst []debt

func (d dueFirst) Len() int           { return len(d) }
func (d dueFirst) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d dueFirst) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dueFirst) Push(x any)        { *d = append(*d, x.(debt)) }
func (d *dueFirst) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// giveUp drops a value, now or as soon as the locker can be reached. The error tells that it was not now.
func (t *turns) giveUp(d debt) error {
	err := t.drop(d.name, d.value)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.owe(d)
	} else {
		t.dropped(d)
	}
	return err
}

// owe remembers a debt, and sees to it that it is paid. t.mu is held.
func (t *turns) owe(d debt) {
	if d.until.IsZero() {
		d.until = time.Now().Add(debtKept)
	}
	if t.closed || len(t.debts.byDue) >= maxDebts {
		return
	}
	heap.Push(&t.debts.byDue, d)
	if !t.debts.working {
		t.debts.working = true
		t.spawn(t.pay)
	}
	select {
	case t.debts.wake <- struct{}{}:
	default:
	}
}

// dropped is what follows a drop. t.mu is held.
func (t *turns) dropped(d debt) {
	for _, v := range d.then {
		t.owe(debt{name: d.name, value: v})
	}
	d.then = nil
	d.dropped++
	if pause, again := dropAgain(d.dropped); again && d.unconfirmed {
		d.due = time.Now().Add(pause)
		t.owe(d)
	}
}

// pay drops what is owed, one value at a time. While the locker cannot be reached it tries once in a while.
func (t *turns) pay() {
	failed := t.backoff()
	for {
		t.mu.Lock()
		if t.closed || len(t.debts.byDue) == 0 {
			t.debts.working = false
			t.mu.Unlock()
			return
		}
		if wait := time.Until(t.debts.byDue[0].due); wait > 0 {
			t.mu.Unlock()
			t.rest(wait)
			continue
		}
		d := heap.Pop(&t.debts.byDue).(debt)
		t.mu.Unlock()
		err := t.drop(d.name, d.value)
		t.mu.Lock()
		if err == nil {
			t.dropped(d)
		} else if time.Now().Before(d.until) {
			t.owe(d)
		}
		t.mu.Unlock()
		if err == nil {
			failed = t.backoff()
		} else if sleep(t.ctx, failed.next()) != nil {
			return
		}
	}
}

// rest waits, or until there is another debt.
func (t *turns) rest(wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.debts.wake:
	case <-t.ctx.Done():
	}
}

func (t *turns) backoff() *backoff {
	return &backoff{pause: t.config.PollMin, most: t.config.PollMax}
}
