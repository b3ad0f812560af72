package etcdlease

import (
	"context"
	"math/rand/v2"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// handOn gives a lease that is free to the first of its queue, or brings that closer. The caller reads anew.
func (a *attempt) handOn(ctx context.Context, s *state) error {
	if s.heldRev > 0 && s.held.reserved {
		forgotten, err := a.forgetIdle(ctx, s)
		if err != nil || forgotten {
			return err
		}
	}
	return a.reserve(ctx, s)
}

// reserve gives the lease to the first of its queue, for a while, and tells his gateway.
func (a *attempt) reserve(ctx context.Context, s *state) error {
	kv := s.first[0]
	first, ok := standOf(kv)
	if !ok {
		// It is nobody's, who could be told.
		if _, err := a.commit(ctx, []clientv3.Cmp{a.heldIs(s)}, clientv3.OpDelete(string(kv.Key))); err != nil {
			return err
		}
		return errConflict
	}
	e := parseEntry(kv)
	next := held{value: first.value, gateway: first.gateway, holder: e.Holder, waiters: max(e.Waiters, 0)}
	stillFirst := []clientv3.Cmp{unchanged(string(kv.Key), kv.ModRevision), a.nobodyBefore(first)}
	return a.reserveFor(ctx, s, next, stillFirst, a.leave(first)...)
}

// reserveFor lets the value claim the lease for a while, and tells its gateway.
func (a *attempt) reserveFor(ctx context.Context, s *state, next held, compares []clientv3.Cmp, ops ...clientv3.Op) error {
	next.reserved, next.ttl, next.stamp = true, lease.Window, rand.Int64()
	hang, err := a.backstop(ctx, max(next.ttl, signalTTL))
	if err != nil {
		return err
	}
	ops = append(ops,
		clientv3.OpPut(a.keys.held(), next.String(), clientv3.WithLease(hang)),
		a.signal(next.gateway, signalPushed, next.value, hang),
	)
	if _, err := a.commit(ctx, append(compares, a.heldIs(s)), ops...); err != nil {
		return err
	}
	s.held, s.left = next, a.seen.add(a.name, next.stamp, next.ttl)
	return nil
}

// forgetIdle removes the entries of a gateway that did not claim what was reserved for it, and reports whether it had any.
// Otherwise each would cost as much time as the first. When it wakes up they enter again at their places.
func (a *attempt) forgetIdle(ctx context.Context, s *state) (bool, error) {
	if s.held.gateway == a.gateway {
		return false, nil // who calls is not idle
	}
	all, err := a.c.Get(ctx, a.keys.queue(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return false, err
	}
	const most = 100 // operations in a transaction; a server takes 128
	var ops []clientv3.Op
	forgotten := false
	remove := func() error {
		_, err := a.commit(ctx, []clientv3.Cmp{a.heldIs(s)}, ops...)
		ops = nil
		return err
	}
	for _, kv := range all.Kvs {
		where, ok := standOf(kv)
		if !ok || where.gateway != s.held.gateway {
			continue
		}
		forgotten = true
		if ops = append(ops, a.leave(where)...); len(ops) >= most {
			if err := remove(); err != nil {
				return false, err
			}
		}
	}
	if !forgotten {
		return false, nil
	}
	hang, err := a.backstop(ctx, signalTTL)
	if err != nil {
		return false, err
	}
	ops = append(ops, a.signal(s.held.gateway, signalResync, fence.Digest{}, hang))
	return true, remove()
}

// Kinds of signals, as they stand in keys.
const (
	signalPushed   = "pushed"
	signalFollowed = "followed"
	signalResync   = "resync"
)

// signal tells a gateway what concerns it.
func (a *attempt) signal(gateway, kind string, v fence.Digest, hang clientv3.LeaseID) clientv3.Op {
	return clientv3.OpPut(keys(a.config.Prefix).signal(gateway, kind, a.name), v.String(), clientv3.WithLease(hang))
}

// tellFollowed tells the one before an entry that somebody stands behind it now, unless that is known: it is in this gateway,
// or somebody stood there before. What he does not hear he finds when he looks.
func (a *attempt) tellFollowed(ctx context.Context, s *state) {
	if s.followed {
		return
	}
	before := stand{value: s.held.value, gateway: s.held.gateway}
	first, its := a.keys.before(s.where)
	r, err := a.c.Get(ctx, first, its, clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err == nil && len(r.Kvs) > 0 {
		before, _ = standOf(r.Kvs[0])
	}
	if err != nil || before.gateway == "" || before.gateway == a.gateway {
		return
	}
	if hang, err := a.backstop(ctx, signalTTL); err == nil {
		_, _ = a.c.Do(ctx, a.signal(before.gateway, signalFollowed, before.value, hang))
	}
}

// present tells whether a gateway is there.
func (a *attempt) present(ctx context.Context, gateway string) (bool, error) {
	r, err := a.c.Get(ctx, keys(a.config.Prefix).gateway(gateway), clientv3.WithCountOnly())
	if err != nil {
		return false, err
	}
	return r.Count > 0, nil
}

// parseSignal reads what signal wrote, with the kind and the name from the key.
func parseSignal(kind, name, v string) (lease.Signal, bool) {
	value, ok := parseDigest(v)
	decoded, err := decodeName(name)
	if !ok || err != nil {
		return lease.Signal{}, false
	}
	switch kind {
	case signalPushed:
		return lease.Signal{Kind: lease.Pushed, Name: decoded, Value: value}, true
	case signalFollowed:
		return lease.Signal{Kind: lease.Followed, Name: decoded, Value: value}, true
	case signalResync:
		return lease.Signal{Kind: lease.Resync}, true
	}
	return lease.Signal{}, false
}
