package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fence"
)

// Advanced is what an advance of the ledger did.
type Advanced struct {
	// Ended is how many grants it ended.
	Ended int64
	// First is the lowest token that a grant can be given from now on.
	First fence.Token
}

// grantCountLimit is up to how many grants LiveGrants looks at: less than a second of PostgreSQL's time.
const grantCountLimit = 100_000

// LiveGrants returns how many leases have a newest grant that has not ended. Its cost is bounded: of a ledger with more
// than 100 000 leases it looks at so many, and all is false.
func (s *Store) LiveGrants(ctx context.Context) (n int64, all bool, err error) {
	err = s.read(ctx, "SELECT count(*) FILTER (WHERE g.ended_at IS NULL), count(*) < $1 FROM (SELECT ended_at FROM fence.grants LIMIT $1) g",
		[]any{grantCountLimit}, &n, &all)
	return n, all, err
}

// Advance waits advanceLockTimeout at a time for the writes under way, since all that come meanwhile, readers too, wait
// behind it, and lets those pass for advancePause.
const (
	advanceLockTimeout = 500 * time.Millisecond
	advancePause       = 100 * time.Millisecond
)

// Advance makes the ledger safe after a restore or a fail-over that lost commits: it ends every grant and goes on with
// tokens that are blocks blocks higher, so that no token of the lost part is issued twice or accepted. While it writes
// every live grant, gateways that run answer late, or 503. CodeContention when it found no moment within wait at which no
// transaction was under way; then nothing was changed.
func (s *Store) Advance(ctx context.Context, blocks int64, wait time.Duration) (Advanced, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return Advanced{}, err
	}
	defer s.release(ctx, conn)
	for over := time.Now().Add(wait); ; {
		left := time.Until(over)
		done, err := s.advance(ctx, conn, blocks, min(advanceLockTimeout, max(left, time.Millisecond)))
		if sqlState(err) != stateLockTimeout || left <= advanceLockTimeout {
			return done, classify(err)
		}
		pause := time.NewTimer(advancePause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return done, classify(err)
		}
	}
}

func (s *Store) advance(ctx context.Context, conn *pgxpool.Conn, blocks int64, lockTimeout time.Duration) (done Advanced, err error) {
	var block int64
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf("%s; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = %d", s.preamble, lockTimeout.Milliseconds()))
		if err == nil {
			err = tx.QueryRow(ctx, "SELECT ended, first_block FROM fence.advance($1)", blocks).Scan(&done.Ended, &block)
		}
		return err
	})
	done.First = fence.Token(block) * 1000
	return done, err
}
