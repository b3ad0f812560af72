package pglease_test

import (
	"context"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/pglease"
)

// TestOwnServer does to a server what others could not bear.
func TestOwnServer(t *testing.T) {
	t.Parallel()
	o := &ownServer{where: localservers.PostgresConfig{Dir: t.TempDir(), Ephemeral: true}}
	o.start(t)
	t.Cleanup(func() { _ = o.Stop() })
	t.Run("Rights", o.testRights)
	t.Run("CommitsDoNotWait", o.testCommitsDoNotWait)
	t.Run("Hung", o.testHung)
	t.Run("Crash", o.testCrash)
}

type ownServer struct {
	*localservers.Postgres
	where localservers.PostgresConfig
}

func (o *ownServer) start(t *testing.T) {
	t.Helper()
	var err error
	if o.Postgres, err = localservers.StartPostgres(t.Context(), o.where); err != nil {
		t.Fatal(err)
	}
}

// database makes an empty one.
func (o *ownServer) database(t *testing.T, name string) (url string) {
	t.Helper()
	exec(t, database(t, o.URL("postgres")), "CREATE DATABASE "+name)
	return o.URL(name)
}

// testCrash kills the server, which does not write down what it has in memory, under a holder and those that wait.
func (o *ownServer) testCrash(t *testing.T) {
	url := o.database(t, "crash")
	migrate(t, url)
	pooled := pglease.Config{URL: testenv.PgBouncer(t, url, "transaction"), Pooled: true}
	a, b, c := join(t, pglease.Config{URL: url}), join(t, pglease.Config{URL: url}), join(t, pooled)
	a.enter("crash", "a")
	waits := map[*gateway]lease.Entry{b: entry("b"), c: entry("c")}
	for _, g := range []*gateway{b, c} {
		e := waits[g]
		e.Place = g.enter("crash", e.Holder).Place
		waits[g] = e
	}
	// What others commit takes with it to the disk what was committed before.
	exec(t, database(t, url), "SELECT pg_logical_emit_message(true, 'fencegate', '')")

	o.Kill()
	unavailableInTime(t, a.Locker, 3*time.Second)
	o.start(t)
	// A pooler may have kept a poll until the server was back, and nothing was lost.
	b.hears(lease.Signal{Kind: lease.Resync})
	for _, g := range []*gateway{b, c} {
		var s lease.Standing
		var err error
		eventually(t, "it is reached", func() bool { s, err = g.Enter(t.Context(), "crash", waits[g]); return err == nil })
		if s.Value != value("a") || s.Place != waits[g].Place {
			t.Fatalf("it stands %+v, want its place %d behind a", s, waits[g].Place)
		}
	}
	a.hears(lease.Signal{Kind: lease.Resync})
	if s := a.claim("crash", "a"); s.Value != value("a") || s.Entries != 2 {
		t.Fatalf("it stands %+v, want it held by a still, and two behind it", s)
	}
	a.drop("crash", "a")
	b.hears(pushed("crash", "b"))
	b.claim("crash", "b")
	b.drop("crash", "b")
	c.hears(pushed("crash", "c"))
	c.claim("crash", "c")
	c.drop("crash", "c")
}

func (o *ownServer) testHung(t *testing.T) {
	url := o.database(t, "hung")
	migrate(t, url)
	l := open(t, pglease.Config{URL: url, CallTimeout: 300 * time.Millisecond})
	var err error
	eventually(t, "it is there", func() bool { _, err = l.Enter(t.Context(), "hung", entry("a")); return err == nil })
	if err := o.Pause(); err != nil {
		t.Fatal(err)
	}
	unavailableInTime(t, l, 5*time.Second)
	if err := o.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "available again", func() bool {
		s, err := l.Look(t.Context(), "hung", 0)
		return err == nil && s.Value == value("a")
	})
}

func unavailableInTime(t *testing.T, l *pglease.Locker, most time.Duration) {
	t.Helper()
	for what, call := range calls(t, l) {
		began := time.Now()
		wantCode(t, call(), fence.CodeUnavailable)
		if took := time.Since(began); took > most {
			t.Errorf("%s: it took %v to say so", what, took)
		}
	}
}

