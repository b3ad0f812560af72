// Package etcdlease keeps leases in etcd: a record for each lease that is held, and a queue of those that wait for it.
//
// Every change is one transaction that compares what it builds on, and begins anew when somebody else was faster. So each
// call can be repeated, and none rests on a clock that two machines share:
//
//   - How long a lease still runs is counted by everybody for himself, from when he first saw its record, and so never
//     ends early. A record that was not written anew for its whole TTL has expired; whoever finds it so puts another in its
//     place, comparing its revision. Reservations pass in the same way.
//   - An etcd lease, which counts whole seconds and may end late, removes what nobody looks at any more. The record of a
//     lease whose holder died while nobody waited is gone by at most a quarter of its TTL later, and three seconds.
//   - The entries of a gateway hang on an etcd lease of its own, which it keeps alive while it listens. It is known to be
//     gone, and its entries with it, as soon as it stops listening, or some seconds after it died.
//
// Signals are keys below the name of the gateway they are for, which watches them.
package etcdlease

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencegate/fencegate/lease"
)

// Config tunes a Locker.
type Config struct {
	// Prefix stands before every key, with a "/" behind it, so that several deployments can share one etcd. Defaults to
	// "fencegate".
	Prefix string
	// CallTimeout bounds each call, its retries included. Defaults to 1 s.
	CallTimeout time.Duration
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, "fencegate")
	c.CallTimeout = cmp.Or(c.CallTimeout, time.Second)
	return c
}

func (c Config) validate() error {
	switch {
	case c.CallTimeout < 0:
		return fmt.Errorf("etcdlease: CallTimeout %v is negative", c.CallTimeout)
	case strings.HasSuffix(c.Prefix, "/") || !utf8.ValidString(c.Prefix):
		return fmt.Errorf("etcdlease: prefix %q ends in a slash or is no UTF-8", c.Prefix)
	}
	return nil
}

var _ lease.Locker = (*Locker)(nil)

// Locker keeps leases in etcd. It is safe for concurrent use.
type Locker struct {
	config    Config
	connect   *connector
	gateway   string // its random identity
	seen      *sightings
	backstops *backstops
	session   *session
	listening atomic.Bool
}

// New makes a Locker on a client that stays the caller's to close. Open makes a client, too, whose timeouts suit a locker.
func New(client *clientv3.Client, config Config) (*Locker, error) {
	if client == nil {
		return nil, errors.New("etcdlease: a Locker needs a client")
	}
	return newLocker(&connector{client: client, gate: newGate()}, config)
}

func newLocker(connect *connector, config Config) (*Locker, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	l := &Locker{config: config, connect: connect, gateway: rand.Text(), backstops: newBackstops()}
	l.session = &session{gate: newGate(), present: keys(config.Prefix).gateway(l.gateway)}
	var err error
	if l.seen, err = newSightings(); err != nil {
		return nil, err
	}
	return l, nil
}

// Close closes the client that Open made; a client that was given to New is the caller's. Calls that are under way fail.
func (l *Locker) Close() error { return l.connect.close() }

// gate lets one caller in at a time. Unlike a mutex it is not waited for longer than a context lasts.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

func (g gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g gate) leave() { <-g }
