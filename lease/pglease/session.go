package pglease

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrPooler is a pooler between the locker and PostgreSQL that Config.Pooled does not say is there, or before
// Config.ListenURL.
var ErrPooler = errors.New("a pooler such as PgBouncer seems to stand before PostgreSQL: say so with FENCEGATE_PGBOUNCER=true, or connect directly")

// tune pins what the functions depend on in every session. Behind a pooler each transaction brings it along.
func (c Config) tune(pc *pgxpool.Config) {
	// What a URL says of a pool is said of the ledger's.
	pc.MaxConns, pc.MinConns, pc.MinIdleConns = c.MaxConns, 0, 0
	pc.ConnConfig.ConnectTimeout = c.CallTimeout
	pc.ConnConfig.Tracer = c.Tracer
	pc.ConnConfig.RuntimeParams["application_name"] = "fencegate locker"
	// A connection that has died is found out by the call itself, which can be repeated: no ping before it.
	pc.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	if c.Pooled {
		pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		pc.ConnConfig.StatementCacheCapacity, pc.ConnConfig.DescriptionCacheCapacity = 0, 0
		return
	}
	pc.AfterConnect = refusePooler
	maps.Copy(pc.ConnConfig.RuntimeParams, c.pinned())
}

func (c Config) pinned() map[string]string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return map[string]string{
		"default_transaction_isolation": "read committed",
		"statement_timeout":             ms(c.CallTimeout),
		// A peer that has vanished is noticed within half a minute (on TCP).
		"tcp_keepalives_idle":     "10",
		"tcp_keepalives_interval": "5",
		"tcp_keepalives_count":    "4",
	}
}

// listening makes the configuration of the session that listens.
func (c Config) listening() (*pgx.ConnConfig, error) {
	// A pool's URL may have options of the pool's.
	pc, err := pgxpool.ParseConfig(c.ListenURL)
	if err != nil {
		return nil, err
	}
	cc := pc.ConnConfig
	cc.ConnectTimeout = c.CallTimeout
	cc.Tracer = c.Tracer
	cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	cc.RuntimeParams["application_name"] = "fencegate listen"
	maps.Copy(cc.RuntimeParams, c.pinned())
	return cc, nil
}

// refusePooler recognizes a pooler by the process id that it makes up for its clients.
func refusePooler(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()::oid", pgx.QueryExecModeExec).Scan(&pid)
	if err == nil && pid != conn.PgConn().PID() {
		return ErrPooler
	}
	return err
}