// No commit waits for a disk, nor for a standby.
func (o *ownServer) testCommitsDoNotWait(t *testing.T) {
	url := o.database(t, "commits")
	migrate(t, url)
	db := database(t, url)
	standby := func(name string) {
		t.Helper()
		exec(t, db, "ALTER SYSTEM SET synchronous_standby_names = '"+name+"'")
		exec(t, db, "SELECT pg_reload_conf()")
		waits := func() bool {
			conn := database(t, url)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'probe', '')")
			return err != nil
		}
		eventually(t, "the setting takes", func() bool { return waits() == (name != "") })
	}
	config := pglease.Config{URL: url}
	a, b := join(t, config), join(t, config)
	polls := join(t, pglease.Config{URL: testenv.PgBouncer(t, url, "transaction"), Pooled: true})
	exec(t, db, "INSERT INTO fence.leases SELECT 'old', sha256(''), gen_random_uuid(), 0, 0, '', false, NULL, NULL, now() - interval '1 h'")
	standby("gone")
	handOver(t, a, b, "direct")
	handOver(t, a, polls, "polled")
	if n := ask[int64](t, db, "SELECT fence.sweep_leases(10)"); n != 1 {
		t.Errorf("%d rows were swept", n)
	}
	standby("")
}

// Whoever keeps a lease's rows from a call makes it unavailable in time, and disturbs no other lease.
func TestBusyLease(t *testing.T) {
	t.Parallel()
	url := ledger(t)
	db := database(t, url)
	// The ledger's lock of the same lease is another one: a paused writer keeps no lease from its locker.
	exec(t, database(t, url), "SELECT pg_advisory_lock(fence.lease_lock('busy'))")
	for name, config := range map[string]pglease.Config{
		"Direct":     {URL: url},
		"ShortCalls": {URL: url, CallTimeout: 700 * time.Millisecond},
		"PgBouncer":  {URL: testenv.PgBouncer(t, url, "transaction"), Pooled: true, CallTimeout: 20 * time.Second},
	} {
		l := open(t, config)
		if _, err := l.Enter(t.Context(), "busy", entry("a")); err != nil {
			t.Fatal(err)
		}
		tx, err := db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(fence.locker_lock('busy'))"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = l.Look(t.Context(), "busy", 0)
		wantCode(t, err, fence.CodeUnavailable)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: it took %v to say so", name, took)
		}
		if _, err := l.Enter(t.Context(), "idle "+name, entry("a")); err != nil {
			t.Errorf("%s: another lease: %v", name, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s, err := l.Look(t.Context(), "busy", 0); err != nil || s.Value != value("a") {
			t.Errorf("%s: afterwards it stands %+v, %v", name, s, err)
		}
		// What was given up has left nothing that waits.
		if n := ask[int](t, db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); n != 0 {
			t.Errorf("%s: %d wait on", name, n)
		}
	}
}

// Whatever a session defaults to.
func TestStrangeDefaults(t *testing.T) {
	t.Parallel()
	url := ledger(t)
	exec(t, database(t, url), `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
		EXECUTE format('ALTER DATABASE %I SET intervalstyle = iso_8601', current_database());
		EXECUTE format('ALTER DATABASE %I SET bytea_output = escape', current_database());
		EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Tokyo''', current_database());
		EXECUTE format('ALTER DATABASE %I SET datestyle = ''German''', current_database());
		EXECUTE format('ALTER DATABASE %I SET search_path = nowhere', current_database());
		EXECUTE format('ALTER DATABASE %I SET lock_timeout = 0', current_database()); END $$`)
	bouncer := testenv.PgBouncer(t, url, "transaction")
	for name, config := range map[string]pglease.Config{
		"Direct": {URL: url}, "PgBouncer": {URL: bouncer, Pooled: true, ListenURL: url}, "Polled": {URL: bouncer, Pooled: true},
	} {
		handOver(t, join(t, config), join(t, config), name)
	}
}

func calls(t *testing.T, l *pglease.Locker) map[string]func() error {
	return map[string]func() error{
		"enter": func() error { _, err := l.Enter(t.Context(), "call", entry("a")); return err },
		"stay":  func() error { _, err := l.Stay(t.Context(), "call", entry("a")); return err },
		"extend": func() error {
			_, err := l.Extend(t.Context(), "call", lease.Extension{Value: value("a"), TTL: time.Minute})
			return err
		},
		"drop": func() error { _, err := l.Drop(t.Context(), "call", value("a")); return err },
		"look": func() error { _, err := l.Look(t.Context(), "call", 1); return err },
	}
}
