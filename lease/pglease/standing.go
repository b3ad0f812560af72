package pglease

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// row is a fence.standing as it is read.
type row struct {
	value, tenant      []byte
	remaining, renewed int64
	behind, entries    int32
	lease.Standing
}

// dest are the columns, in their order.
func (r *row) dest() []any {
	return []any{&r.value, &r.Reserved, &r.Holder, &r.remaining, &r.tenant, &r.renewed, &r.behind, &r.Place, &r.Followed, &r.entries}
}

func (r *row) standing() lease.Standing {
	s := r.Standing
	s.Value, s.Tenant = digest(r.value), digest(r.tenant)
	s.Remaining, s.Renewed = time.Duration(r.remaining)*time.Microsecond, time.Duration(r.renewed)*time.Microsecond
	s.Behind, s.Entries = int(r.behind), int(r.entries)
	return s
}

// digest reads a value. One that is none of ours gets a digest that no acquire has.
func digest(b []byte) fence.Digest {
	switch len(b) {
	case 0:
		return fence.Digest{}
	case len(fence.Digest{}):
		return fence.Digest(b)
	}
	return fence.DigestOf("foreign", string(b))
}

// standing calls a function that returns one.
func (l *Locker) standing(ctx context.Context, sql string, args ...any) (lease.Standing, error) {
	var r row
	if err := l.call(ctx, sql, args, r.dest()...); err != nil {
		return lease.Standing{}, err
	}
	return r.standing(), nil
}

func (l *Locker) look(ctx context.Context, name string, most int) (lease.Standing, error) {
	var r row
	var values [][]byte
	var waiters []int32
	var notes []string
	err := l.call(ctx, "SELECT (l.standing).*, l.queued, l.waiters, l.notes FROM fence.lease_look($1::text, $2::uuid, $3::int) l",
		[]any{name, l.gateway, int32(min(max(most, 0), lease.MaxQueue))}, append(r.dest(), &values, &waiters, &notes)...)
	if err != nil {
		return lease.Standing{}, err
	}
	s := r.standing()
	for i, v := range values {
		s.Queue = append(s.Queue, lease.Queued{Value: digest(v), Waiters: int(waiters[i]), Note: notes[i]})
	}
	return s, nil
}

// note remembers, in a locker that polls, whether anything can happen that concerns the value.
func (l *Locker) note(value fence.Digest, s lease.Standing) {
	hold := lease.HoldOf(value)
	switch {
	case l.pollMillis == 0:
	case lease.HoldOf(s.Value) == hold:
		l.entries.keep(hold, time.Now().Add(s.Remaining))
	case s.Place > 0:
		l.entries.keep(hold, time.Now().Add(queueMemory))
	default:
		l.entries.forget(hold)
	}
}

// queueMemory is how long the database keeps an entry that is not heard of.
const queueMemory = 2 * time.Hour
