package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// protectedTable is a binding, and what this role finds of it.
type protectedTable struct {
	Name, Template string
	Exists, Same   bool
	View, Guarded  bool
	// Gaps are triggers of its guard that are missing or disabled.
	Gaps bool
	// Missing are the rights that this role has not.
	Missing []string
}

// protectedTables tells whether each table still is as it was protected, and whether this role may read and write it.
func (d *postgresDoctor) protectedTables(ctx context.Context) {
	const what = "protected tables"
	rows, err := d.conn.Query(ctx, `SELECT p.name, p.template, c.oid IS NOT NULL, coalesce(c.oid IS NOT NULL AND fence.as_protected(p), false),
			p.declared, p.guarded, p.guarded AND EXISTS (SELECT FROM fence.guard_gaps(c.oid, true)),
			ARRAY(SELECT r FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) r
				WHERE NOT (has_schema_privilege(c.relnamespace, 'USAGE') AND has_table_privilege(c.oid, r)))
		FROM fence.protected p LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND c.relkind IN ('r', 'p', 'v'))
			ON p.name = format('%I.%I', n.nspname, c.relname)
		WHERE p.kind = 'table' ORDER BY p.name`)
	var list []protectedTable
	if err == nil {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[protectedTable])
	}
	if err != nil {
		d.fail(what, "%v", err)
		return
	}
	if len(list) == 0 {
		d.ok(what, "none")
	}
	for _, t := range list {
		d.protectedTable(t)
	}
}

func (d *postgresDoctor) protectedTable(t protectedTable) {
	what := "table " + t.Name
	protectAgain := fmt.Sprintf("fencegate protect '%s' --lease '%s'", t.Name, t.Template)
	if t.View {
		protectAgain += " --key COLUMNS"
	}
	switch {
	case !t.Exists:
		d.fail(what, "it is not there any more")
	case !t.Same:
		d.fail(what, "its key was altered since it was protected, or a relative of it is protected too: %s", protectAgain)
	case slices.Contains(t.Missing, "SELECT") || len(t.Missing) == 3:
		d.fail(what, "the gateway's role lacks the right to %s it", strings.Join(t.Missing, ", "))
	case len(t.Missing) > 0:
		d.warn(what, "the gateway's role lacks the right to %s: those requests are refused", strings.Join(t.Missing, ", "))
	case t.Gaps:
		d.warn(what, "it is guarded, but triggers are missing or disabled: fencegate protect '%s' --guard", t.Name)
	case t.Guarded:
		d.ok(what, "lease %s, guarded", t.Template)
	default:
		d.ok(what, "lease %s", t.Template)
	}
}
