package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fence"
)

// read runs a statement that changes nothing and returns one row.
func (s *Store) read(ctx context.Context, sql string, args []any, dest ...any) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()
	return classifyRead(s.withConn(ctx, func(conn *pgxpool.Conn) error { return s.one(ctx, conn, sql, args, dest) }))
}

// query runs a statement that is a transaction of its own and returns one row.
func (s *Store) query(ctx context.Context, sql string, args []any, dest ...any) error {
	return s.transact(ctx, s.grants, func(ctx context.Context, conn *pgxpool.Conn) error {
		return s.one(ctx, conn, sql, args, dest)
	})
}

// queryLocked is query for a statement that may wait long for a lease's lock.
func (s *Store) queryLocked(ctx context.Context, sql string, args []any, dest ...any) error {
	return s.patiently(ctx, func() error { return s.query(ctx, sql, args, dest...) })
}

// patiently runs a transaction that may wait long for a lease's lock, within the share of the connections that is left to
// such.
func (s *Store) patiently(ctx context.Context, f func() error) error {
	waiting, stop := context.WithTimeout(ctx, s.cfg.ConnectTimeout)
	defer stop()
	if err := s.locked.acquire(waiting); err != nil {
		return fence.Wrap(fence.CodeOverloaded, err, "as many others as may wait for a lock do so already")
	}
	defer s.locked.release()
	return f()
}

// exec runs a statement that is a transaction of its own and whose rows do not matter.
func (s *Store) exec(ctx context.Context, sql string, args ...any) error {
	return s.transact(ctx, s.grants, func(ctx context.Context, conn *pgxpool.Conn) error {
		if s.cfg.Pooled {
			batch := &pgx.Batch{}
			batch.Queue(sql, args...)
			return s.sendPooled(ctx, conn, batch, func(results pgx.BatchResults) error { _, err := results.Exec(); return err })
		}
		_, err := conn.Exec(ctx, sql, args...)
		return err
	})
}

// one runs a statement that returns one row.
func (s *Store) one(ctx context.Context, conn *pgxpool.Conn, sql string, args, dest []any) error {
	if !s.cfg.Pooled {
		return conn.QueryRow(ctx, sql, args...).Scan(dest...)
	}
	batch := &pgx.Batch{}
	batch.Queue(sql, args...)
	return s.sendPooled(ctx, conn, batch, func(results pgx.BatchResults) error { return results.QueryRow().Scan(dest...) })
}

// transact runs a transaction within its share of the connections, and within a time that outlasts the server's own
// timeout for one statement.
func (s *Store) transact(ctx context.Context, within *share, f func(context.Context, *pgxpool.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StatementTimeout+s.cfg.ConnectTimeout)
	defer cancel()
	waiting, stop := context.WithTimeout(ctx, s.cfg.ConnectTimeout)
	defer stop()
	if err := within.acquire(waiting); err != nil {
		return fence.Wrap(fence.CodeOverloaded, err, "as many others as may wait for a lock do so already")
	}
	defer within.release()
	return s.withConn(ctx, func(conn *pgxpool.Conn) error { return f(ctx, conn) })
}

// withConn lends a connection to f and classifies its error. When its isolation is not the pinned one any more (code of
// the user's own left another behind) all connections are made anew, since others may have been left alike, and the
// transaction, which was refused for it, is tried again.
func (s *Store) withConn(ctx context.Context, f func(*pgxpool.Conn) error) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer s.release(ctx, conn)
	err = f(conn)
	switch sqlState(err) {
	case stateIsolation:
		s.pool.Reset()
	case stateForbidden:
		// A role that a trigger left in the session would be refused all that follows. Behind a pooler each transaction sets its own.
		if !s.cfg.Pooled {
			resetting, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
			defer cancel()
			_, _ = conn.Exec(resetting, "RESET ROLE") // a connection that fails here is not used again
		}
	}
	return classify(err)
}

// release gives a connection back, unless somebody changed its session. The pool's own hook for that would do so in another goroutine, so that
// who writes one thing after the other would find another connection each time, which knows his statements less well.
func (s *Store) release(ctx context.Context, conn *pgxpool.Conn) {
	if !conn.Conn().IsClosed() && !intact(conn.Conn(), s.tracked, s.cfg.Pooled) {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = conn.Conn().Close(closing)
	}
	conn.Release()
}

// acquire takes a connection, waiting no longer than the connect timeout: a database that is down, or a pool that
// is exhausted, is reported soon.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	waiting, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout)
	defer cancel()
	conn, err := s.pool.Acquire(waiting)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && s.pool.Stat().AcquiredConns() >= s.pool.Config().MaxConns:
		return nil, fence.Wrap(fence.CodeOverloaded, err, "every database connection is busy")
	case errors.Is(err, ErrPooler):
		return nil, fence.Wrap(fence.CodeUnavailable, err, "PostgreSQL cannot be used as it is configured")
	case sqlState(err) == stateProtocol && !s.cfg.Pooled:
		return nil, fence.Wrap(fence.CodeUnavailable, errors.Join(ErrPooler, err), "PostgreSQL cannot be used as it is configured")
	}
	return nil, fence.Wrap(fence.CodeUnavailable, err, "PostgreSQL does not answer")
}
