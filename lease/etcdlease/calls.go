package etcdlease

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// Extend implements lease.Locker.
func (l *Locker) Extend(ctx context.Context, name string, x lease.Extension) (lease.Standing, error) {
	x.TTL = bounded(x.TTL)
	about := x.Value
	if (x.Next != fence.Digest{}) {
		about = x.Next
	}
	var st lease.Standing
	err := l.call(ctx, name, x.Value, 1, func(ctx context.Context, a *attempt) error {
		s, err := a.settle(ctx)
		if err == nil && s.heldBy(x.Value) {
			err = a.hold(ctx, s, l.extended(s, x))
		}
		if err == nil {
			st = s.standing(about)
		}
		return err
	})
	if err != nil {
		return lease.Standing{}, fmt.Errorf("etcd extend: %w", err)
	}
	return st, nil
}

// extended is the record of a lease that is extended or claimed.
func (l *Locker) extended(s *state, x lease.Extension) held {
	h := s.held
	shortens := h.reserved || x.Next != fence.Digest{}
	if h.reserved {
		h.reserved, h.holder = false, x.Holder
	}
	h.tenant, h.ttl, h.renewed = x.Tenant, x.TTL, 0
	if h.gateway != l.gateway {
		h.renewed = x.TTL
	} else if x.Waiters >= 0 {
		h.waiters = x.Waiters
	}
	if (x.Next != fence.Digest{}) {
		h.value = x.Next
	}
	if !shortens {
		h.ttl = max(h.ttl, bounded(s.left))
	}
	return h
}

// Drop implements lease.Locker. When its reply was lost and it is repeated, it may report that there was nothing to drop.
func (l *Locker) Drop(ctx context.Context, name string, v fence.Digest) (lease.Dropped, error) {
	var dropped lease.Dropped
	err := l.call(ctx, name, v, 1, func(ctx context.Context, a *attempt) error {
		s, err := a.settle(ctx)
		switch {
		case err != nil:
			return err
		case s.heldBy(v):
			dropped.Had = true
			dropped.Next, err = a.giveUp(ctx, s)
		case s.stands():
			dropped = lease.Dropped{Had: true}
			_, err = a.commit(ctx, []clientv3.Cmp{unchanged(a.keys.entry(v), s.whereRev)}, a.leave(s.where)...)
		default:
			// If an attempt before this one went without an answer, it was made.
			dropped.Next = dropped.Had && !s.free() && s.held.reserved
		}
		if errors.Is(err, errConflict) {
			dropped = lease.Dropped{}
		}
		return err
	})
	if err != nil {
		return lease.Dropped{}, fmt.Errorf("etcd drop: %w", err)
	}
	return dropped, nil
}

// giveUp drops a lease that the value holds, and reports whether it went on to somebody.
func (a *attempt) giveUp(ctx context.Context, s *state) (next bool, err error) {
	if s.held.gateway != a.gateway && s.held.waiters > 0 {
		there, err := a.present(ctx, s.held.gateway)
		if err != nil {
			return false, err
		}
		if there {
			again := held{value: lease.NextValue(s.held.value), gateway: s.held.gateway, holder: s.held.holder, waiters: s.held.waiters}
			return true, a.reserveFor(ctx, s, again, nil)
		}
	}
	if s.entries > 0 {
		return true, a.reserve(ctx, s)
	}
	_, err = a.commit(ctx, []clientv3.Cmp{a.heldIs(s), a.nobodyWaits()}, clientv3.OpDelete(a.keys.held()))
	if err == nil {
		a.seen.forget(a.name)
	}
	return false, err
}

// Look implements lease.Locker.
func (l *Locker) Look(ctx context.Context, name string, entries int) (lease.Standing, error) {
	var st lease.Standing
	entries = min(entries, lease.MaxQueue)
	err := l.call(ctx, name, fence.Digest{}, entries, func(ctx context.Context, a *attempt) error {
		s, err := a.settle(ctx)
		if err == nil {
			st = s.standing(fence.Digest{})
			st.Queue = s.queue(entries)
		}
		return err
	})
	if err != nil {
		return lease.Standing{}, fmt.Errorf("etcd look: %w", err)
	}
	return st, nil
}
