package pglease_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/leasetest"
	"github.com/fencegate/fencegate/lease/pglease"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	url := ledger(t)
	bouncer := testenv.PgBouncer(t, url, "transaction")
	for name, c := range map[string]struct {
		config pglease.Config
		slack  time.Duration
	}{
		"Direct":           {config: pglease.Config{URL: url}},
		"ThroughPgBouncer": {config: pglease.Config{URL: bouncer, Pooled: true, ListenURL: url}},
		// What a locker that polls is handed is reserved for as much longer as it may be late.
		"Polled": {config: pglease.Config{URL: bouncer, Pooled: true}, slack: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.config.MaxConns = 4
			db := make(chan *pgx.Conn, 1) // the tests share it
			db <- database(t, url)
			with := func(f func(*pgx.Conn)) {
				conn := <-db
				defer func() { db <- conn }()
				f(conn)
			}
			leasetest.Run(t, leasetest.Backend{
				Open:  func(t *testing.T) lease.Locker { return open(t, c.config) },
				Slack: c.slack,
				Fill: func(t *testing.T, _ lease.Locker, name string, entries int) {
					with(func(db *pgx.Conn) { fill(t, db, name, entries) })
				},
				Leftovers: func(t *testing.T, name string) (tables []string) {
					with(func(db *pgx.Conn) { tables = leftovers(t, db, name) })
					return tables
				},
			})
		})
	}
}

// fill puts entries of a gateway that is not there behind those of a queue.
func fill(t testing.TB, db *pgx.Conn, name string, entries int) {
	t.Helper()
	exec(t, db, `INSERT INTO fence.lease_queue SELECT $1, 9000000000000000 + n, sha256(n::text::bytea), gen_random_uuid(), 0, 1, '', '', now() + interval '1 h'
		FROM generate_series(1, $2::int) n`, name, entries)
}

// leftovers is where something is kept of a lease.
func leftovers(t testing.TB, db *pgx.Conn, name string) (tables []string) {
	t.Helper()
	for _, table := range []string{"leases", "lease_queue", "lease_signals"} {
		if ask[bool](t, db, "SELECT EXISTS (SELECT FROM fence."+table+" WHERE name = $1)", name) {
			tables = append(tables, table)
		}
	}
	return tables
}
