package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// send runs a batch as one implicit transaction: one Sync, so that all of it commits or none. read reads the results;
// they count only once the Sync has been answered.
func (s *Store) send(ctx context.Context, batch *pgx.Batch, read func(pgx.BatchResults) error) error {
	return s.transact(ctx, s.writes, func(ctx context.Context, conn *pgxpool.Conn) error {
		results := conn.SendBatch(ctx, batch)
		readErr := read(results)
		// A deferred constraint fails here.
		closeErr := results.Close()
		if readErr != nil {
			return readErr
		}
		return closeErr
	})
}
