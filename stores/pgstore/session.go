package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrPooler is a pooler between the store and PostgreSQL that Config.Pooled does not say is there. A session would not
// be the store's own, and what was pinned in it would not hold.
var ErrPooler = errors.New("a pooler such as PgBouncer seems to stand before PostgreSQL: say so with FENCEGATE_PGBOUNCER=true, or connect directly")

// configureSessions pins what the guarantees depend on, in every session or, behind a pooler, what the pooler keeps for
// each of its clients.
func configureSessions(pc *pgxpool.Config, cfg Config) {
	pc.ConnConfig.RuntimeParams["application_name"] = "fencegate"
	maps.Copy(pc.ConnConfig.RuntimeParams, trackedSettings())
	if cfg.Pooled {
		pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		pc.ConnConfig.StatementCacheCapacity, pc.ConnConfig.DescriptionCacheCapacity = 0, 0
		return
	}
	pc.AfterConnect = checkSession
	maps.Copy(pc.ConnConfig.RuntimeParams, settings(cfg))
	maps.Copy(pc.ConnConfig.RuntimeParams, map[string]string{
		"default_transaction_isolation": "read committed",
		// A peer that has vanished is noticed within half a minute (on TCP), and its locks are freed.
		"tcp_keepalives_idle":     "10",
		"tcp_keepalives_interval": "5",
		"tcp_keepalives_count":    "4",
	})
}

// trackedSettings are those that PgBouncer takes from a client and restores for it.
func trackedSettings() map[string]string {
	return map[string]string{"TimeZone": "UTC", "DateStyle": "ISO, YMD"}
}

// settings are the others that every transaction depends on, against any default of the server, database or role.
func settings(cfg Config) map[string]string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return map[string]string{
		"IntervalStyle":                       "postgres",
		"jit":                                 "off", // to compile a statement takes longer than any of ours
		"bytea_output":                        "hex",
		"extra_float_digits":                  "1",
		"lock_timeout":                        ms(cfg.LockTimeout),
		"statement_timeout":                   ms(cfg.StatementTimeout),
		"idle_in_transaction_session_timeout": ms(cfg.LockTimeout),
	}
}

// preamble is the statement that sets them for one transaction, and raises a synchronous_commit of off.
func preamble(cfg Config) string {
	all := settings(cfg)
	maps.Copy(all, trackedSettings())
	var b strings.Builder
	// What another client of the pooler may have left: its role, and claims that are not the caller's.
	b.WriteString("SELECT pg_catalog.set_config('role', 'none', true), pg_catalog.set_config('request.jwt.claims', '', true), ")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "pg_catalog.set_config('%s', '%s', true), ", name, all[name])
	}
	b.WriteString("pg_catalog.set_config('synchronous_commit', pg_catalog.replace(pg_catalog.current_setting('synchronous_commit'), 'off', 'local'), true)")
	return b.String()
}

// checkSession refuses a session that is a pooler's, or whose isolation was not pinned, and raises a
// synchronous_commit of off: an accepted write is durable.
func checkSession(ctx context.Context, conn *pgx.Conn) error {
	if pooled, err := Pooler(ctx, conn); err != nil || pooled {
		return cmp.Or(err, ErrPooler)
	}
	var isolation, sync string
	err := conn.QueryRow(ctx, "SELECT current_setting('transaction_isolation'), current_setting('synchronous_commit')").Scan(&isolation, &sync)
	if err != nil {
		return err
	}
	if isolation != "read committed" {
		return fmt.Errorf("the session's isolation is %s, not read committed", isolation)
	}
	if sync == "off" {
		_, err = conn.Exec(ctx, "SET synchronous_commit = local")
	}
	return err
}

// Pooler tells whether a pooler stands between conn and PostgreSQL: it makes up the process id that it gives to its
// clients for cancelling.
func Pooler(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var pid uint32
	// A statement that was prepared by name would be unknown to the pooler's next session.
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()::oid", pgx.QueryExecModeExec).Scan(&pid)
	return err == nil && pid != conn.PgConn().PID(), err
}

// intact tells whether a connection may serve another request: code of the user's own (a trigger) may have left settings behind under which
// keys would be read differently.
func intact(conn *pgx.Conn, tracked map[string]string, pooled bool) bool {
	for name, value := range tracked {
		if conn.PgConn().ParameterStatus(name) != value {
			return false
		}
	}
	return pooled || conn.PgConn().ParameterStatus("IntervalStyle") == "postgres"
}
