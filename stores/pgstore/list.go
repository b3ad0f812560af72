package pgstore

import (
	"cmp"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fence"
)

// List returns the newest grants that have not ended, of leases whose names begin with prefix and stand behind after in the
// order of their bytes. It passes over those that have ended: a million of them take about half a second. An index of
// the others would cost every grant more than it is worth.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]*fence.Grant, error) {
	if limit < 1 {
		return nil, fence.Errorf(fence.CodeInvalidRequest, "at least one grant is asked for").In("limit")
	}
	var found []*fence.Grant
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()
	err := s.withConn(ctx, func(conn *pgxpool.Conn) error {
		batch := &pgx.Batch{}
		batch.Queue("SELECT "+grantColumns+` FROM fence.grants g
			WHERE g.ended_at IS NULL AND g.lease >= $1 AND g.lease > $2 AND g.lease < $3
			ORDER BY g.lease LIMIT $4`, prefix, after, endOf(prefix, fence.MaxLeaseName), limit)
		return s.sendOn(ctx, conn, batch, func(results pgx.BatchResults) error {
			rows, err := results.Query()
			if err != nil {
				return err
			}
			found, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*fence.Grant, error) {
				var g grantRow
				if err := row.Scan(g.dest()...); err != nil {
					return nil, err
				}
				return g.grant(), nil
			})
			return err
		})
	})
	return found, classifyRead(err)
}

// endOf returns a text that is behind all of at most longest bytes that begin with prefix, and before all that are behind those. An end that
// could be null would not bound the index in a plan for any prefix.
func endOf(prefix string, longest int) string {
	return cmp.Or(prefixEnd(prefix), strings.Repeat(string(utf8.MaxRune), longest/utf8.UTFMax+1))
}

// prefixEnd returns the first text, in the order of bytes, behind all that begin with prefix; empty when there is none.
// The order of UTF-8's bytes is that of the characters.
func prefixEnd(prefix string) string {
	for len(prefix) > 0 {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if last == utf8.MaxRune {
			continue
		}
		last++
		if !utf8.ValidRune(last) { // the surrogates
			last = 0xE000
		}
		return prefix + string(last)
	}
	return ""
}
