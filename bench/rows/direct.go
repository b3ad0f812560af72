package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// direct writes with a statement of its own, through a pool in the generator's process.
type direct struct {
	pool   *pgxpool.Pool
	sql    string
	fenced bool // by hand
}

func openDirect(d *dataset, size int) opener {
	return func(ctx context.Context, b *bench, _ int) (session, error) {
		if err := b.servers.room(ctx, size); err != nil {
			return nil, err
		}
		pool, err := openPool(ctx, b.servers.postgres.URL(""), size)
		if d.kind == handmade {
			return &direct{pool, "UPDATE " + d.table + " SET balance = $2, fence_token = $3 WHERE id = $1 AND fence_token < $3", true}, err
		}
		return &direct{pool, "UPDATE " + d.table + " SET balance = $2 WHERE id = $1", false}, err
	}
}

func (d *direct) write(ctx context.Context, _ int, w write) error {
	args := []any{w.row, w.balance}
	if d.fenced {
		args = append(args, int64(w.token))
	}
	tag, err := d.pool.Exec(ctx, d.sql, args...)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("row %d: %s", w.row, tag)
	}
	return err
}

func (d *direct) close() { d.pool.Close() }
