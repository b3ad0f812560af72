package e2e

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/e2e/history"
)

//go:embed testdata/faultsaudit.sql
var auditSQL string

// readAudit reads what the triggers wrote. wall is the difference between PostgreSQL's clock and the operations'.
func readAudit(t testing.TB, database, bucket string, wall int64) history.Audit {
	t.Helper()
	conn := connect(t, database)
	defer conn.Close(context.Background())
	return history.Audit{
		Grants: auditRows(t, conn, grantRowsSQL, func(row pgx.CollectableRow) (g history.GrantRow, err error) {
			var at time.Time
			var blocks []int64
			if err = row.Scan(&g.Seq, &at, &g.Lease, &g.First, &blocks, &g.Principal, &g.Holder, &g.Ended); err != nil {
				return g, err
			}
			g.At = at.UnixNano() - wall
			for i := 0; i+1 < len(blocks); i += 2 {
				g.Blocks = append(g.Blocks, history.Block{First: blocks[i], Last: blocks[i+1]})
			}
			return g, nil
		}),
		Marks: auditRows(t, conn, markRowsSQL, pgx.RowToStructByPos[history.MarkRow]),
		Data:  auditRows(t, conn, strings.ReplaceAll(dataRowsSQL, "BUCKET", bucket), pgx.RowToStructByPos[history.DataRow]),
		Blobs: auditRows(t, conn, blobRowsSQL, pgx.RowToStructByPos[history.BlobRow]),
	}
}

func auditRows[T any](t testing.TB, conn *pgx.Conn, sql string, read pgx.RowToFunc[T]) []T {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("read the audit: %v", err)
	}
	list, err := pgx.CollectRows(rows, read)
	if err != nil {
		t.Fatalf("read the audit: %v", err)
	}
	return list
}

// A block is shown by its first and last token; those that lie side by side are one range.
const grantRowsSQL = `SELECT seq, at, new->>'lease', (new->>'first')::bigint,
	(SELECT array_agg(t ORDER BY t) FROM unnest((new->>'blocks')::int8multirange) r, unnest(ARRAY[lower(r), upper(r) - 1]) t),
	new->>'principal', new->>'holder', CASE WHEN new->>'ended_at' IS NULL THEN '' ELSE coalesce(new->>'ended_why', '?') END
	FROM audit.log WHERE kind = 'grants' ORDER BY seq`

// Beside raising it, a write notes on its mark that the resource is new.
const markRowsSQL = `SELECT seq, xact::text, new->>'resource', new->>'lease', (new->>'token')::bigint, new->>'principal'
	FROM audit.log WHERE kind = 'marks' AND (old IS NULL OR old->>'token' <> new->>'token') ORDER BY seq`

const dataRowsSQL = `SELECT seq, xact::text, 'rows/public.jobs/' || coalesce(new->>'id', old->>'id'), coalesce(new->>'nonce', ''),
		coalesce((new->>'token')::bigint, 0), ''
	FROM audit.log WHERE kind = 'jobs'
	UNION ALL
	SELECT seq, xact::text, 'objects/BUCKET/' || (new->>'key'), coalesce(new->'header'->'meta'->>'nonce', ''),
		coalesce((new->'header'->'meta'->>'token')::bigint, 0), coalesce(new->>'blob', '')
	FROM audit.log WHERE kind = 'objects' ORDER BY 1`

const blobRowsSQL = `SELECT seq, coalesce(new->>'id', old->>'id'), coalesce(old->>'state', ''), coalesce(new->>'state', ''), coalesce((new->>'deletions')::int, 0)
	FROM audit.log WHERE kind = 'blobs' AND old->>'state' IS DISTINCT FROM new->>'state' ORDER BY seq`

// wallClock is PostgreSQL's clock minus that of the operations: both are of this machine.
func wallClock() int64 {
	before := monotonic()
	wall := time.Now().UnixNano()
	return wall - (before+monotonic())/2
}

// abortedBlobs gives up random pending intents, as an impatient collector would: first in a transaction of its own, then
// it deletes the bytes. It returns the blob, or nothing when none was pending.
func abortBlob(ctx context.Context, conn *pgx.Conn) (string, error) {
	rows, err := conn.Query(ctx, `UPDATE fence.blobs SET state = 'aborted', state_at = now()
		WHERE id = (SELECT id FROM fence.blobs WHERE state = 'pending' ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED) AND state = 'pending'
		RETURNING id::text`)
	if err != nil {
		return "", err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(ids) == 0 {
		return "", err
	}
	return ids[0], nil
}

// holdRow locks a row as a plain SQL writer would, for a time, so that a write waits between its admission and its change.
func holdRow(ctx context.Context, conn *pgx.Conn, id int, hold time.Duration) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "SELECT FROM jobs WHERE id = $1 FOR UPDATE", id); err != nil {
		return fmt.Errorf("hold row %d: %w", id, err)
	}
	wait(ctx, hold)
	return nil
}

// wait waits, or until the context ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
