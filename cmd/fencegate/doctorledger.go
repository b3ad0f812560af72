package main

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/stores/pgstore"
)

// ledger looks at schema fence: its version, this role's rights, what is protected, and the tokens that are left.
func (d *postgresDoctor) ledger(ctx context.Context) (facts ledgerFacts) {
	err := pgstore.CheckSchema(ctx, d.url)
	if err != nil {
		d.fail("ledger", "%v", err)
		if !errors.Is(err, pgstore.ErrSchemaOld) && !errors.Is(err, pgstore.ErrSchemaNew) {
			return facts
		}
	} else {
		d.schemaVersion(ctx)
	}
	if !d.rights(ctx) {
		return facts
	}
	d.ask(ctx, "ledger", "SELECT ledger_id::text FROM fence.settings", &facts.id)
	d.tokensLeft(ctx)
	d.writers(ctx)
	d.protectedTables(ctx)
	rows, err := d.conn.Query(ctx, "SELECT DISTINCT name FROM fence.protected WHERE kind = 'bucket' ORDER BY name")
	if err == nil {
		facts.buckets, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		d.fail("protected buckets", "%v", err)
	}
	return facts
}

func (d *postgresDoctor) schemaVersion(ctx context.Context) {
	var version int64
	if !d.ask(ctx, "ledger", "SELECT max(version_id) FROM fence.schema_version WHERE is_applied", &version) {
		return
	}
	if own := pgstore.SchemaVersion(); version > own {
		d.warn("ledger", "schema version %d, newer than this program's %d and compatible: replace the program soon", version, own)
		return
	}
	d.ok("ledger", "schema version %d", version)
}

// rights tells whether this role may use the ledger. Its functions work with the caller's rights where the caller is
// the gateway, so that in practice the gateway's role is the schema's owner or a member of it.
func (d *postgresDoctor) rights(ctx context.Context) bool {
	const what = "rights on schema fence"
	var owner, user string
	var member bool
	var missing []string
	if !d.ask(ctx, what, `SELECT n.nspowner::regrole::text, current_user, pg_has_role(n.nspowner, 'USAGE'),
		ARRAY(SELECT p.oid::regproc::text FROM pg_proc p WHERE p.pronamespace = n.oid AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1)
		|| ARRAY(SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind = 'r'
			AND NOT has_table_privilege(c.oid, 'SELECT') ORDER BY 1)
		FROM pg_namespace n WHERE n.nspname = 'fence'`, &owner, &user, &member, &missing) {
		return false
	}
	switch {
	case member && owner == user:
		d.ok(what, "%s owns it", user)
	case member:
		d.ok(what, "%s is a member of its owner %s", user, owner)
	case len(missing) > 0:
		d.fail(what, "%s has none on %s: run the gateway as %s, or GRANT %s TO %s", user, some(missing), owner, owner, user)
		return false
	default:
		d.ok(what, "granted to %s one by one", user)
	}
	return true
}

func some(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:shown], ", ") + " and more"
}

func (d *postgresDoctor) tokensLeft(ctx context.Context) {
	const what, most = "tokens left", 999_999_999_999
	var last int64
	if !d.ask(ctx, what, "SELECT last_value FROM fence.blocks", &last) {
		return
	}
	left := float64(most-last) / most * 100
	switch {
	case left < 1:
		d.fail(what, "%.2f %% of the blocks; grants end when they do", left)
	case left < 20:
		d.warn(what, "%.0f %% of the blocks", left)
	default:
		d.ok(what, "%.1f %% of the blocks", left)
	}
}

// writers looks at the role for SQL callers of fence.admit, and at the right to end one that has stalled.
func (d *postgresDoctor) writers(ctx context.Context) {
	var exists, signals bool
	var others []string
	if !d.ask(ctx, "SQL writers", `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'fence_writer'),
		coalesce((SELECT pg_has_role(p.proowner, 'pg_signal_backend', 'USAGE') FROM pg_proc p WHERE p.oid = to_regproc('fence.end_stalled')), false),
		ARRAY(SELECT m.member::regrole::text FROM pg_auth_members m JOIN pg_roles w ON w.oid = m.roleid AND w.rolname = 'fence_writer'
			WHERE NOT pg_has_role((SELECT p.proowner FROM pg_proc p WHERE p.oid = to_regproc('fence.end_stalled')), m.member, 'USAGE') ORDER BY 1)`,
		&exists, &signals, &others) {
		return
	}
	switch {
	case !exists:
		d.warn("SQL writers", "there is no role fence_writer: only the ledger's owner can call fence.admit. To let others, create it and grant it USAGE on schema fence and EXECUTE on fence.admit")
	case len(others) > 0 && !signals:
		d.warn("SQL writers", "the ledger's owner may not end a stalled session of %s, which then holds up the next grant: GRANT pg_signal_backend TO the owner", some(others))
	default:
		d.ok("SQL writers", "stalled ones can be ended")
	}
}
