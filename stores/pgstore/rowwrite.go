//go:build !mutants

package pgstore

import (
	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

func queueRowWrite(batch *pgx.Batch, t *table, w fence.RowWrite, text string) int {
	return queueAdmitAndChange(batch, t, w, text)
}
