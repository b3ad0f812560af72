package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// send runs a batch as one transaction and one round trip, within the writes' share of the connections. read reads the
// results; they count only once the whole has been answered.
func (s *Store) send(ctx context.Context, batch *pgx.Batch, read func(pgx.BatchResults) error) error {
	return s.transact(ctx, s.writes, func(ctx context.Context, conn *pgxpool.Conn) error {
		return s.sendOn(ctx, conn, batch, read)
	})
}

// sendOn is send on a connection. One Sync makes the batch an implicit transaction: all of it commits or none.
func (s *Store) sendOn(ctx context.Context, conn *pgxpool.Conn, batch *pgx.Batch, read func(pgx.BatchResults) error) error {
	if s.cfg.Pooled {
		return s.sendPooled(ctx, conn, batch, read)
	}
	return readAll(conn.SendBatch(ctx, batch), read)
}

// sendPooled is sendOn behind a pooler. The transaction is explicit: its isolation can be pinned only by the statement
// that begins it, since the session is another one each time and what others left in it is unknown.
func (s *Store) sendPooled(ctx context.Context, conn *pgxpool.Conn, batch *pgx.Batch, read func(pgx.BatchResults) error) error {
	return s.sendExplicit(ctx, conn, "BEGIN ISOLATION LEVEL READ COMMITTED", batch, read)
}

// sendExplicit sends a batch between the statement that begins its transaction and the one that commits it.
func (s *Store) sendExplicit(ctx context.Context, conn *pgxpool.Conn, begin string, batch *pgx.Batch, read func(pgx.BatchResults) error) error {
	whole := &pgx.Batch{}
	whole.Queue(begin)
	if s.cfg.Pooled {
		whole.Queue(s.preamble)
	}
	before := whole.Len()
	whole.QueuedQueries = append(whole.QueuedQueries, batch.QueuedQueries...)
	whole.Queue("COMMIT")
	err := readAll(conn.SendBatch(ctx, whole), func(results pgx.BatchResults) error {
		for range before {
			if _, err := results.Exec(); err != nil {
				return err
			}
		}
		return read(results)
	})
	rollBack(ctx, conn) // the server may have skipped the COMMIT
	return err
}

const rollbackTimeout = time.Second

// rollBack ends a transaction that was not committed. A connection that is given back inside one is closed, and costs a pooler its
// session.
func rollBack(ctx context.Context, conn *pgxpool.Conn) {
	if pg := conn.Conn().PgConn(); pg.IsClosed() || pg.TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK")
}

func readAll(results pgx.BatchResults, read func(pgx.BatchResults) error) error {
	readErr := read(results)
	// A deferred constraint fails here. No row is an answer, which counts only if the rest succeeds.
	closeErr := results.Close()
	if readErr != nil && (closeErr == nil || !errors.Is(readErr, pgx.ErrNoRows)) {
		return readErr
	}
	return closeErr
}
