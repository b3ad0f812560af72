package redislease

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
)

var errListening = errors.New("redislease: the locker listens already")

// Listen implements lease.Locker. A locker can listen once at a time. It uses one connection, in a cluster one to each
// node that has a lease for which the locker waits.
func (l *Locker) Listen(ctx context.Context, f func(lease.Signal)) error {
	if !l.listening.CompareAndSwap(false, true) {
		return errListening
	}
	defer l.listening.Store(false)
	if l.shards != nil {
		l.shards.listen(ctx, f)
		return nil
	}
	for retry := newRetry(); ; {
		l.listen(ctx, func(s lease.Signal) {
			retry = newRetry()
			f(s)
		})
		if !retry.wait(ctx) {
			return nil
		}
	}
}

// listen tells signals until the connection fails or ctx is over.
func (l *Locker) listen(ctx context.Context, f func(lease.Signal)) {
	channel := l.channels() + l.gateway
	s := subscription{
		pubsub:  l.client.Subscribe(ctx),
		reached: func(ctx context.Context) (int64, error) { return l.client.Publish(ctx, channel, "").Result() },
		timeout: l.config.CallTimeout,
	}
	var closing sync.WaitGroup
	defer closing.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A read that waits is ended by closing its connection only.
	closing.Go(func() { <-ctx.Done(); s.pubsub.Close() })
	if err := s.pubsub.Subscribe(ctx, channel); err != nil {
		return
	}
	s.receive(ctx, func(message any) error {
		switch m := message.(type) {
		case *redis.Subscription:
			f(lease.Signal{Kind: lease.Resync})
		case *redis.Message:
			if signal, err := parseSignal(m.Payload); err == nil {
				f(signal)
			}
		}
		return nil
	})
}

// parseSignal reads a published message. An empty one is a subscription's question whether it is heard.
func parseSignal(message string) (lease.Signal, error) {
	kind, rest, _ := strings.Cut(message, " ")
	encoded, value, _ := strings.Cut(rest, " ")
	name, err := base64.RawURLEncoding.DecodeString(encoded)
	s := lease.Signal{Name: string(name), Value: parseDigest(value)}
	switch {
	case err != nil || s.Value == (fence.Digest{}):
		return lease.Signal{}, fmt.Errorf("%q is no signal", message)
	case kind == "pushed":
		s.Kind = lease.Pushed
	case kind == "followed":
		s.Kind = lease.Followed
	default:
		return lease.Signal{}, fmt.Errorf("%q is no signal", message)
	}
	return s, nil
}

// retry waits longer and longer between attempts, each time for another while: many gateways miss one server at once.
type retry struct{ next time.Duration }

func newRetry() *retry { return &retry{firstRetry} }

// wait reports whether there is a next attempt: not when ctx is over.
func (r *retry) wait(ctx context.Context) bool {
	d := r.next/2 + rand.N(r.next/2)
	r.next = min(2*r.next, lastRetry)
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return ctx.Err() == nil
	}
}
