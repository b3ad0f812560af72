package etcdlease

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// Enter implements lease.Locker.
func (l *Locker) Enter(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
	if err := checkNote(e.Note); err != nil {
		return lease.Standing{}, err
	}
	e.TTL = bounded(e.TTL)
	var st lease.Standing
	err := l.call(ctx, name, e.Value, 1, func(ctx context.Context, a *attempt) error {
		s, err := a.settle(ctx)
		switch {
		case err != nil:
		case s.heldBy(e.Value), s.stands():
			note := e
			if s.heldBy(e.Value) && !s.held.reserved {
				note.Waiters-- // the first of them has it
			}
			if err = a.renew(ctx, s, note); err == nil && a.again && s.stands() {
				a.tellFollowed(ctx, s)
			}
		case s.free():
			err = a.take(ctx, s, e)
		case e.Waiters <= 0:
		case s.entries >= lease.MaxQueue:
			return fence.Errorf(fence.CodeRateLimited, "%d entries wait for the lease already", s.entries)
		default:
			err = a.append(ctx, s, e)
		}
		if err == nil {
			st = s.standing(e.Value)
			if s.where.value == e.Value {
				st.Place = s.where.place
			}
		}
		return err
	})
	if err != nil {
		return lease.Standing{}, fmt.Errorf("etcd enter: %w", err)
	}
	return st, nil
}

// Stay implements lease.Locker.
func (l *Locker) Stay(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
	if err := checkNote(e.Note); err != nil {
		return lease.Standing{}, err
	}
	var st lease.Standing
	err := l.call(ctx, name, e.Value, 1, func(ctx context.Context, a *attempt) error {
		s, err := a.settle(ctx)
		if err == nil && (s.heldBy(e.Value) || s.stands()) {
			err = a.renew(ctx, s, e)
		}
		if err == nil {
			st = s.standing(e.Value)
		}
		return err
	})
	if err != nil {
		return lease.Standing{}, fmt.Errorf("etcd stay: %w", err)
	}
	return st, nil
}

func checkNote(note string) error {
	if len(note) > lease.MaxNote {
		return fence.Errorf(fence.CodeInvalidRequest, "a note has at most %d bytes, this one has %d", lease.MaxNote, len(note)).In("note")
	}
	return nil
}

// take takes a lease that is free, if nobody waits for it. The entry's place is where it would stand.
func (a *attempt) take(ctx context.Context, s *state, e lease.Entry) error {
	h := held{value: e.Value, gateway: a.gateway, holder: e.Holder, ttl: e.TTL, waiters: max(e.Waiters-1, 0)}
	if err := a.hold(ctx, s, h, a.nobodyWaits()); err != nil {
		return err
	}
	s.where = a.stand(s, e)
	return nil
}

// hold puts a record in place of the one that was read, and lets it count its time from now.
func (a *attempt) hold(ctx context.Context, s *state, h held, compares ...clientv3.Cmp) error {
	h.stamp = rand.Int64()
	hang, err := a.backstop(ctx, h.ttl)
	if err != nil {
		return err
	}
	put := clientv3.OpPut(a.keys.held(), h.String(), clientv3.WithLease(hang))
	if _, err := a.commit(ctx, append(compares, a.heldIs(s)), put); err != nil {
		return err
	}
	a.seen.add(a.name, h.stamp, h.ttl)
	s.held, s.left = h, h.ttl
	return nil
}

// renew renews the note of what holds the lease or stands in its queue, if it has changed.
func (a *attempt) renew(ctx context.Context, s *state, e lease.Entry) error {
	waiters := max(e.Waiters, 0)
	if s.heldBy(e.Value) {
		if s.held.waiters == waiters {
			return nil
		}
		h := s.held
		h.waiters = waiters
		// It counts its time as before.
		put := clientv3.OpPut(a.keys.held(), h.String(), clientv3.WithIgnoreLease())
		if _, err := a.commit(ctx, []clientv3.Cmp{a.heldIs(s)}, put); err != nil {
			return err
		}
		s.held = h
		return nil
	}
	session, err := a.session.lease(ctx, a.c)
	if err != nil {
		return err
	}
	note := entry{Holder: s.entry.Holder, Waiters: waiters, Note: e.Note}
	if note == s.entry && session == s.entryLease {
		return nil
	}
	compares := []clientv3.Cmp{unchanged(a.keys.entry(e.Value), s.whereRev), unchanged(a.keys.stand(s.where), s.standRev)}
	_, err = a.commit(ctx, compares, a.standAt(s.where, note, session)...)
	return err
}

// append puts an entry in the queue of a lease that somebody else holds.
func (a *attempt) append(ctx context.Context, s *state, e lease.Entry) error {
	session, err := a.session.lease(ctx, a.c)
	if err != nil {
		return err
	}
	at := a.stand(s, e)
	if e.Place <= 0 {
		if at.place, err = a.behindAll(ctx, at.place); err != nil {
			return err
		}
	}
	ops := a.standAt(at, entry{Holder: e.Holder, Waiters: e.Waiters, Note: e.Note}, session)
	// Who stands behind it once it stands there.
	behind, end := a.keys.behind(at)
	ops = append(ops, clientv3.OpGet(behind, end, clientv3.WithLimit(1), clientv3.WithKeysOnly()))
	r, err := a.commit(ctx, []clientv3.Cmp{a.heldIs(s), unchanged(a.keys.entry(e.Value), s.whereRev)}, ops...)
	if err != nil {
		return err
	}
	s.where, s.standRev, s.entries = at, r.Header.Revision, s.entries+1
	s.followed = len(r.Responses[len(ops)-1].GetResponseRange().Kvs) > 0
	a.tellFollowed(ctx, s)
	return nil
}

// stand is where an entry stands or would stand: at the place that it had, else behind those that entered before. The store's
// revision grows with every entry.
func (a *attempt) stand(s *state, e lease.Entry) stand {
	at := stand{place: e.Place, value: e.Value, gateway: a.gateway}
	if at.place <= 0 {
		at.place = s.rev + 1
	}
	return at
}

// behindAll returns a place behind all that stand. Some may stand farther back than the revision: after the store went back to
// an older copy, those that enter again at their places.
func (a *attempt) behindAll(ctx context.Context, place int64) (int64, error) {
	key, end := a.keys.from(place)
	r, err := a.c.Get(ctx, key, end, clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil || len(r.Kvs) == 0 {
		return place, err
	}
	if last, ok := standOf(r.Kvs[0]); ok && last.place < math.MaxInt64 {
		place = last.place + 1
	}
	return place, nil
}

// standAt writes an entry and where it is to be found.
func (a *attempt) standAt(w stand, e entry, session clientv3.LeaseID) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpPut(a.keys.stand(w), e.String(), clientv3.WithLease(session)),
		clientv3.OpPut(a.keys.entry(w.value), w.String(), clientv3.WithLease(session)),
	}
}

// leave removes an entry.
func (a *attempt) leave(w stand) []clientv3.Op {
	return []clientv3.Op{clientv3.OpDelete(a.keys.stand(w)), clientv3.OpDelete(a.keys.entry(w.value))}
}
