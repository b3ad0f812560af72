package testenv

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/localservers"
)

const cleanupTimeout = 30 * time.Second

// Database makes an empty database and returns its URL. It is dropped when the test ends, whoever is connected. The
// database is the test's own; its server's roles are not.
func Database(t testing.TB) string {
	t.Helper()
	// Unlike the default template, template0 is never busy.
	return databaseLike(t, "template0")
}

// Ledger makes a database as Database does, with a ledger of its own in it: the first test of the test binary has a
// database prepared, which migrates it, and all tests get copies. Prepare leaves no connection behind, and is the same for
// all tests of the binary.
func Ledger(t testing.TB, prepare func(url string) error) string {
	t.Helper()
	template, err := mustShared(t).ledgerTemplate(prepare)
	if err != nil {
		t.Fatalf("testenv: prepare a ledger: %v", err)
	}
	database := databaseLike(t, template)
	// Gateways of different ledgers keep apart, in Redis above all, by what a migration drew by lot.
	if err := execute(t.Context(), database, renewLedger); err != nil {
		t.Fatalf("testenv: give a ledger its own id: %v", err)
	}
	return database
}

//go:embed renewledger.sql
var renewLedger string

func (s *servers) ledgerTemplate(prepare func(url string) error) (string, error) {
	return s.ledger.get(func() (string, error) {
		server, err := s.databaseServer()
		if err != nil {
			return "", err
		}
		name, database, err := createDatabase(context.Background(), server, "template0")
		if err != nil {
			return "", err
		}
		// Another's server outlives the tests.
		s.stopLater(func() error { return dropDatabase(server, name) })
		return name, prepare(database)
	})
}

// databaseLike makes a copy of a database to which nobody is connected.
func databaseLike(t testing.TB, template string) string {
	t.Helper()
	server, err := mustShared(t).databaseServer()
	if err != nil {
		t.Fatalf("testenv: PostgreSQL: %v", err)
	}
	name, database, err := createDatabase(t.Context(), server, template)
	if err != nil {
		t.Fatalf("testenv: create a database: %v", err)
	}
	t.Cleanup(func() {
		if err := dropDatabase(server, name); err != nil {
			t.Errorf("testenv: drop database %s: %v", name, err)
		}
	})
	return database
}

func createDatabase(ctx context.Context, server, template string) (name, database string, err error) {
	name = "fencegate_test_" + strings.ToLower(rand.Text())
	if database, err = withDatabase(server, name); err != nil {
		return "", "", fmt.Errorf("FENCEGATE_TEST_DATABASE_URL: %w", err)
	}
	return name, database, execute(ctx, server, "CREATE DATABASE "+name+" TEMPLATE "+template)
}

func dropDatabase(server, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	return execute(ctx, server, "DROP DATABASE "+name+" WITH (FORCE)")
}

// PostgresServer starts a PostgreSQL of the test's own, with a database fencegate, for tests that pause or kill it.
func PostgresServer(t testing.TB) *localservers.Postgres {
	t.Helper()
	p, err := localservers.StartPostgres(t.Context(), localservers.PostgresConfig{Dir: QuickDir(t), Ephemeral: true})
	if err != nil {
		t.Fatalf("testenv: PostgreSQL: %v", err)
	}
	stopAfter(t, p)
	return p
}

func stopAfter(t testing.TB, server interface{ Stop() error }) {
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("testenv: %v", err)
		}
	})
}

func withDatabase(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", fmt.Errorf("a postgres:// URL is needed")
	}
	u.Path = "/" + name
	return u.String(), nil
}

func execute(ctx context.Context, server, sql string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	if closed := conn.Close(ctx); err == nil {
		err = closed
	}
	return err
}
