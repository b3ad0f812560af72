package pglease

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/fence"
)

// SQLSTATEs that are told apart.
const (
	stateFull     = "FG020"
	stateProtocol = "08P01" // PgBouncer's for all that it refuses itself
)

// attempts is how often a call is tried on connections that turn out to be dead.
const attempts = 3

// call runs a statement that is a transaction of its own and returns one row. All of ours can be repeated.
func (l *Locker) call(ctx context.Context, sql string, args []any, dest ...any) error {
	ctx, cancel := context.WithTimeout(ctx, l.config.CallTimeout)
	defer cancel()
	for i := 1; ; i++ {
		connected, err := l.try(ctx, sql, args, func(rows pgx.Rows) error {
			if !rows.Next() {
				return cmp.Or(rows.Err(), pgx.ErrNoRows)
			}
			return rows.Scan(dest...)
		})
		if err == nil {
			return nil
		}
		if i == attempts || !connected || ctx.Err() != nil || !cutOff(err) {
			return l.unavailable(err)
		}
		// What cut this connection off, a restart, did so with the others.
		l.pool.Reset()
	}
}

// try runs a statement on one connection, and reports whether it had one.
func (l *Locker) try(ctx context.Context, sql string, args []any, read func(pgx.Rows) error) (connected bool, err error) {
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	return true, l.once(ctx, conn.Conn(), sql, args, read)
}

func (l *Locker) once(ctx context.Context, conn *pgx.Conn, sql string, args []any, read func(pgx.Rows) error) error {
	if l.config.Pooled {
		return oncePooled(ctx, conn, sql, args, read)
	}
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	return readAll(rows, read)
}

// oncePooled begins the transaction itself: behind a pooler its isolation, which may be another by the server's, the
// database's or the role's default, can be pinned by nothing else.
func oncePooled(ctx context.Context, conn *pgx.Conn, sql string, args []any, read func(pgx.Rows) error) error {
	batch := &pgx.Batch{}
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	batch.Queue(sql, args...)
	batch.Queue("COMMIT")
	results := conn.SendBatch(ctx, batch)
	_, err := results.Exec()
	if err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			err = readAll(rows, read)
		}
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	if pg := conn.PgConn(); !pg.IsClosed() && pg.TxStatus() != 'I' {
		// The server skipped the COMMIT. A connection that is given back inside a transaction costs the pooler its session.
		_, _ = conn.Exec(ctx, "ROLLBACK")
	}
	return err
}

func readAll(rows pgx.Rows, read func(pgx.Rows) error) error {
	err := read(rows)
	rows.Close()
	return cmp.Or(rows.Err(), err)
}

// cutOff tells whether the connection broke, or the server ended the session: another may do.
func cutOff(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err != nil && !errors.Is(err, pgx.ErrNoRows)
	}
	// PgBouncer says it only in the field that PostgreSQL translates.
	severity := cmp.Or(pg.SeverityUnlocalized, pg.Severity)
	return severity == "FATAL" || severity == "PANIC"
}

// unavailable gives an error its code. Whatever PostgreSQL answers in place of a result (read-only, out of connections, a
// missing right, a lock that was not free in time), leases cannot be had from it now.
func (l *Locker) unavailable(err error) error {
	if sqlState(err) == stateFull {
		return fence.Wrap(fence.CodeRateLimited, err, "as many wait for this lease as may")
	}
	if !l.config.Pooled {
		err = explain(err)
	}
	return fence.Wrap(fence.CodeUnavailable, err, "PostgreSQL does not keep leases at present")
}

// explain tells that what a direct connection met is a pooler.
func explain(err error) error {
	if sqlState(err) == stateProtocol {
		return errors.Join(ErrPooler, err)
	}
	return err
}

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
