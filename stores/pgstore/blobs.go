package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fence"
)

// BeginBlob records the intent to store a blob and returns its id, unique for ever.
func (s *Store) BeginBlob(ctx context.Context, bucket, principal string) (string, error) {
	id := s.intents.take(owner{bucket, principal}, time.Now())
	if id != "" {
		return id, nil
	}
	err := s.query(ctx, "INSERT INTO fence.blobs (bucket, principal) VALUES ($1, $2) RETURNING id::text", []any{bucket, principal}, &id)
	if fence.CodeOf(err) == fence.CodeOutcomeUnknown {
		// An intent that nobody knows is given up by its age; the write has changed nothing.
		return "", fence.Wrap(fence.CodeUnavailable, err, "PostgreSQL does not answer")
	}
	return id, err
}

// recordBlobs records several intents at once.
func (s *Store) recordBlobs(ctx context.Context, o owner, n int) (ids []string, err error) {
	err = s.query(ctx, `WITH made AS (INSERT INTO fence.blobs (bucket, principal) SELECT $1, $2 FROM generate_series(1, $3::int) RETURNING id)
		SELECT array_agg(id::text) FROM made`, []any{o.bucket, o.principal, n}, &ids)
	return ids, err
}

// discardBlobs forgets intents that no blob was stored for.
func (s *Store) discardBlobs(ctx context.Context, ids []string) error {
	return s.exec(ctx, "DELETE FROM fence.blobs WHERE id = ANY ($1::text[]::uuid[]) AND state = 'pending'", ids)
}

// CheckBucket is CodeNotFound when nothing of the bucket is protected.
func (s *Store) CheckBucket(ctx context.Context, bucket string) error {
	var protected bool
	err := s.read(ctx, "SELECT EXISTS (SELECT FROM fence.protected WHERE kind = 'bucket' AND name = $1)", []any{bucket}, &protected)
	if err == nil && !protected {
		return fence.Errorf(fence.CodeNotFound, "nothing protects the bucket, so it does not exist here").In("bucket")
	}
	return err
}

// KeepBlob notes what was stored of a pending intent, for the commit that publishes it: the blob is then an upload. Its time begins
// anew. CodeUploadExpired when it is not pending any more.
func (s *Store) KeepBlob(ctx context.Context, blob fence.Blob, header fence.ObjectHeader) error {
	text, err := headerText(header)
	if err != nil {
		return err
	}
	return s.changeBlob(ctx, "size = $2, sha256 = $3, header = $4::text::jsonb, etag = $5", blob.ID, blob.Size, sumArg(blob.SHA256), text, etagArg(blob.ETag))
}

// AbortBlob gives a pending intent up. One that is not pending is left alone.
func (s *Store) AbortBlob(ctx context.Context, id string) error {
	return s.exec(ctx, "UPDATE fence.blobs SET state = 'aborted', state_at = now() WHERE id = $1 AND state = 'pending'", id)
}

// AbortStale gives up pending intents older than age, at most limit of them, and returns how many.
func (s *Store) AbortStale(ctx context.Context, age time.Duration, limit int) (int, error) {
	var n int
	err := s.query(ctx, `WITH stale AS (SELECT id FROM fence.blobs WHERE state = 'pending' AND state_at < now() - $1::interval
			ORDER BY state_at LIMIT $2 FOR UPDATE SKIP LOCKED),
		aborted AS (UPDATE fence.blobs b SET state = 'aborted', state_at = now() FROM stale WHERE b.id = stale.id AND b.state = 'pending' RETURNING 1)
		SELECT count(*) FROM aborted`, []any{age, limit}, &n)
	return n, err
}

// Collectable returns blobs that nothing refers to and that have been garbage or aborted, or deleted once, for longer
// than grace by the ledger's clock. Neither state is ever left for another, so what it returns stays collectable.
func (s *Store) Collectable(ctx context.Context, grace time.Duration, limit int) ([]fence.Garbage, error) {
	var list []fence.Garbage
	err := s.transact(ctx, s.grants, func(ctx context.Context, conn *pgxpool.Conn) error {
		batch := &pgx.Batch{}
		batch.Queue(`SELECT b.id::text, b.bucket, b.deletions::int, coalesce(b.upload, '') FROM fence.blobs b
		WHERE b.state IN ('garbage', 'aborted') AND b.state_at < now() - $1::interval
		  AND NOT EXISTS (SELECT 1 FROM fence.objects o WHERE o.blob = b.id) AND NOT EXISTS (SELECT 1 FROM fence.versions v WHERE v.blob = b.id)
		ORDER BY b.state_at LIMIT $2 FOR UPDATE OF b SKIP LOCKED`, grace, limit)
		return s.sendOn(ctx, conn, batch, func(results pgx.BatchResults) error {
			rows, err := results.Query()
			if err == nil {
				list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[fence.Garbage])
			}
			return err
		})
	})
	return list, classifyRead(err)
}

// Collected records that the blob's bytes were deleted. After the second time the ledger forgets the blob: a late PUT
// that landed after the first has been deleted too. A deletion that another collector has recorded does not count
// again: the second must come a grace period after the first.
func (s *Store) Collected(ctx context.Context, g fence.Garbage) error {
	if g.Deletions > 0 {
		return s.exec(ctx, "DELETE FROM fence.blobs WHERE id = $1 AND state IN ('garbage', 'aborted') AND deletions = $2", g.ID, g.Deletions)
	}
	return s.exec(ctx, `UPDATE fence.blobs SET deletions = 1, state_at = now()
		WHERE id = $1 AND state IN ('garbage', 'aborted') AND deletions = 0`, g.ID)
}

// Due counts what a collector would find.
type Due struct {
	// Stale are intents to be given up, Expired versions that are kept no longer, Garbage blobs whose bytes are to be deleted, and
	// First those of them that were not deleted once before.
	Stale, Expired, Garbage, First int64
}

// DueBlobs counts what a collector would find, with the age of stale intents and the grace period of garbage.
func (s *Store) DueBlobs(ctx context.Context, age, grace time.Duration) (Due, error) {
	var d Due
	err := s.read(ctx, `SELECT (SELECT count(*) FROM fence.blobs WHERE state = 'pending' AND state_at < now() - $1::interval),
		(SELECT count(*) FROM fence.versions WHERE keep_until < now()), count(*), count(*) FILTER (WHERE b.deletions = 0)
		FROM fence.blobs b WHERE b.state IN ('garbage', 'aborted') AND b.state_at < now() - $2::interval`, []any{age, grace}, &d.Stale, &d.Expired, &d.Garbage, &d.First)
	return d, err
}
