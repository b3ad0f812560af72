package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/stores/pgstore"
)

const (
	oldestPostgres = 140000 // as server_version_num tells it
	// skewWorthTelling is how far two clocks may be apart. No promise rests on them; times in logs and answers do.
	skewWorthTelling = 2 * time.Second
)

// ledgerFacts are what other checks need to know of the ledger; empty where it could not be read.
type ledgerFacts struct {
	id      string
	buckets []string
}

// checkPostgres looks at the server, then at the ledger in it.
func checkPostgres(ctx context.Context, r *report, url string, pooled bool) ledgerFacts {
	const what = "PostgreSQL"
	config, err := pgx.ParseConfig(url)
	if err != nil {
		r.fail(what, "the database URL: %v", err)
		return ledgerFacts{}
	}
	// No pooler refuses this connection, nor forgets what it prepared.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		r.fail(what, "%v", err)
		return ledgerFacts{}
	}
	defer conn.Close(context.WithoutCancel(ctx))

	d := &postgresDoctor{report: r, conn: conn, url: url, pooled: pooled}
	d.server(ctx)
	d.pooler(ctx, config)
	d.session(ctx)
	d.durability(ctx)
	d.clock(ctx)
	d.connections(ctx)
	return d.ledger(ctx)
}

// postgresDoctor asks a connection of its own, in transactions of one statement.
type postgresDoctor struct {
	*report
	conn   *pgx.Conn
	url    string
	pooled bool
}

// ask reads one row; what cannot be asked is a failed check.
func (d *postgresDoctor) ask(ctx context.Context, what, sql string, dest ...any) bool {
	if err := d.conn.QueryRow(ctx, sql).Scan(dest...); err != nil {
		d.fail(what, "%v", err)
		return false
	}
	return true
}

func (d *postgresDoctor) server(ctx context.Context) {
	var (
		version, encoding, database, user string
		number                            int
		standby, readOnly                 bool
	)
	if !d.ask(ctx, "PostgreSQL", `SELECT current_setting('server_version'), current_setting('server_version_num')::int, current_setting('server_encoding'),
		current_database(), current_user, pg_is_in_recovery(), 'on' IN (current_setting('default_transaction_read_only'), current_setting('transaction_read_only'))`,
		&version, &number, &encoding, &database, &user, &standby, &readOnly) {
		return
	}
	switch {
	case number < oldestPostgres:
		d.fail("PostgreSQL", "version %s; 14 or newer is needed", version)
	case standby:
		d.fail("PostgreSQL", "version %s, a standby: it takes no writes; name the primary", version)
	case readOnly:
		d.fail("PostgreSQL", "version %s, read-only: default_transaction_read_only is on for the server, database %s or role %s, so that no write is taken", version, database, user)
	default:
		d.ok("PostgreSQL", "version %s, database %s as %s", version, database, user)
	}
	if encoding != "UTF8" {
		d.fail("encoding", "%s; the database must be created with encoding UTF8", encoding)
	} else {
		d.ok("encoding", "UTF8")
	}
}

// session opens one as the gateway does.
func (d *postgresDoctor) session(ctx context.Context) {
	var isolation string
	if !d.ask(ctx, "isolation", "SELECT current_setting('default_transaction_isolation')", &isolation) {
		return
	}
	store, err := pgstore.Open(pgstore.Config{URL: d.url, Pooled: d.pooled})
	if err == nil {
		_, err = store.LedgerID(ctx)
		store.Close()
	}
	// A ledger that is missing or closed to this role (class 42) is another line's: the session was good enough to find out.
	var pg *pgconn.PgError
	if err != nil && !(errors.As(err, &pg) && strings.HasPrefix(pg.Code, "42")) {
		d.fail("isolation", "a session of the gateway's cannot be used: %v", err)
		return
	}
	if isolation != "read committed" {
		d.warn("isolation", "sessions default to %s; the gateway's transactions are READ COMMITTED all the same, and SQL callers of fence.admit must say so", isolation)
		return
	}
	d.ok("isolation", "READ COMMITTED")
}

func (d *postgresDoctor) durability(ctx context.Context) {
	var (
		fsync, pages, sync, standbys string
		sees                         bool // what others do not, of the standbys
		connected                    int
	)
	if !d.ask(ctx, "durability", `SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
		current_setting('synchronous_standby_names'), pg_has_role('pg_read_all_stats', 'USAGE'),
		(SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'))`, &fsync, &pages, &sync, &standbys, &sees, &connected) {
		return
	}
	if fsync != "on" {
		d.fail("fsync", "%s: a crash can lose accepted writes or the whole ledger; set fsync = on", fsync)
	} else {
		d.ok("fsync", "on")
	}
	if pages != "on" {
		d.warn("full_page_writes", "%s: a crash can tear pages, unless the file system cannot; set full_page_writes = on", pages)
	} else {
		d.ok("full_page_writes", "on")
	}
	switch {
	case sync == "off":
		d.warn("synchronous_commit", "off; the gateway's own commits are raised to local, those of SQL callers can be lost in a crash")
	case standbys == "" || sync == "local":
		d.ok("synchronous_commit", "%s, without a synchronous standby: a fail-over can lose commits, and needs fencegate ledger advance then", sync)
	case sees && connected == 0:
		d.warn("synchronous_commit", "%s, and no synchronous standby of %s is connected: every write waits for one", sync, standbys)
	default:
		d.ok("synchronous_commit", "%s, synchronous standbys: %s", sync, standbys)
	}
}

func (d *postgresDoctor) clock(ctx context.Context) {
	var there time.Time
	sent := time.Now()
	if d.ask(ctx, "clock of PostgreSQL", "SELECT clock_timestamp()", &there) {
		d.tellSkew("clock of PostgreSQL", there, sent)
	}
}

// tellSkew compares a clock that was read between sent and now with this machine's.
func (r *report) tellSkew(what string, there, sent time.Time) {
	took := time.Since(sent)
	skew := there.Sub(sent.Add(took / 2))
	if skew.Abs() > skewWorthTelling+took {
		r.warn(what, "%v away from this machine's: tokens do not depend on it, the times in answers and logs do; run NTP", skew.Round(time.Millisecond))
		return
	}
	r.ok(what, "within %v of this machine's", (skew.Abs() + took).Round(time.Millisecond))
}

// connections compares what one gateway takes with what there is.
func (d *postgresDoctor) connections(ctx context.Context) {
	if d.pooled {
		d.ok("connections", "the pooler's to bound")
		return
	}
	pc, err := pgxpool.ParseConfig(d.url)
	if err != nil {
		d.fail("connections", "the database URL: %v", err)
		return
	}
	pool := max(int(pc.MaxConns), pgstore.LeastConns)
	var all, free int
	if !d.ask(ctx, "connections", `SELECT m.most, m.most - (SELECT sum(numbackends) FROM pg_stat_database)::int FROM (SELECT least(
		current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
		(SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database()),
		(SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user)) AS most) m`, &all, &free) {
		return
	}
	switch {
	case pool > all:
		d.fail("connections", "a gateway takes up to %d, this role may have %d: raise max_connections, or lower pool_max_conns in the URL", pool, all)
	case pool > free:
		d.warn("connections", "a gateway takes up to %d, %d of %d are free now", pool, max(free, 0), all)
	default:
		d.ok("connections", "a gateway takes up to %d, %d of %d are free now", pool, free, all)
	}
}
