// Package migrations holds the ledger's SQL (schema fence). The files are applied in order and never change once
// released.
package migrations

import "embed"

// FS holds the migrations as NNNNN_name.sql.
//
//go:embed *.sql
var FS embed.FS
