package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// Advanced is what an advance of the ledger did.
type Advanced struct {
	// Ended is how many grants it ended.
	Ended int64
	// First is the lowest token that a grant can be given from now on.
	First fence.Token
}

// LiveGrants returns how many leases have a newest grant that has not ended.
func (s *Store) LiveGrants(ctx context.Context) (int64, error) {
	var n int64
	err := s.read(ctx, "SELECT count(*) FROM fence.grants WHERE ended_at IS NULL", nil, &n)
	return n, err
}

// Advance makes the ledger safe after a restore or a fail-over that lost commits: it ends every grant and goes on with
// tokens that are blocks blocks higher, so that no token of the lost part is issued twice or accepted. Gateways may
// run meanwhile: their writes and acquires wait, for as long as the writing of every mark takes. CodeContention
// when transactions that are under way did not end within wait; then nothing was changed.
func (s *Store) Advance(ctx context.Context, blocks int64, wait time.Duration) (Advanced, error) {
	var (
		done  Advanced
		block int64
	)
	conn, err := s.acquire(ctx)
	if err != nil {
		return done, err
	}
	defer conn.Release()
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		// It has its own bounds: it writes every mark.
		_, err := tx.Exec(ctx, fmt.Sprintf("%s; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = %d", s.preamble, max(1, wait.Milliseconds())))
		if err == nil {
			err = tx.QueryRow(ctx, "SELECT ended, first_block FROM fence.advance($1)", blocks).Scan(&done.Ended, &block)
		}
		return err
	})
	done.First = fence.Token(block) * 1000
	return done, classify(err)
}
