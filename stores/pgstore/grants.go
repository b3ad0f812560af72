package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fencegate/fencegate/fence"
)

const grantColumns = "g.lease, g.blocks, g.acquire_hash, g.hold, g.principal, g.holder, g.ttl_ms, g.granted_at, g.ended_why, g.ended_by"

// grantRow is fence.grants; its fields are null when there is no grant.
type grantRow struct {
	lease                             *string
	blocks                            pgtype.Multirange[pgtype.Range[pgtype.Int8]]
	acquire, hold                     []byte
	principal, holder, ended, endedBy *string
	ttl                               *int64
	grantedAt                         *time.Time
}

func (g *grantRow) dest() []any {
	return []any{&g.lease, &g.blocks, &g.acquire, &g.hold, &g.principal, &g.holder, &g.ttl, &g.grantedAt, &g.ended, &g.endedBy}
}

func (g *grantRow) grant() *fence.Grant {
	out := &fence.Grant{
		Lease: deref(g.lease), Principal: deref(g.principal), Holder: deref(g.holder),
		TTL: time.Duration(deref(g.ttl)) * time.Millisecond, GrantedAt: deref(g.grantedAt), Ended: deref(g.ended), EndedBy: deref(g.endedBy),
	}
	copy(out.Acquire[:], g.acquire)
	if out.Hold = out.Acquire; g.hold != nil {
		copy(out.Hold[:], g.hold)
	}
	for _, r := range g.blocks {
		// PostgreSQL's own form of a range of int8 excludes its upper end.
		out.Blocks = append(out.Blocks, fence.Block{First: fence.Token(r.Lower.Int64), Last: fence.Token(r.Upper.Int64 - 1)})
	}
	return out
}

// Newest returns the newest grant of a lease, nil when there never was one.
func (s *Store) Newest(ctx context.Context, lease string) (*fence.Grant, error) {
	g, err := s.oneGrant(ctx, s.read, lease, "SELECT "+grantColumns+" FROM fence.grants g WHERE g.lease = $1")
	if fence.CodeOf(err) == fence.CodeLeaseLost {
		return nil, nil
	}
	return g, err
}

// Held returns the newest grant if by names it and it has not ended, else CodeLeaseLost. It takes no lock.
func (s *Store) Held(ctx context.Context, lease string, by fence.GrantRef) (*fence.Grant, error) {
	ref := refArgs(by)
	return s.oneGrant(ctx, s.read, lease, "SELECT "+grantColumns+` FROM fence.grants g
		WHERE g.lease = $1 AND g.ended_at IS NULL AND fence.names_grant(g, $2, $3, $4, $5, $6)`, ref.id, ref.principal, ref.acquire, ref.hold, by.Newest)
}

// Certify makes the acquire the newest grant of the lease if the floor still is the newest grant's first token. One without
// a Hold is held under its acquire digest.
func (s *Store) Certify(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
	if c.Hold == (fence.Digest{}) {
		c.Hold = c.Acquire
	}
	return s.settle(ctx, &settlement{lease: c.Lease, cert: &c})
}

// End ends the newest grant if by names it, and returns it; one that has ended already is returned as it is.
func (s *Store) End(ctx context.Context, lease string, by fence.GrantRef, e fence.Ending) (*fence.Grant, error) {
	return s.settle(ctx, &settlement{lease: lease, by: by, ending: e})
}

// More adds a block of tokens to the newest grant if by names it and it has not ended.
func (s *Store) More(ctx context.Context, lease string, by fence.GrantRef) (*fence.Grant, error) {
	ref := refArgs(by)
	return s.oneGrant(ctx, s.queryLocked, lease, "SELECT "+grantColumns+" FROM fence.more_tokens($1, $2, $3, $4, $5) g", ref.id, ref.principal, ref.acquire, ref.hold)
}

// runner is Store.read or Store.queryLocked.
type runner func(ctx context.Context, sql string, args []any, dest ...any) error

// stallLimit is how long a client may keep a transaction that was admitted waiting, once the next grant wants its lock.
const stallLimit = 4 * time.Second

// unstalled runs a transaction that takes the lease's lock exclusively. When the lock is not free in time it ends the
// writers whose clients have stalled, and tries once more: a paused worker must not block the next grant for ever.
func (s *Store) unstalled(ctx context.Context, lease string, f func(context.Context) error) error {
	err := s.retry(ctx, f)
	if sqlState(err) != stateLockTimeout {
		return err
	}
	var ended int
	if endErr := s.read(ctx, "SELECT fence.end_stalled($1, $2)", []any{lease, stallLimit}, &ended); endErr != nil || ended == 0 {
		return err
	}
	return s.retry(ctx, f)
}

// oneGrant runs a statement about a lease ($1) that returns the grant it is about; no row is CodeLeaseLost. All of them
// may be repeated after contention: nothing was committed.
func (s *Store) oneGrant(ctx context.Context, run runner, lease, sql string, args ...any) (*fence.Grant, error) {
	var row grantRow
	err := s.unstalled(ctx, lease, func(ctx context.Context) error { return run(ctx, sql, append([]any{lease}, args...), row.dest()...) })
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, leaseLost()
	}
	if err != nil {
		return nil, err
	}
	return row.grant(), nil
}

func leaseLost() error {
	return fence.Errorf(fence.CodeLeaseLost, "the grant is not the newest of its lease, or it has ended")
}

// ref is a fence.GrantRef as the ledger's functions take it.
type ref struct {
	id            []byte
	principal     *string
	acquire, hold []byte
}

func refArgs(by fence.GrantRef) ref {
	switch {
	case by.ID != "":
		d := fence.IDDigest(by.ID)
		return ref{id: d[:], principal: &by.Principal}
	case by.Acquire != (fence.Digest{}):
		r := ref{acquire: by.Acquire[:]}
		if by.Hold != (fence.Digest{}) {
			r.hold = by.Hold[:]
		}
		return r
	}
	return ref{}
}
