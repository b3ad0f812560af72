package testenv

import (
	"context"
	"crypto/rand"
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
	server, err := mustShared(t).databaseServer()
	if err != nil {
		t.Fatalf("testenv: PostgreSQL: %v", err)
	}
	name := "fencegate_test_" + strings.ToLower(rand.Text())
	database, err := withDatabase(server, name)
	if err != nil {
		t.Fatalf("testenv: FENCEGATE_TEST_DATABASE_URL: %v", err)
	}
	// Unlike the default template, template0 is never busy.
	if err := execute(t.Context(), server, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		t.Fatalf("testenv: create a database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if err := execute(ctx, server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("testenv: drop database %s: %v", name, err)
		}
	})
	return database
}

// PostgresServer starts a PostgreSQL of the test's own, with a database fencegate, for tests that pause or kill it.
func PostgresServer(t testing.TB) *localservers.Postgres {
	t.Helper()
	p, err := localservers.StartPostgres(t.Context(), localservers.PostgresConfig{Dir: t.TempDir(), Ephemeral: true})
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
