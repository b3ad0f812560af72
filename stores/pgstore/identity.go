package pgstore

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fence"
)

// sqlBecome makes the rest of a transaction run under another role, which policies then see with its claims. The settings end
// with the transaction. A role of none is the session's own.
const sqlBecome = "SELECT pg_catalog.set_config('request.jwt.claims', $1, true), pg_catalog.set_config('role', $2, true)"

const (
	roleNone = "none"
	// noClaims can be read as JSON, which nothing cannot.
	noClaims = "{}"
)

// queueBecome queues the change of role; nothing for the zero identity. It returns how many statements it queued.
func queueBecome(batch *pgx.Batch, as fence.Identity) int {
	if as == (fence.Identity{}) {
		return 0
	}
	batch.Queue(sqlBecome, cmp.Or(as.Claims, noClaims), cmp.Or(as.Role, roleNone))
	return 1
}

// becomes reads the answers to the statements that queueBecome queued. A refusal is about the configuration of the principal, not
// about its request; another error is one of preparing a later statement of the batch.
func becomes(results pgx.BatchResults, queued int, as fence.Identity) error {
	for range queued {
		_, err := results.Exec()
		if state := sqlState(err); state == stateBadSetting || state == stateForbidden {
			return fence.Wrap(fence.CodeForbidden, err, "the gateway cannot act as the database role %q: it must exist, and be granted to the gateway's own", as.Role)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readSnapshot sends statements that change nothing as one transaction with one snapshot.
func (s *Store) readSnapshot(ctx context.Context, batch *pgx.Batch, read func(pgx.BatchResults) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()
	return classifyRead(s.withConn(ctx, func(conn *pgxpool.Conn) error {
		if batch.Len() == 1 && !s.cfg.Pooled {
			return readAll(conn.SendBatch(ctx, batch), read)
		}
		return s.sendExplicit(ctx, conn, "BEGIN ISOLATION LEVEL REPEATABLE READ", batch, read)
	}))
}
