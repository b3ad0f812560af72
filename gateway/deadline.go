package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// deadlineSlots is in how many slots of time a limit is cut.
const deadlineSlots = 60

// deadlines are those of writes: what begins within one slot shares a deadline, and so a timer, which is at least the limit away from each.
type deadlines struct {
	limit time.Duration

	mu sync.Mutex // guards what follows
	// shared is for what begins before ends.
	shared context.Context
	ends   time.Time
	// expire is called by nobody: a deadline is reached.
	expire context.CancelFunc
}

// detached is the context of a write: the client's disconnect does not cancel it, a deadline does.
func (d *deadlines) detached(r *http.Request) context.Context {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shared == nil || !now.Before(d.ends) {
		slot := d.limit / deadlineSlots
		d.ends = now.Add(slot)
		d.shared, d.expire = context.WithDeadline(context.Background(), now.Add(d.limit).Add(slot))
	}
	return bounded{d.shared, r.Context()}
}

// bounded is a context with the deadline of one and the values of another.
type bounded struct {
	context.Context
	values context.Context
}

// Value implements context.Context. What the context package asks for, to bind a context to the one above it, is with the deadline.
func (b bounded) Value(key any) any {
	if v := b.Context.Value(key); v != nil {
		return v
	}
	return b.values.Value(key)
}
