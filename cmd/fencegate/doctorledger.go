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
	// A role that may not look into the schema is told what it lacks, before it runs into it.
	if !d.rights(ctx) {
		return facts
	}
	err := pgstore.CheckSchema(ctx, d.url)
	if err != nil {
		d.fail("ledger", "%v", err)
		if !errors.Is(err, pgstore.ErrSchemaOld) && !errors.Is(err, pgstore.ErrSchemaNew) {
			return facts
		}
	}
	if d.ask(ctx, "ledger", "SELECT ledger_id::text FROM fence.settings", &facts.id) && err == nil {
		d.schemaVersion(ctx, facts.id)
	}
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

func (d *postgresDoctor) schemaVersion(ctx context.Context, id string) {
	var version int64
	if !d.ask(ctx, "ledger", "SELECT max(version_id) FROM fence.schema_version WHERE is_applied", &version) {
		return
	}
	if own := pgstore.SchemaVersion(); version > own {
		d.warn("ledger", "schema version %d, newer than this program's %d and compatible: replace the program soon; its id is %s", version, own, id)
		return
	}
	d.ok("ledger", "schema version %d, id %s", version, id)
}

// rights tells whether this role may use the ledger; false means that looking further is useless. Whoever is neither
// the schema's owner nor a member of it needs what the gateway's own statements, and those of the functions that work
// with the caller's rights, ask for. Only what protects, guards and advances is for the owner alone.
func (d *postgresDoctor) rights(ctx context.Context) bool {
	const what = "rights on schema fence"
	var owner, user string
	var member bool
	var missing []string
	err := d.conn.QueryRow(ctx, `SELECT n.nspowner::regrole::text, current_user, pg_has_role(n.nspowner, 'USAGE'),
		ARRAY(SELECT 'USAGE on the schema' WHERE NOT has_schema_privilege(n.oid, 'USAGE'))
		|| ARRAY(SELECT r.need || ' on ' || c.oid::regclass FROM (VALUES ('r', '', 'SELECT'),
				('r', 'blobs', 'INSERT'), ('r', 'blobs', 'UPDATE'), ('r', 'blobs', 'DELETE')) r (kind, name, need)
			JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = r.kind::"char" AND r.name IN ('', c.relname)
			WHERE NOT has_table_privilege(c.oid, r.need) ORDER BY 1)
		|| ARRAY(SELECT 'SELECT on ' || c.oid::regclass FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'blocks' AND NOT has_sequence_privilege(c.oid, 'SELECT'))
		|| ARRAY(SELECT 'EXECUTE on ' || p.oid::regproc FROM pg_proc p WHERE p.pronamespace = n.oid
			AND p.proname NOT IN ('advance', 'protect', 'protect_bucket', 'protect_view', 'protect_relation', 'unprotect', 'unprotect_bucket', 'set_options',
				'guard', 'unguard', 'make_guard', 'drop_guard', 'refresh_guards', 'guard_ddl', 'refuse_unadmitted') AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1)
		FROM pg_namespace n WHERE n.nspname = 'fence'`).Scan(&owner, &user, &member, &missing)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		d.fail("ledger", "%v", pgstore.ErrNoLedger)
		return false
	case err != nil:
		d.fail(what, "%v", err)
		return false
	case member && owner == user:
		d.ok(what, "%s owns it", user)
	case member:
		d.ok(what, "%s is a member of its owner %s", user, owner)
	case len(missing) > 0:
		d.fail(what, "%s lacks %s: run the gateway as %s, or GRANT %s TO %s", user, some(missing), owner, owner, user)
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
	if !d.ask(ctx, what, "SELECT coalesce(pg_sequence_last_value('fence.blocks'), 0)", &last) {
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

// writers looks at the role for SQL callers of fence.admit, and at the right to end a session that has stalled: theirs, or
// a gateway's. Whoever ends a session of another role must see what it waits for, too, which PostgreSQL hides.
func (d *postgresDoctor) writers(ctx context.Context) {
	var exists, signals bool
	var others []string
	if !d.ask(ctx, "SQL writers", `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'fence_writer'),
		coalesce((SELECT pg_has_role(p.proowner, 'pg_signal_backend', 'USAGE') AND pg_has_role(p.proowner, 'pg_read_all_stats', 'USAGE') FROM pg_proc p WHERE p.oid = to_regproc('fence.end_stalled')), false),
		ARRAY(SELECT m.member::regrole::text FROM (
				SELECT m.member FROM pg_auth_members m JOIN pg_roles w ON w.oid = m.roleid AND w.rolname = 'fence_writer'
				UNION SELECT current_user::regrole) m
			WHERE NOT pg_has_role((SELECT p.proowner FROM pg_proc p WHERE p.oid = to_regproc('fence.end_stalled')), m.member, 'USAGE') ORDER BY 1)`,
		&exists, &signals, &others) {
		return
	}
	switch {
	case !exists:
		d.warn("SQL writers", "there is no role fence_writer: only the ledger's owner can call fence.admit. To let others, create it and grant it USAGE on schema fence and EXECUTE on fence.admit")
	case len(others) > 0 && !signals:
		d.warn("SQL writers", "the ledger's owner may not end a stalled session of %s, which then holds up the next grant: GRANT that role, or both pg_signal_backend and pg_read_all_stats, TO the owner", some(others))
	default:
		d.ok("SQL writers", "stalled ones can be ended")
	}
}
