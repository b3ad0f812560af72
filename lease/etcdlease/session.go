package etcdlease

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// sessionTTL is how long a gateway that died is taken for one that is there.
const sessionTTL = 5 * time.Second

// errSessionLost says that the gateway's entries are gone, or will be.
var errSessionLost = errors.New("etcd has forgotten the gateway")

// session is the etcd lease on which the entries of a gateway hang, and a key that tells that it is there.
type session struct {
	gate    gate
	present string

	mu    sync.Mutex
	id    clientv3.LeaseID // guarded by mu
	alive time.Time        // guarded by mu; when it was last known to run for sessionTTL
	lost  chan struct{}    // guarded by mu; closed when id is none of ours any more
}

// lease returns the gateway's etcd lease: a new one if there is none, or it was not kept alive.
func (s *session) lease(ctx context.Context, c *clientv3.Client) (clientv3.LeaseID, error) {
	id, _, err := s.get(ctx, c)
	return id, err
}

// get returns the gateway's etcd lease, and what is closed when it is lost.
func (s *session) get(ctx context.Context, c *clientv3.Client) (clientv3.LeaseID, <-chan struct{}, error) {
	if id, lost, ok := s.current(); ok {
		return id, lost, nil
	}
	if err := s.gate.enter(ctx); err != nil {
		return clientv3.NoLease, nil, err
	}
	defer s.gate.leave()
	if id, lost, ok := s.current(); ok {
		return id, lost, nil
	}
	now := time.Now()
	granted, err := c.Grant(ctx, int64(sessionTTL/time.Second))
	if err != nil {
		return clientv3.NoLease, nil, err
	}
	if _, err := c.Put(ctx, s.present, "", clientv3.WithLease(granted.ID)); err != nil {
		return clientv3.NoLease, nil, err
	}
	s.forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.alive, s.lost = granted.ID, now, make(chan struct{})
	return s.id, s.lost, nil
}

func (s *session) current() (clientv3.LeaseID, <-chan struct{}, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.lost, s.id != clientv3.NoLease && time.Since(s.alive) < sessionTTL
}

// forget drops a lease that the server may have lost, and returns which.
func (s *session) forget() clientv3.LeaseID {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.id
	if id != clientv3.NoLease {
		close(s.lost)
	}
	s.id = clientv3.NoLease
	return id
}

// keep keeps a lease alive until ctx is over or the lease is lost. It asks whether the server still has it whenever the client
// was connected anew, or had no answer for long, and tells when it has.
func (s *session) keep(ctx context.Context, c *clientv3.Client, id clientv3.LeaseID, lost, connected <-chan struct{}, back func()) error {
	for cut := false; ; cut = true {
		err := s.ask(ctx, c, id)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			s.forget()
			return errSessionLost
		case err == nil && cut:
			back()
		}
		if err == nil {
			err = s.hear(ctx, c, id, lost, connected)
		}
		if errors.Is(err, errSessionLost) || ctx.Err() != nil {
			return err
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(sessionTTL / 10):
			}
		}
	}
}

// ask asks whether the server has the lease, and renews it.
func (s *session) ask(ctx context.Context, c *clientv3.Client, id clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTTL/4)
	defer cancel()
	now := time.Now()
	_, err := c.KeepAliveOnce(ctx, id)
	if err == nil {
		s.renewed(id, now)
	}
	return err
}

// hear hears that the lease was renewed, until there is a reason to ask. One stream serves for as long as the server answers:
// for each stream the password is checked, which is slow.
func (s *session) hear(ctx context.Context, c *clientv3.Client, id clientv3.LeaseID, lost, connected <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers, err := c.KeepAlive(ctx, id)
	if err != nil {
		return err
	}
	for {
		select {
		case _, ok := <-answers:
			if !ok {
				return nil
			}
			s.renewed(id, time.Now())
		case <-connected:
			return nil
		case <-lost:
			return errSessionLost
		}
	}
}

func (s *session) renewed(id clientv3.LeaseID, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == id {
		s.alive = at
	}
}

// end removes the gateway's entries and what tells that it is there.
func (s *session) end(ctx context.Context, c *clientv3.Client) {
	if id := s.forget(); id != clientv3.NoLease {
		// Without an answer it ends by itself, somewhat later.
		_, _ = c.Revoke(ctx, id)
	}
}
