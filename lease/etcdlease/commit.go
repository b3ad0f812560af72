package etcdlease

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencegate/fencegate/fence"
)

// errConflict says that the lease does not stand any more as it was read: nothing was changed.
var errConflict = errors.New("another was faster")

// call makes attempts at a call until one succeeds or the time is over. Between two of them the lease may have changed, or
// the first have been made without an answer: so each reads how the lease stands.
func (l *Locker) call(ctx context.Context, name string, v fence.Digest, entries int, try func(context.Context, *attempt) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.config.CallTimeout)
	defer cancel()
	for n := 0; ; n++ {
		err := l.try(ctx, attempt{Locker: l, name: name, keys: keys(l.config.Prefix).lease(name), value: v, entries: entries, again: n > 0}, try)
		if err == nil || !passing(err) || pause(ctx, n) != nil {
			return coded(err)
		}
	}
}

func (l *Locker) try(ctx context.Context, a attempt, try func(context.Context, *attempt) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if a.c, err = l.connect.get(ctx); err != nil {
		return err
	}
	return try(ctx, &a)
}

// pause waits before another attempt: not at all at first, then for a random time that grows.
func pause(ctx context.Context, n int) error {
	if n < 2 {
		return ctx.Err()
	}
	const most = 20 * time.Millisecond
	timer := time.NewTimer(rand.N(min(most, time.Millisecond<<min(n, 8))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// passing tells whether the next attempt may go better.
func passing(err error) bool {
	var server rpctypes.EtcdError
	switch {
	case errors.Is(err, errConflict), errors.Is(err, rpctypes.ErrLeaseNotFound):
		return true
	case errors.As(err, &server):
		return server.Code() == codes.Unavailable
	}
	return status.Code(err) == codes.Unavailable
}

// coded gives an error its code. Whatever etcd answers (no leader, no space, a missing right), leases cannot be had from it
// now.
func coded(err error) error {
	var e *fence.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return fence.Wrap(fence.CodeUnavailable, err, "etcd does not keep leases at present")
}

// commit makes changes if all that is compared holds, else it is errConflict.
func (a *attempt) commit(ctx context.Context, compares []clientv3.Cmp, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	r, err := a.c.Txn(ctx).If(compares...).Then(ops...).Commit()
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		// Which one it was is not told.
		a.backstops.forget()
		a.session.forget()
	}
	if err == nil && !r.Succeeded {
		err = errConflict
	}
	return r, err
}

// backstop returns an etcd lease for records that run for a TTL.
func (a *attempt) backstop(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	return a.backstops.lease(ctx, a.c, ttl)
}

// heldIs compares the record of who holds the lease, or that there is none.
func (a *attempt) heldIs(s *state) clientv3.Cmp { return unchanged(a.keys.held(), s.heldRev) }

// nobodyWaits compares that the queue is empty.
func (a *attempt) nobodyWaits() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(a.keys.queue()), "=", 0).WithPrefix()
}

// nobodyBefore compares that nobody stands before an entry.
func (a *attempt) nobodyBefore(w stand) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(a.keys.queue()), "=", 0).WithRange(a.keys.stand(w))
}

// unchanged compares the revision of a key; 0 stands for none.
func unchanged(key string, rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", rev)
}
