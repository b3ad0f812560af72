// Package migrations holds the ledger's SQL (schema fence). The files are applied in order and never change once
// released. One that the programs before it cannot work with sets fence.settings.compatible_from to its own version; all
// others leave the older programs of a deployment running until they are replaced.
package migrations

import "embed"

// FS holds the migrations as NNNNN_name.sql.
//
//go:embed *.sql
var FS embed.FS
