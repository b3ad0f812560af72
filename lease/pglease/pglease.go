// Package pglease keeps leases in PostgreSQL, in the ledger's own database (schema fence), for those that run no Redis:
// rows, and locks that last for one transaction, so that a pooler such as PgBouncer may stand before it.
//
// Each method calls one function of the database's (migrations/00009_locker.sql): one transaction, one round trip. No
// commit waits for the disk. A crash of the server or a fail-over can lose the leases of the last moment, as one of
// Redis can; the ledger makes up for it. The database's clock alone counts.
//
// A locker listens on a channel of its own (LISTEN), in one session beside its pool that holds a lock by which others see
// that it is alive: what waits in a gateway whose session has ended is passed over. Behind a pooler LISTEN works only on
// a direct connection, Config.ListenURL. Without one the locker polls a mailbox in the database, ten times a second
// while it waits for a lease or holds one: a hand-off takes so much longer, and a gateway that is gone is noticed when it
// does not claim the lease.
package pglease

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// Config tunes a Locker.
type Config struct {
	// URL is a PostgreSQL connection string, as URL or keywords: the ledger's database. Required.
	URL string
	// Pooled says that the URL leads to a pooler that gives a session to each transaction (PgBouncer, pool_mode
	// transaction). Defaults to false; a pooler that was not announced is refused with ErrPooler.
	Pooled bool
	// ListenURL is a connection string for the one session that listens: the same database, and no pooler in between.
	// Defaults to URL, and with Pooled to none.
	ListenURL string
	// MaxConns bounds the pool, without the session that listens. Defaults to 8, whatever the URL says of pools.
	MaxConns int32
	// CallTimeout bounds each call, a repetition included. Defaults to 1 s.
	CallTimeout time.Duration
	// Tracer is told of every query and connection. Defaults to none.
	Tracer pgx.QueryTracer
}

func (c Config) withDefaults() Config {
	c.MaxConns = cmp.Or(c.MaxConns, 8)
	c.CallTimeout = cmp.Or(c.CallTimeout, time.Second)
	if !c.Pooled {
		c.ListenURL = cmp.Or(c.ListenURL, c.URL)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.URL == "":
		return errors.New("pglease: no database URL")
	case c.CallTimeout < time.Millisecond:
		return fmt.Errorf("pglease: CallTimeout %v is less than 1ms", c.CallTimeout)
	case c.MaxConns < 0:
		return fmt.Errorf("pglease: MaxConns %d is negative", c.MaxConns)
	}
	return nil
}

var _ lease.Locker = (*Locker)(nil)

// Locker keeps leases in PostgreSQL. It is safe for concurrent use.
type Locker struct {
	config Config
	pool   *pgxpool.Pool
	// listen is how the session that listens is made; nil for a locker that polls.
	listen *pgx.ConnConfig
	// gateway is the locker's identity, a UUID.
	gateway string
	// pollMillis is 0 for a locker that listens.
	pollMillis int32
	// entries are those of a locker that polls.
	entries *entries
	// health is how long a session that listens may be silent before it is asked whether it lives, sweep how often what
	// means nothing any more is deleted.
	health, sweep time.Duration
}

// Open makes a Locker. It does not connect yet: a database that is down is an error of each call.
func Open(config Config) (*Locker, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	pc, err := pgxpool.ParseConfig(config.URL)
	if err != nil {
		return nil, fmt.Errorf("pglease: read the database URL: %w", err)
	}
	l := &Locker{config: config, gateway: newID(), entries: newEntries(), health: healthInterval, sweep: sweepInterval}
	if config.ListenURL != "" {
		if l.listen, err = config.listening(); err != nil {
			return nil, fmt.Errorf("pglease: read the URL for listening: %w", err)
		}
	} else {
		l.pollMillis = int32(pollInterval.Milliseconds())
	}
	config.tune(pc)
	if l.pool, err = pgxpool.NewWithConfig(context.Background(), pc); err != nil {
		return nil, fmt.Errorf("pglease: %w", err)
	}
	return l, nil
}

// Close waits for the calls under way and closes the connections. Listen must have returned.
func (l *Locker) Close() { l.pool.Close() }

// newID makes a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// Enter implements lease.Locker.
func (l *Locker) Enter(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
	if err := checkEntry(name, e); err != nil {
		return lease.Standing{}, fmt.Errorf("postgres enter: %w", err)
	}
	s, err := l.standing(ctx, "SELECT * FROM fence.lease_enter($1::text, $2::bytea, $3::uuid, $4::int, $5::bigint, $6::int, $7::text, $8::text, $9::bigint)",
		name, e.Value[:], l.gateway, l.pollMillis, millis(e.TTL), int32(e.Waiters), e.Holder, e.Note, e.Place)
	if err != nil {
		return lease.Standing{}, fmt.Errorf("postgres enter: %w", err)
	}
	l.note(e.Value, s)
	return s, nil
}

// Stay implements lease.Locker.
func (l *Locker) Stay(ctx context.Context, name string, e lease.Entry) (lease.Standing, error) {
	if err := checkEntry(name, e); err != nil {
		return lease.Standing{}, fmt.Errorf("postgres stay: %w", err)
	}
	s, err := l.standing(ctx, "SELECT * FROM fence.lease_stay($1::text, $2::bytea, $3::uuid, $4::int, $5::text)",
		name, e.Value[:], l.gateway, int32(e.Waiters), e.Note)
	if err != nil {
		return lease.Standing{}, fmt.Errorf("postgres stay: %w", err)
	}
	l.note(e.Value, s)
	return s, nil
}

// Extend implements lease.Locker.
func (l *Locker) Extend(ctx context.Context, name string, x lease.Extension) (lease.Standing, error) {
	if err := checkExtension(name, x); err != nil {
		return lease.Standing{}, fmt.Errorf("postgres extend: %w", err)
	}
	var next []byte
	if (x.Next != fence.Digest{}) {
		next = x.Next[:]
	}
	s, err := l.standing(ctx, "SELECT * FROM fence.lease_extend($1::text, $2::bytea, $3::uuid, $4::bigint, $5::bytea, $6::text, $7::bytea, $8::integer)",
		name, x.Value[:], l.gateway, millis(x.TTL), x.Tenant[:], x.Holder, next, x.Waiters)
	if err != nil {
		return lease.Standing{}, fmt.Errorf("postgres extend: %w", err)
	}
	l.note(x.Value, s)
	return s, nil
}

// Drop implements lease.Locker. When the reply to a drop was lost and the drop is repeated, it reports false.
func (l *Locker) Drop(ctx context.Context, name string, value fence.Digest) (lease.Dropped, error) {
	err := checkName(name, value)
	next := lease.NextValue(value)
	var d lease.Dropped
	if err == nil {
		err = l.call(ctx, "SELECT * FROM fence.lease_drop($1::text, $2::bytea, $3::uuid, $4::bytea)", []any{name, value[:], l.gateway, next[:]}, &d.Had, &d.Next)
	}
	if err != nil {
		return lease.Dropped{}, fmt.Errorf("postgres drop: %w", err)
	}
	l.entries.forget(lease.HoldOf(value))
	return d, nil
}

// Look implements lease.Locker.
func (l *Locker) Look(ctx context.Context, name string, most int) (lease.Standing, error) {
	err := fence.CheckLeaseName(name)
	var s lease.Standing
	if err == nil {
		s, err = l.look(ctx, name, most)
	}
	if err != nil {
		return lease.Standing{}, fmt.Errorf("postgres look: %w", err)
	}
	return s, nil
}
