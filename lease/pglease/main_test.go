package pglease_test

import (
	"cmp"
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/pglease"
	"github.com/fencegate/fencegate/stores/pgstore"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// ledger makes a database with a ledger and returns its URL.
func ledger(t testing.TB) string {
	t.Helper()
	url := testenv.Database(t)
	migrate(t, url)
	return url
}

func migrate(t testing.TB, url string) {
	t.Helper()
	if _, err := pgstore.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
}

// gateway is a locker that listens, and what it hears.
type gateway struct {
	*pglease.Locker
	t       testing.TB
	signals chan lease.Signal
	hangUp  func()
}

// open makes a locker that does not listen.
func open(t testing.TB, config pglease.Config) *pglease.Locker {
	t.Helper()
	config.CallTimeout = cmp.Or(config.CallTimeout, 5*time.Second) // nobody is late on a busy machine
	l, err := pglease.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// join makes a locker that listens already.
func join(t testing.TB, config pglease.Config) *gateway {
	t.Helper()
	return listen(t, open(t, config))
}

// listen returns when a locker listens.
func listen(t testing.TB, l *pglease.Locker) *gateway {
	t.Helper()
	g := &gateway{Locker: l, t: t, signals: make(chan lease.Signal, 10_000)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Listen(ctx, func(s lease.Signal) { g.signals <- s }) }()
	stopped := false
	g.hangUp = func() {
		if cancel(); !stopped {
			stopped = true
			if err := <-done; err != nil {
				t.Errorf("listen: %v", err)
			}
		}
	}
	t.Cleanup(g.hangUp)
	g.hears(lease.Signal{Kind: lease.Resync})
	return g
}

// hears waits for a signal, past others.
func (g *gateway) hears(want lease.Signal) {
	g.t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case s := <-g.signals:
			if s == want {
				return
			}
		case <-timeout:
			g.t.Fatalf("no signal %+v within 10s", want)
		}
	}
}

func value(who string) fence.Digest { return fence.DigestOf("pglease", who) }

func entry(who string) lease.Entry {
	return lease.Entry{Value: value(who), Holder: who, TTL: time.Minute, Waiters: 1}
}

func pushed(name, who string) lease.Signal {
	return lease.Signal{Kind: lease.Pushed, Name: name, Value: value(who)}
}

func followed(name, who string) lease.Signal {
	return lease.Signal{Kind: lease.Followed, Name: name, Value: value(who)}
}

func (g *gateway) enter(name, who string) lease.Standing {
	g.t.Helper()
	s, err := g.Enter(g.t.Context(), name, entry(who))
	if err != nil {
		g.t.Fatalf("enter %q: %v", name, err)
	}
	return s
}

func (g *gateway) claim(name, who string) lease.Standing {
	g.t.Helper()
	s, err := g.Extend(g.t.Context(), name, lease.Extension{Value: value(who), TTL: time.Minute, Tenant: value(who), Holder: who})
	if err != nil {
		g.t.Fatalf("extend %q: %v", name, err)
	}
	return s
}

func (g *gateway) drop(name, who string) lease.Dropped {
	g.t.Helper()
	d, err := g.Drop(g.t.Context(), name, value(who))
	if err != nil {
		g.t.Fatalf("drop %q: %v", name, err)
	}
	return d
}

func (g *gateway) look(name string) lease.Standing {
	g.t.Helper()
	s, err := g.Look(g.t.Context(), name, lease.MaxQueue)
	if err != nil {
		g.t.Fatalf("look at %q: %v", name, err)
	}
	return s
}

// database is a connection beside the lockers.
func database(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// ask runs a statement that returns one value.
func ask[T any](t testing.TB, db *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// sessions are the process ids of the sessions with an application_name in the database of db.
func sessions(t testing.TB, db *pgx.Conn, name string) []int32 {
	t.Helper()
	return ask[[]int32](t, db, "SELECT coalesce(array_agg(pid ORDER BY pid), '{}') FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1", name)
}

// end ends all sessions with that application_name, and returns once there were some and they are gone.
func end(t testing.TB, db *pgx.Conn, name string) {
	t.Helper()
	pids := sessions(t, db, name)
	if len(pids) == 0 {
		t.Fatalf("no session %q", name)
	}
	exec(t, db, "SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) pid", pids)
	eventually(t, "they are gone", func() bool {
		return !ask[bool](t, db, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ANY ($1))", pids)
	})
}

func exec(t testing.TB, db *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func wantCode(t testing.TB, err error, want fence.Code) {
	t.Helper()
	if got := fence.CodeOf(err); got != want {
		t.Fatalf("got %s (%v), want %s", got, err, want)
	}
}

// wantKept checks for whom a lease was reserved last, with nobody behind him: however long ago, as nobody has called since.
func wantKept(t testing.TB, db *pgx.Conn, name, who string) {
	t.Helper()
	if got := fence.Digest(ask[[]byte](t, db, "SELECT value FROM fence.leases WHERE name = $1", name)); got != value(who) {
		t.Errorf("it was reserved for %v, want %s", got, who)
	}
	if n := ask[int](t, db, "SELECT count(*) FROM fence.lease_queue WHERE name = $1", name); n != 0 {
		t.Errorf("%d stand behind it", n)
	}
}

// eventually polls until ok, for at most a generous while.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}
