// Package redislease keeps leases in Redis: one key with an expiry per lease, and nothing else. There is no counter,
// so there is nothing that a flush, a fail-over or a restore could turn back.
//
// Every change is one script that compares the value, so each can be repeated: the client retries what got no
// answer without taking, extending or dropping anybody else's lease.
package redislease

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

var (
	//go:embed take.lua
	takeScript string
	//go:embed extend.lua
	extendScript string
	//go:embed drop.lua
	dropScript string
	//go:embed look.lua
	lookScript string
)

// Config tunes a Locker.
type Config struct {
	// Prefix stands before every key, so that several deployments can share one Redis. Defaults to "fencegate".
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
		return fmt.Errorf("redislease: CallTimeout %v is negative", c.CallTimeout)
	case strings.ContainsAny(c.Prefix, "{}"):
		// A brace in the prefix would decide the cluster slot in place of the lease.
		return fmt.Errorf("redislease: prefix %q has a brace", c.Prefix)
	}
	return nil
}

var _ lease.Locker = (*Locker)(nil)

// Locker keeps leases in Redis. It is safe for concurrent use.
type Locker struct {
	client                   redis.UniversalClient
	config                   Config
	take, extend, drop, look *redis.Script
}

// New makes a Locker. The client stays the caller's to close; it must have ContextTimeoutEnabled, without which a
// server that hangs outlasts CallTimeout. Open makes such a client.
func New(client redis.UniversalClient, config Config) (*Locker, error) {
	if client == nil {
		return nil, errors.New("redislease: a Locker needs a client")
	}
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	return &Locker{
		client: client,
		config: config,
		take:   redis.NewScript(takeScript),
		extend: redis.NewScript(extendScript),
		drop:   redis.NewScript(dropScript),
		look:   redis.NewScript(lookScript),
	}, nil
}

// Take implements lease.Locker.
func (l *Locker) Take(ctx context.Context, name string, h lease.Holding) (lease.Holding, error) {
	standing, err := l.holding(ctx, l.take, name, render(h), millis(h.Remaining), millis(lease.MaxTTL))
	if err != nil {
		return lease.Holding{}, fmt.Errorf("redis take: %w", err)
	}
	return standing, nil
}

// Extend implements lease.Locker.
func (l *Locker) Extend(ctx context.Context, name string, value fence.Digest, ttl time.Duration) (bool, error) {
	ours, err := l.run(ctx, l.extend, name, value.String(), millis(ttl)).Bool()
	if err != nil {
		return false, fmt.Errorf("redis extend: %w", unavailable(err))
	}
	return ours, nil
}

// Drop implements lease.Locker. When the reply to a drop was lost and the drop is repeated, it reports false.
func (l *Locker) Drop(ctx context.Context, name string, value fence.Digest) (bool, error) {
	ours, err := l.run(ctx, l.drop, name, value.String()).Bool()
	if err != nil {
		return false, fmt.Errorf("redis drop: %w", unavailable(err))
	}
	return ours, nil
}

// Look implements lease.Locker.
func (l *Locker) Look(ctx context.Context, name string) (lease.Holding, error) {
	standing, err := l.holding(ctx, l.look, name, millis(lease.MaxTTL))
	if err != nil {
		return lease.Holding{}, fmt.Errorf("redis look: %w", err)
	}
	return standing, nil
}

// holding runs a script that answers with the value that holds the lease and its remaining time.
func (l *Locker) holding(ctx context.Context, s *redis.Script, name string, args ...any) (lease.Holding, error) {
	reply, err := l.run(ctx, s, name, args...).Slice()
	if err != nil {
		return lease.Holding{}, unavailable(err)
	}
	if len(reply) == 0 {
		return lease.Holding{}, nil
	}
	return parse(reply)
}

// run runs a script by its hash, and by its text where the server does not know it.
func (l *Locker) run(ctx context.Context, s *redis.Script, name string, args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(ctx, l.config.CallTimeout)
	defer cancel()
	return s.Run(ctx, l.client, []string{l.key(name)}, args...)
}

// key encodes the name, which may be or begin with a brace, inside the hash tag, which then is never empty: a
// lease has one slot in a cluster.
func (l *Locker) key(name string) string {
	return l.config.Prefix + ":{" + base64.RawURLEncoding.EncodeToString([]byte(name)) + "}"
}

// millis is a time to live as the scripts take it: positive, and no longer than a lease may be.
func millis(d time.Duration) int64 {
	return max(1, min(d, lease.MaxTTL).Milliseconds())
}

// unavailable gives an error its code. Whatever Redis answers in place of a script's result (READONLY, LOADING, OOM,
// a missing right), leases cannot be had from it now.
func unavailable(err error) error {
	return fence.Wrap(fence.CodeUnavailable, err, "redis does not keep leases at present")
}
