package redislease

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// Enter implements lease.Locker.
func (l *Locker) Enter(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
	standing, err := l.entry(ctx, name, e, l.scripts.enter,
		e.Holder, millis(e.TTL), max(0, e.Waiters), e.Note, max(0, e.Place), lease.MaxQueue)
	if err != nil {
		return lease.Standing{}, fmt.Errorf("redis enter: %w", err)
	}
	return standing, nil
}

// Stay implements lease.Locker.
func (l *Locker) Stay(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
	standing, err := l.entry(ctx, name, e, l.scripts.stay, max(0, e.Waiters), e.Note)
	if err != nil {
		return lease.Standing{}, fmt.Errorf("redis stay: %w", err)
	}
	return standing, nil
}

// entry runs a script about an entry of this locker's, for whose signals it listens first.
func (l *Locker) entry(ctx context.Context, name string, e lease.Entry, s *redis.Script, args ...any) (lease.Standing, error) {
	if len(e.Note) > lease.MaxNote {
		return lease.Standing{}, fence.Errorf(fence.CodeInvalidRequest, "a note has at most %d bytes, this one has %d", lease.MaxNote, len(e.Note)).In("note")
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.CallTimeout)
	defer cancel()
	if e.Waiters > 0 {
		if err := l.shards.want(ctx, l.shardChannel(name), e.Value); err != nil {
			return lease.Standing{}, err
		}
	}
	return l.standing(ctx, s, name, e.Value, args...)
}

// Extend implements lease.Locker.
func (l *Locker) Extend(ctx context.Context, name string, x lease.Extension) (lease.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.CallTimeout)
	defer cancel()
	if x.Waiters > 0 {
		if err := l.shards.want(ctx, l.shardChannel(name), x.Value); err != nil {
			return lease.Standing{}, err
		}
	}
	standing, err := l.standing(ctx, l.scripts.extend, name, x.Value, millis(x.TTL), digest(x.Tenant), x.Holder, digest(x.Next), x.Waiters)
	if err != nil {
		return lease.Standing{}, fmt.Errorf("redis extend: %w", err)
	}
	return standing, nil
}

// Drop implements lease.Locker. When the reply to a drop was lost and the drop is repeated, it reports that there was
// nothing to drop.
func (l *Locker) Drop(ctx context.Context, name string, value fence.Digest) (lease.Dropped, error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.CallTimeout)
	defer cancel()
	reply, err := l.run(ctx, l.scripts.drop, name, value.String(), lease.NextValue(value).String()).Slice()
	if err != nil {
		return lease.Dropped{}, fmt.Errorf("redis drop: %w", unavailable(err))
	}
	l.shards.done(l.shardChannel(name), value)
	r := answer{reply: reply}
	dropped := lease.Dropped{Had: r.number() == 1, Next: r.number() == 1}
	if err := r.end(); err != nil {
		return lease.Dropped{}, fmt.Errorf("redis drop: %w", err)
	}
	return dropped, nil
}

// Look implements lease.Locker.
func (l *Locker) Look(ctx context.Context, name string, entries int) (lease.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.CallTimeout)
	defer cancel()
	reply, err := l.run(ctx, l.scripts.look, name, "", min(max(0, entries), lease.MaxQueue)).Slice()
	if err != nil {
		return lease.Standing{}, fmt.Errorf("redis look: %w", unavailable(err))
	}
	r := answer{reply: reply}
	standing := r.standing(name)
	for r.more() {
		standing.Queue = append(standing.Queue, r.queued())
	}
	if err := r.end(); err != nil {
		return lease.Standing{}, fmt.Errorf("redis look: %w", err)
	}
	return standing, nil
}

// standing runs a script that answers how the lease and the value stand.
func (l *Locker) standing(ctx context.Context, s *redis.Script, name string, value fence.Digest, args ...any) (lease.Standing, error) {
	reply, err := l.run(ctx, s, name, value.String(), args...).Slice()
	if err != nil {
		return lease.Standing{}, unavailable(err)
	}
	if len(reply) == 1 && reply[0] == "full" {
		l.shards.done(l.shardChannel(name), value)
		return lease.Standing{}, fence.Errorf(fence.CodeRateLimited, "%d entries wait for the lease already", lease.MaxQueue)
	}
	r := answer{reply: reply}
	standing := r.standing(name)
	if err := r.end(); err != nil {
		return lease.Standing{}, err
	}
	switch {
	case lease.SameHold(standing.Value, value):
		l.shards.holding(l.shardChannel(name), value, standing.Remaining)
	case standing.Place == 0:
		l.shards.done(l.shardChannel(name), value)
	}
	return standing, nil
}

// run runs a script by its hash, and by its text where the server does not know it.
func (l *Locker) run(ctx context.Context, s *redis.Script, name, value string, args ...any) *redis.Cmd {
	key := l.key(name)
	channels := l.channels()
	if l.shards != nil {
		channels = ""
	}
	return s.Run(ctx, l.client, []string{key, key + ":q", key + ":n"}, append([]any{l.gateway, channels, value}, args...)...)
}

// key encodes the name, which may be or begin with a brace, inside the hash tag, which then is never empty: a
// lease has one slot in a cluster.
func (l *Locker) key(name string) string { return l.config.Prefix + ":{" + encodeName(name) + "}" }

// channels is what the channels of all gateways begin with, outside a cluster.
func (l *Locker) channels() string { return l.config.Prefix + ":gw:" }

// shardChannel has the slot of the lease.
func (l *Locker) shardChannel(name string) string { return l.key(name) + ":" + l.gateway }

func encodeName(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

// millis is a time to live as the scripts take it: positive, and no longer than a lease may be.
func millis(d time.Duration) int64 {
	return max(1, min(d, lease.MaxTTL).Milliseconds())
}

// digest renders one that may be missing.
func digest(d fence.Digest) string {
	if d == (fence.Digest{}) {
		return ""
	}
	return d.String()
}

// unavailable gives an error its code. Whatever Redis answers in place of a script's result (READONLY, LOADING, OOM,
// a missing right), leases cannot be had from it now.
func unavailable(err error) error {
	return fence.Wrap(fence.CodeUnavailable, err, "redis does not keep leases at present")
}
