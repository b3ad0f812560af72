package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Stats is how the store's connections are used at the moment.
type Stats struct {
	// Pool counts connections, and the waits for one.
	Pool *pgxpool.Stat
	// Writes and Grants are the transactions that may wait for locks.
	Writes, Grants ShareStats
	// Batches are the transactions that were made of several callers' writes.
	Batches BatchStats
}

// Stats asks nobody; it is cheap.
func (s *Store) Stats() Stats {
	return Stats{Pool: s.pool.Stat(), Writes: s.writes.stats(), Grants: s.grants.stats(), Batches: s.batchStats()}
}

// blobCountLimit is up to where CountBlobs counts one by one: less than 100 ms of PostgreSQL's time for each state.
const blobCountLimit = 100_000

// BlobCounts is how many blobs the ledger knows, by state.
type BlobCounts struct{ Pending, Committed, Garbage, Aborted int64 }

// CountBlobs counts the blobs of each state. Its cost is bounded, whatever the size of the ledger: pending, garbage and
// aborted blobs are counted up to 100 000 each, which then means at least as many, and of more committed ones it
// returns PostgreSQL's estimate, as old as the last (auto)vacuum or analyze of fence.objects. Committed are the bodies of objects and of
// versions that are kept; one that several share counts for each.
func (s *Store) CountBlobs(ctx context.Context) (BlobCounts, error) {
	var c BlobCounts
	// The estimate is that of an index whose entries are the published objects.
	err := s.read(ctx, `SELECT
		(SELECT count(*) FROM (SELECT 1 FROM fence.blobs WHERE state = 'pending' LIMIT $1) b),
		(SELECT CASE WHEN count(*) < $1 THEN count(*)
			ELSE greatest(count(*), (SELECT reltuples::bigint FROM pg_catalog.pg_class WHERE oid = 'fence.objects_blob'::regclass)) END
			FROM (SELECT 1 FROM fence.objects WHERE blob IS NOT NULL LIMIT $1) o) + (SELECT count(*) FROM (SELECT 1 FROM fence.versions WHERE blob IS NOT NULL LIMIT $1) v),
		(SELECT count(*) FROM (SELECT 1 FROM fence.blobs WHERE state = 'garbage' LIMIT $1) b),
		(SELECT count(*) FROM (SELECT 1 FROM fence.blobs WHERE state = 'aborted' LIMIT $1) b)`,
		[]any{blobCountLimit}, &c.Pending, &c.Committed, &c.Garbage, &c.Aborted)
	return c, err
}
