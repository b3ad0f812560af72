package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// check compares each row and its mark with the last write of it that was accepted.
func (b *bench) check(ctx context.Context) error {
	for _, d := range b.all {
		mark, join := "coalesce(m.token, 0)", fmt.Sprintf("LEFT JOIN fence.marks m ON m.resource = 'rows/public.%s/' || %s", d.table, d.keySQL())
		if d.kind == handmade {
			mark, join = "t.fence_token", ""
		}
		rows, err := b.servers.admin.Query(ctx, fmt.Sprintf("SELECT t.id, t.balance, %s FROM %s t %s", mark, d.table, join))
		if err != nil {
			return err
		}
		seen := 0
		var id, balance, token int64
		_, err = pgx.ForEachRow(rows, []any{&id, &balance, &token}, func() error {
			seen++
			return d.wrong(id, rowState{balance, fence.Token(token)})
		})
		if err == nil && seen != len(d.rows) {
			err = fmt.Errorf("there are %d rows, not %d", seen, len(d.rows))
		}
		if err != nil {
			return fmt.Errorf("check %s: %w", d.table, err)
		}
	}
	return nil
}

// keySQL is the key of a row t as it stands in the name of its resource.
func (d *dataset) keySQL() string {
	if d.kind == buckets {
		return "t.bucket || ',' || t.id"
	}
	return "t.id"
}

// wrong is why a row cannot be as it is.
func (d *dataset) wrong(id int64, got rowState) error {
	if id < 1 || id > int64(len(d.rows)) {
		return fmt.Errorf("there is a row %d", id)
	}
	if want := d.rows[id-1]; got != want {
		return fmt.Errorf("row %d has balance %d and mark %d; the last accepted write had %d and %d", id, got.balance, got.token, want.balance, want.token)
	}
	return nil
}
