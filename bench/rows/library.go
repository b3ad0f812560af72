package main

import (
	"context"
	"fmt"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// library writes with pgstore in the generator's process.
type library struct {
	store *pgstore.Store
	on    *dataset
}

func openLibrary(ctx context.Context, b *bench, _ int) (session, error) {
	if err := b.servers.room(ctx, poolSize); err != nil {
		return nil, err
	}
	store, err := pgstore.Open(pgstore.Config{URL: b.servers.postgres.URL(""), MaxConns: poolSize})
	return &library{store, b.wallets}, err
}

func (l *library) write(ctx context.Context, _ int, w write) error {
	return writeRow(ctx, l.store, l.on, w)
}

func (l *library) close() { l.store.Close() }

// writeRow patches the balance, and demands that it is in the row that comes back.
func writeRow(ctx context.Context, s *pgstore.Store, d *dataset, w write) error {
	body := fmt.Appendf(nil, `{"balance":%d}`, w.balance)
	var key []string
	for _, part := range d.key(w.row) {
		key = append(key, fmt.Sprint(part))
	}
	row, err := s.WriteRow(ctx, fence.RowWrite{
		Op: fence.OpPatch, Row: fence.RowName{Table: d.table, Key: key}, Access: fence.Access{Principal: anonymous, Token: w.token},
		Columns: []string{"balance"}, Body: body,
	})
	if err == nil && !tells(row.JSON, w.balance) {
		err = fmt.Errorf("row %d: %d was written, the answer is %.200s", w.row, w.balance, row.JSON)
	}
	return err
}
