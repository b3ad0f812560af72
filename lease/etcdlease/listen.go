package etcdlease

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/fencegate/fencegate/lease"
)

var (
	errCut      = errors.New("the watch has ended")
	errListens  = errors.New("etcdlease: the locker listens already")
	errIsClosed = errors.New("etcdlease: the locker is closed")
)

// Listen implements lease.Locker. A locker listens once at a time. When it ends, those that wait here are forgotten.
func (l *Locker) Listen(ctx context.Context, f func(lease.Signal)) error {
	if !l.listening.CompareAndSwap(false, true) {
		return errListens
	}
	defer l.listening.Store(false)
	defer l.leave(ctx)
	for n := 0; ; n++ {
		began := time.Now()
		err := l.listen(ctx, f)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errIsClosed) {
			return err
		}
		if time.Since(began) > time.Second {
			n = 0
		}
		const least, most = 20 * time.Millisecond, time.Second
		timer := time.NewTimer(least + rand.N(min(most, least<<min(n, 8))))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// leave tells the others that this gateway is gone.
func (l *Locker) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.config.CallTimeout)
	defer cancel()
	if c, err := l.connect.get(ctx); err == nil {
		l.session.end(ctx, c)
	}
}

// listen tells signals until it is cut off for good: the watch or the session has ended. The client mends connections by
// itself, and then goes on from the revision that it saw last, so that no signal is lost.
func (l *Locker) listen(ctx context.Context, f func(lease.Signal)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel(nil)

	c, err := l.connect.get(ctx)
	if err != nil {
		return err
	}
	session, lost, err := l.arrive(ctx, c)
	if err != nil {
		return err
	}
	connected, back := make(chan struct{}, 1), make(chan struct{}, 1)
	helpers.Go(func() { connections(ctx, c.ActiveConnection(), connected) })
	helpers.Go(func() { cancel(l.session.keep(ctx, c, session, lost, connected, func() { tell(back) })) })

	prefix := keys(l.config.Prefix).signals(l.gateway)
	// It returns once it watches. A member without a leader would never hear of a change.
	events := c.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithFilterDelete(), clientv3.WithCreatedNotify())
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-back:
			f(lease.Signal{Kind: lease.Resync})
		case r, ok := <-events:
			if !ok || r.Err() != nil {
				return errors.Join(errCut, r.Err())
			}
			if r.Created {
				f(lease.Signal{Kind: lease.Resync})
			}
			for _, e := range r.Events {
				kind, name, _ := strings.Cut(strings.TrimPrefix(string(e.Kv.Key), prefix), "/")
				if signal, ok := parseSignal(kind, name, string(e.Kv.Value)); ok {
					f(signal)
				}
			}
		}
	}
}

// arrive tells the others that this gateway is there.
func (l *Locker) arrive(ctx context.Context, c *clientv3.Client) (clientv3.LeaseID, <-chan struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.CallTimeout)
	defer cancel()
	return l.session.get(ctx, c)
}

// connections tells when the client is connected anew.
func connections(ctx context.Context, conn *grpc.ClientConn, connected chan<- struct{}) {
	for state := conn.GetState(); conn.WaitForStateChange(ctx, state); {
		if state = conn.GetState(); state == connectivity.Ready {
			tell(connected)
		}
	}
}

// tell leaves a word for somebody who has not heard it yet.
func tell(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
