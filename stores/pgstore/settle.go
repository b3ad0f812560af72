package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fence"
)

// settlement is a call of Certify or End.
type settlement struct {
	lease  string
	cert   *fence.Certificate // nil: an end
	by     fence.GrantRef
	ending fence.Ending

	// code, id and row are the ledger's answer, and err what kept it from being given. Who sends the call sets them.
	code string
	id   *string
	row  grantRow
	err  error

	queued // by the gatherer
}

var errBusy = errors.New("the lease's lock is not free")

// settle makes a call with others if it can (see gatherer), else alone: where the lease's lock is not free, and when a
// commit failed that may have failed for another call. Nothing was committed then.
func (s *Store) settle(ctx context.Context, c *settlement) (*fence.Grant, error) {
	err := s.gather.settle(ctx, c)
	switch {
	case err == nil:
		return c.answer()
	case errors.Is(err, errBusy):
	default:
		switch fence.CodeOf(err) {
		case fence.CodeUnavailable, fence.CodeOverloaded, fence.CodeOutcomeUnknown:
			return nil, err
		}
	}
	err = s.unstalled(ctx, c.lease, func(ctx context.Context) error {
		return s.patiently(ctx, func() error { return s.settleOne(ctx, c, true) })
	})
	if err != nil {
		return nil, err
	}
	return c.answer()
}

// answer is what the ledger's answer means.
func (c *settlement) answer() (*fence.Grant, error) {
	switch fence.Code(c.code) {
	case fence.CodeAccepted:
		g := c.row.grant()
		g.ID = deref(c.id)
		return g, nil
	case fence.CodeLeaseLost:
		return nil, leaseLost()
	case fence.CodeGrantEnded:
		return nil, fence.Errorf(fence.CodeGrantEnded, "the grant of this acquire id has ended (%s): acquire with another id", deref(c.row.ended))
	case fence.CodeInvalidRequest:
		return nil, fence.Errorf(fence.CodeInvalidRequest, "this acquire id was used with another holder or ttl").In("acquire_id")
	}
	return nil, fence.ErrVoid
}

// settleOne makes one call in a transaction of its own. Unless it may wait, a lock that is not free is errBusy.
func (s *Store) settleOne(ctx context.Context, c *settlement, wait bool) error {
	c.row = grantRow{}
	var err error
	if c.cert != nil {
		err = s.query(ctx, "SELECT c.code, c.id, "+grantColumns+" FROM fence.certify($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) c, LATERAL (SELECT (c.newest).*) g",
			[]any{c.lease, int64(c.cert.Floor), c.cert.Acquire[:], c.cert.Principal, c.cert.Holder, c.cert.TTL.Milliseconds(), c.cert.Hold[:], c.cert.Local, c.cert.Handed, wait},
			append([]any{&c.code, &c.id}, c.row.dest()...)...)
	} else {
		ref := refArgs(c.by)
		err = s.query(ctx, "SELECT e.code, "+grantColumns+" FROM fence.end_grant($1, $2, $3, $4, $5, $6, $7, $8, $9) e, LATERAL (SELECT (e.newest).*) g",
			[]any{c.lease, ref.id, ref.principal, ref.acquire, ref.hold, c.by.Newest, c.ending.Why, emptyAsNull(c.ending.By), wait},
			append([]any{&c.code}, c.row.dest()...)...)
	}
	if err == nil && c.code == "busy" {
		return errBusy
	}
	return err
}

// settleMany makes the calls of a group, each of another lease, in one transaction, and sets the err of each.
func (s *Store) settleMany(ctx context.Context, group []*settlement) {
	for _, c := range group {
		c.err, c.row = errBusy, grantRow{} // unless it is in the answer
	}
	err := s.transact(ctx, s.grants, func(ctx context.Context, conn *pgxpool.Conn) error {
		batch := &pgx.Batch{}
		batch.Queue("SELECT s.item, s.code, s.id, "+grantColumns+" FROM fence.settle($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) s, LATERAL (SELECT (s.newest).*) g",
			settleArgs(group)...)
		return s.sendOn(ctx, conn, batch, func(results pgx.BatchResults) error {
			rows, err := results.Query()
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				if err := scanSettled(rows, group); err != nil {
					return err
				}
			}
			return rows.Err()
		})
	})
	for _, c := range group {
		if err != nil {
			c.err = ownError(err)
		}
	}
}

func scanSettled(rows pgx.Rows, group []*settlement) error {
	var (
		item int64
		got  settlement
	)
	if err := rows.Scan(append([]any{&item, &got.code, &got.id}, got.row.dest()...)...); err != nil {
		return err
	}
	c := group[item-1]
	c.code, c.id, c.row, c.err = got.code, got.id, got.row, nil
	return nil
}

// settleArgs are the arguments of fence.settle.
func settleArgs(group []*settlement) []any {
	var (
		lease, holder              []string
		principal, why, by         []*string
		acquire, hold, id          [][]byte
		floor, ttl                 []int64
		local, handed, newestGrant []bool
	)
	for _, c := range group {
		var (
			cert fence.Certificate
			r    = refArgs(c.by)
			ends *string
		)
		if c.cert != nil {
			cert = *c.cert
			r = ref{principal: &cert.Principal, acquire: cert.Acquire[:], hold: cert.Hold[:]}
		} else {
			ends = &c.ending.Why
		}
		lease, holder = append(lease, c.lease), append(holder, cert.Holder)
		principal, acquire, hold, id = append(principal, r.principal), append(acquire, r.acquire), append(hold, r.hold), append(id, r.id)
		floor, ttl = append(floor, int64(cert.Floor)), append(ttl, cert.TTL.Milliseconds())
		local, handed, newestGrant = append(local, cert.Local), append(handed, cert.Handed), append(newestGrant, c.by.Newest)
		why, by = append(why, ends), append(by, emptyAsNull(c.ending.By))
	}
	return []any{lease, principal, acquire, hold, floor, holder, ttl, local, handed, id, newestGrant, why, by}
}

// ownError makes an error that many are told one that each may add to.
func ownError(err error) error {
	var e *fence.Error
	if !errors.As(err, &e) {
		return err
	}
	own := *e
	return &own
}

func emptyAsNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
