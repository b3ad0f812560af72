package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/stores/pgstore"
)

// pooler finds out whether a pooler stands in between, how it pools, and whether the gateway is told.
func (d *postgresDoctor) pooler(ctx context.Context, config *pgx.ConnConfig) {
	const what = "pooler"
	found, err := pgstore.Pooler(ctx, d.conn)
	if err != nil {
		d.fail(what, "%v", err)
		return
	}
	switch {
	case !found && d.pooled:
		d.warn(what, "none: FENCEGATE_PGBOUNCER=true costs time without need")
		return
	case !found:
		d.ok(what, "none")
		return
	}
	mode, err := poolMode(ctx, d.conn, config)
	switch {
	case err != nil:
		d.fail(what, "%v", err)
	case mode == modeStatement:
		d.fail(what, "it gives a session to each statement: set pool_mode = transaction")
	case !d.pooled:
		d.fail(what, "there is one (%s mode): set FENCEGATE_PGBOUNCER=true; migrations need a URL that goes round it", mode)
	case mode == modeSession:
		d.ok(what, "session mode, and the gateway is told; transaction mode needs fewer sessions")
	default:
		d.ok(what, "transaction mode, and the gateway is told; migrations need a URL that goes round it")
	}
}

// The modes of a pooler.
const (
	modeSession     = "session"
	modeTransaction = "transaction"
	modeStatement   = "statement"
)

// poolMode tries whether a second client, in a transaction, is given the session that the first one used. A pooler with
// several free sessions may choose another one, so it tries a few times.
func poolMode(ctx context.Context, first *pgx.Conn, config *pgx.ConnConfig) (string, error) {
	const tries = 8
	second, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", err
	}
	defer second.Close(context.WithoutCancel(ctx))
	pid := func(q interface {
		QueryRow(context.Context, string, ...any) pgx.Row
	}) (n int32, err error) {
		err = q.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&n)
		return n, err
	}
	for range tries {
		before, err := pid(first)
		if err != nil {
			return "", err
		}
		tx, err := second.Begin(ctx)
		var inside int32
		if err == nil {
			inside, err = pid(tx)
		}
		var refused *pgconn.PgError
		if errors.As(err, &refused) {
			return modeStatement, nil
		}
		if err != nil {
			return "", err
		}
		after, err := pid(first)
		if err := tx.Rollback(ctx); err != nil {
			return "", err
		}
		if err != nil {
			return "", err
		}
		if inside == before || after != before {
			return modeTransaction, nil
		}
	}
	return modeSession, nil
}
