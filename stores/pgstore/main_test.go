package pgstore_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/pgstore"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// world is a ledger in a database of its own, and a connection beside the store.
type world struct {
	*pgstore.Store
	t   testing.TB
	url string
	db  *pgx.Conn
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return openWorld(t, testenv.Ledger(t, prepareWorld))
}

func newWorldAt(t testing.TB, url string) *world {
	t.Helper()
	if err := prepareWorld(url); err != nil {
		t.Fatal(err)
	}
	return openWorld(t, url)
}

// prepareWorld makes the ledger of an empty database, and the table that most tests write.
func prepareWorld(url string) error {
	ctx := context.Background()
	if _, err := pgstore.Migrate(ctx, url); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `CREATE TABLE wallets (id bigint PRIMARY KEY, owner text NOT NULL, balance numeric NOT NULL CHECK (balance >= 0));
		INSERT INTO wallets VALUES (42, 'alice', 100); SELECT fence.protect('wallets', 'wallet:{id}')`)
	return err
}

func openWorld(t testing.TB, url string) *world {
	t.Helper()
	cfg := pgstore.Config{URL: url}
	if throughPgBouncer(t) {
		cfg.URL, cfg.Pooled = testenv.PgBouncer(t, url, "transaction"), true
	}
	if strings.HasPrefix(t.Name(), "TestEachWriteAlone/") {
		cfg.Lanes = -1
	}
	s, err := pgstore.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	w := &world{Store: s, t: t, url: url}
	w.db = w.connect()
	return w
}

// throughPgBouncer tells whether the test runs as a part of TestThroughPgBouncer.
func throughPgBouncer(t testing.TB) bool { return strings.HasPrefix(t.Name(), "TestThroughPgBouncer/") }

func (w *world) connect() *pgx.Conn {
	w.t.Helper()
	conn, err := pgx.Connect(context.Background(), w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (w *world) exec(sql string) {
	w.t.Helper()
	if _, err := w.db.Exec(context.Background(), sql); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) text(sql string, args ...any) string {
	w.t.Helper()
	var s *string
	if err := w.db.QueryRow(context.Background(), sql, args...).Scan(&s); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	if s == nil {
		return "<null>"
	}
	return *s
}

// grant makes a new grant of a lease, whatever the one before.
func (w *world) grant(lease, principal, acquire string) *fence.Grant {
	w.t.Helper()
	ctx := context.Background()
	var floor fence.Token
	newest, err := w.Newest(ctx, lease)
	if err != nil {
		w.t.Fatal(err)
	}
	if newest != nil {
		floor = newest.First()
	}
	g, err := w.Certify(ctx, fence.Certificate{Lease: lease, Principal: principal, Holder: principal, Acquire: fence.AcquireDigest(principal, acquire), TTL: 30e9, Floor: floor})
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

func wantCode(t testing.TB, err error, want fence.Code) *fence.Error {
	t.Helper()
	if got := fence.CodeOf(err); got != want {
		t.Fatalf("got %s (%v), want %s", got, err, want)
	}
	e, _ := err.(*fence.Error)
	return e
}
