package localservers

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestPgBouncer(t *testing.T) {
	t.Parallel()
	server := startPostgres(t, PostgresConfig{Dir: t.TempDir(), Ephemeral: true})
	defer stopProcess(t, server.Process)
	dir := filepath.Join(t.TempDir(), "it's here")
	b, err := StartPgBouncer(t.Context(), PgBouncerConfig{Dir: dir, Server: server.URL(""), PoolSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	if second, err := StartPgBouncer(t.Context(), PgBouncerConfig{Dir: dir, Server: server.URL("")}); err == nil {
		stopProcess(t, second.Process)
		t.Error("two on one folder")
	}
	pids := make(map[int32]bool)
	for range 3 {
		conn, err := pgx.Connect(t.Context(), b.URL("fencegate"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		var pid int32
		if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		pids[pid] = true
	}
	if len(pids) != 1 {
		t.Errorf("three clients at once had %d sessions, want one", len(pids))
	}
	stopProcess(t, b.Process)
	if _, err := pgx.Connect(t.Context(), b.URL("fencegate")); err == nil {
		t.Error("it answers after it was stopped")
	}
	if _, err := StartPgBouncer(t.Context(), PgBouncerConfig{Dir: dir, Server: "postgres://%zz"}); err == nil || !strings.Contains(err.Error(), "PgBouncer's server") {
		t.Errorf("a server that is none: %v", err)
	}
}
