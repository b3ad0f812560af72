package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fencegate/fencegate/fence"
)

const grantColumns = "g.lease, g.blocks, g.acquire_hash, g.principal, g.holder, g.ttl_ms, g.granted_at, g.ended_why"

// grantRow is fence.grants; its fields are null when there is no grant.
type grantRow struct {
	lease                    *string
	blocks                   pgtype.Multirange[pgtype.Range[pgtype.Int8]]
	acquire                  []byte
	principal, holder, ended *string
	ttl                      *int64
	grantedAt                *time.Time
}

func (g *grantRow) dest() []any {
	return []any{&g.lease, &g.blocks, &g.acquire, &g.principal, &g.holder, &g.ttl, &g.grantedAt, &g.ended}
}

func (g *grantRow) grant() *fence.Grant {
	out := &fence.Grant{
		Lease: deref(g.lease), Principal: deref(g.principal), Holder: deref(g.holder),
		TTL: time.Duration(deref(g.ttl)) * time.Millisecond, GrantedAt: deref(g.grantedAt), Ended: deref(g.ended),
	}
	copy(out.Acquire[:], g.acquire)
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
	id, principal, acquire := refArgs(by)
	return s.oneGrant(ctx, s.read, lease, "SELECT "+grantColumns+` FROM fence.grants g
		WHERE g.lease = $1 AND g.ended_at IS NULL AND fence.names_grant(g, $2, $3, $4, $5)`, id, principal, acquire, by.Newest)
}

// Certify makes the acquire the newest grant of the lease if the floor still is the newest grant's first token.
func (s *Store) Certify(ctx context.Context, c fence.Certificate) (*fence.Grant, error) {
	var (
		code string
		id   *string
		row  grantRow
	)
	err := s.unstalled(ctx, c.Lease, func(ctx context.Context) error {
		return s.query(ctx, "SELECT c.code, c.id, "+grantColumns+" FROM fence.certify($1, $2, $3, $4, $5, $6) c, LATERAL (SELECT (c.newest).*) g",
			[]any{c.Lease, int64(c.Floor), c.Acquire[:], c.Principal, c.Holder, c.TTL.Milliseconds()}, append([]any{&code, &id}, row.dest()...)...)
	})
	if err != nil {
		return nil, err
	}
	switch fence.Code(code) {
	case fence.CodeAccepted:
		g := row.grant()
		g.ID = deref(id)
		return g, nil
	case fence.CodeGrantEnded:
		return nil, fence.Errorf(fence.CodeGrantEnded, "the grant of this acquire id has ended (%s): acquire with another id", deref(row.ended))
	case fence.CodeInvalidRequest:
		return nil, fence.Errorf(fence.CodeInvalidRequest, "this acquire id was used with another holder or ttl").In("acquire_id")
	}
	return nil, fence.ErrVoid
}

// End ends the newest grant if by names it, and returns it; one that has ended already is returned as it is.
func (s *Store) End(ctx context.Context, lease string, by fence.GrantRef, e fence.Ending) (*fence.Grant, error) {
	id, principal, acquire := refArgs(by)
	return s.oneGrant(ctx, s.query, lease, "SELECT "+grantColumns+" FROM fence.end_grant($1, $2, $3, $4, $5, $6) g", id, principal, acquire, by.Newest, e.Why)
}

// More adds a block of tokens to the newest grant if by names it and it has not ended.
func (s *Store) More(ctx context.Context, lease string, by fence.GrantRef) (*fence.Grant, error) {
	id, principal, acquire := refArgs(by)
	return s.oneGrant(ctx, s.query, lease, "SELECT "+grantColumns+" FROM fence.more_tokens($1, $2, $3, $4) g", id, principal, acquire)
}

// List returns the newest grants that have not ended, in the order of their leases' names.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]*fence.Grant, error) {
	return nil, fence.Errorf(fence.CodeInternal, "not built yet")
}

// runner is Store.read or Store.query.
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
		return nil, fence.Errorf(fence.CodeLeaseLost, "the grant is not the newest of its lease, or it has ended")
	}
	if err != nil {
		return nil, err
	}
	return row.grant(), nil
}

func refArgs(by fence.GrantRef) (id []byte, principal *string, acquire []byte) {
	switch {
	case by.ID != "":
		d := fence.IDDigest(by.ID)
		return d[:], &by.Principal, nil
	case by.Acquire != (fence.Digest{}):
		return nil, nil, by.Acquire[:]
	}
	return nil, nil, nil
}
