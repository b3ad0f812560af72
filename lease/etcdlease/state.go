package etcdlease

import (
	"context"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// state is how a lease stood at one revision of the store, and how a value stands to it.
type state struct {
	rev int64

	held held
	// heldRev is the revision of its record, 0 when there is none.
	heldRev int64
	// left is how long it still runs at most. Nobody holds a lease with none left.
	left time.Duration

	// where is where the value stands, and whereRev the revision of the key that says so.
	where    stand
	whereRev int64
	// standRev is the revision of its entry, 0 when it stands nowhere.
	standRev   int64
	entry      entry
	entryLease clientv3.LeaseID
	followed   bool

	entries int
	first   []*mvccpb.KeyValue
}

func (s *state) free() bool { return s.left <= 0 }

func (s *state) heldBy(v fence.Digest) bool { return !s.free() && s.held.value == v }

func (s *state) stands() bool { return s.standRev > 0 }

// attempt is one try at a call: reading how a lease stands, and changing it if it still stands so.
type attempt struct {
	*Locker
	c     *clientv3.Client
	name  string
	keys  leaseKeys
	value fence.Digest
	// entries is how many of the queue's entries are asked for.
	entries int
	// again says that an attempt before this one failed, or got no answer.
	again bool
}

// settle hands the lease on if it is free and somebody waits, until it is neither, and returns how it stands.
func (a *attempt) settle(ctx context.Context) (*state, error) {
	for {
		s, err := a.read(ctx)
		if err != nil || !s.free() || s.entries == 0 {
			return s, err
		}
		if err := a.handOn(ctx, s); err != nil {
			return nil, err
		}
	}
}

// read reads all at one revision, but for what depends on where the value stands.
func (a *attempt) read(ctx context.Context) (*state, error) {
	r, err := a.c.Txn(ctx).Then(
		clientv3.OpGet(a.keys.held()),
		clientv3.OpGet(a.keys.queue(), clientv3.WithPrefix(), clientv3.WithLimit(int64(max(a.entries, 1)))),
		clientv3.OpGet(a.keys.entry(a.value)),
	).Commit()
	if err != nil {
		return nil, err
	}
	s := &state{rev: r.Header.Revision}
	queue := r.Responses[1].GetResponseRange()
	s.entries, s.first = int(queue.Count), queue.Kvs
	if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		if err := a.readHeld(ctx, s, kvs[0]); err != nil {
			return nil, err
		}
	} else {
		a.seen.forget(a.name)
	}
	if kvs := r.Responses[2].GetResponseRange().Kvs; len(kvs) > 0 {
		return s, a.readStand(ctx, s, kvs[0])
	}
	return s, nil
}

func (a *attempt) readHeld(ctx context.Context, s *state, kv *mvccpb.KeyValue) error {
	s.held, s.heldRev = parseHeld(kv), kv.ModRevision
	if kv.Lease == int64(clientv3.NoLease) {
		return a.adopt(ctx, s, kv)
	}
	var ok bool
	if s.left, ok = a.seen.left(a.name, s.held.stamp); !ok {
		s.left = a.seen.add(a.name, s.held.stamp, a.sight(ctx, s.held, clientv3.LeaseID(kv.Lease)))
	}
	return nil
}

// adopt hangs a record that would stay for ever (an operator's, or one that was restored) on an etcd lease.
func (a *attempt) adopt(ctx context.Context, s *state, kv *mvccpb.KeyValue) error {
	hang, err := a.backstop(ctx, s.held.ttl)
	if err != nil {
		return err
	}
	put := clientv3.OpPut(a.keys.held(), string(kv.Value), clientv3.WithLease(hang))
	if _, err := a.commit(ctx, []clientv3.Cmp{a.heldIs(s)}, put); err != nil {
		return err
	}
	return errConflict // with what was read, not with anybody: it is read again
}

// sight is how long a record that is seen for the first time still runs at most: its TTL, unless it will be removed before.
// Where reading that is not worth it, or fails, its TTL will do.
func (a *attempt) sight(ctx context.Context, h held, hangs clientv3.LeaseID) time.Duration {
	const worthIt = 2 * time.Second
	if h.ttl <= worthIt {
		return h.ttl
	}
	r, err := a.c.TimeToLive(ctx, hangs)
	if err != nil {
		return h.ttl
	}
	// It is told in whole seconds, rounded down, and is -1 once the etcd lease has ended.
	return min(h.ttl, time.Duration(r.TTL+1)*time.Second)
}

func (a *attempt) readStand(ctx context.Context, s *state, kv *mvccpb.KeyValue) error {
	s.whereRev = kv.ModRevision
	where, ok := parseStand(string(kv.Value))
	if !ok || where.value != a.value {
		return nil
	}
	key, end := a.keys.behind(where)
	r, err := a.c.Txn(ctx).Then(
		clientv3.OpGet(a.keys.stand(where)),
		clientv3.OpGet(key, end, clientv3.WithLimit(1), clientv3.WithKeysOnly()),
	).Commit()
	if err != nil {
		return err
	}
	if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		s.where, s.standRev = where, kvs[0].ModRevision
		s.entry, s.entryLease = parseEntry(kvs[0]), clientv3.LeaseID(kvs[0].Lease)
		s.followed = len(r.Responses[1].GetResponseRange().Kvs) > 0
	}
	return nil
}

// standing tells it as the contract does.
func (s *state) standing(v fence.Digest) lease.Standing {
	st := lease.Standing{Entries: s.entries}
	if !s.free() {
		h := s.held
		st.Value, st.Reserved, st.Holder, st.Remaining = h.value, h.reserved, h.holder, s.left
		st.Tenant, st.Behind = h.tenant, h.waiters
		if h.renewed > 0 {
			st.Renewed = h.renewed - (h.ttl - s.left)
		}
	}
	switch {
	case s.heldBy(v):
		st.Followed = s.entries > 0
	case s.stands():
		st.Place, st.Followed = s.where.place, s.followed
	}
	return st
}

// queue tells the first entries.
func (s *state) queue(entries int) []lease.Queued {
	var all []lease.Queued
	for _, kv := range s.first[:min(entries, len(s.first))] {
		where, _ := standOf(kv)
		e := parseEntry(kv)
		all = append(all, lease.Queued{Value: where.value, Waiters: e.Waiters, Note: e.Note})
	}
	return slices.Clip(all)
}
