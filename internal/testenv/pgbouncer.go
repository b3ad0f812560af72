package testenv

import (
	"net/url"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/localservers"
)

// PgBouncer starts a PgBouncer of the test's own before the server of a database that Database or PostgresServer made,
// with few sessions, and returns the database's URL through it. Mode is its pool_mode; ignore are the startup parameters
// that it drops.
func PgBouncer(t testing.TB, database, mode string, ignore ...string) string {
	t.Helper()
	b, err := localservers.StartPgBouncer(t.Context(), localservers.PgBouncerConfig{Dir: t.TempDir(), Server: database, Mode: mode, IgnoreStartup: ignore})
	if err != nil {
		t.Fatalf("testenv: PgBouncer: %v", err)
	}
	stopAfter(t, b)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatalf("testenv: PgBouncer: a postgres:// URL is needed")
	}
	return b.URL(strings.TrimPrefix(u.Path, "/"))
}
