package pgstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/migrations"
	"github.com/fencegate/fencegate/stores/pgstore"
)

func TestCheckSchema(t *testing.T) {
	own := pgstore.SchemaVersion()
	newer := fmt.Sprintf("INSERT INTO fence.schema_version (version_id, is_applied) VALUES (%d, true)", own+2)
	for name, c := range map[string]struct {
		change string // of a ledger that is up to date
		want   error
		says   string
	}{
		"Own":                 {"", nil, ""},
		"NewerCompatible":     {newer, nil, ""},
		"CompatibleToTheLast": {newer + fmt.Sprintf("; UPDATE fence.settings SET compatible_from = %d", own), nil, ""},
		"NewerIncompatible":   {newer + fmt.Sprintf("; UPDATE fence.settings SET compatible_from = %d", own+1), pgstore.ErrSchemaNew, fmt.Sprintf("schema version %d or newer", own+1)},
		"Older":               {fmt.Sprintf("DELETE FROM fence.schema_version WHERE version_id = %d", own), pgstore.ErrSchemaOld, "fencegate migrate up, or start with --migrate"},
		"NoLedger":            {"DROP SCHEMA fence CASCADE", pgstore.ErrNoLedger, "fencegate migrate up"},
		"Unfilled":            {"DELETE FROM fence.schema_version WHERE version_id > 0", pgstore.ErrNoLedger, "fencegate migrate up"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.change != "" {
				w.exec(c.change)
			}
			err := pgstore.CheckSchema(t.Context(), w.url)
			var schema *pgstore.SchemaError
			switch {
			case c.want == nil && err != nil:
				t.Error(err)
			case c.want != nil && (!errors.Is(err, c.want) || !errors.As(err, &schema) || schema.Program != own || !strings.Contains(err.Error(), c.says)):
				t.Errorf("%v, want %v and %q", err, c.want, c.says)
			}
		})
	}
}

// A gateway that runs when a newer program migrates the ledger beyond it is not ready any more.
func TestNotReadyForAnIncompatibleLedger(t *testing.T) {
	w := newWorld(t)
	w.exec(fmt.Sprintf("UPDATE fence.settings SET compatible_from = %d", pgstore.SchemaVersion()))
	if err := w.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	w.exec(fmt.Sprintf("UPDATE fence.settings SET compatible_from = %d", pgstore.SchemaVersion()+1))
	err := w.Ready(t.Context())
	if wantCode(t, err, fence.CodeUnavailable); !errors.Is(err, pgstore.ErrSchemaNew) {
		t.Error(err)
	}
}

// A migration that has to wait for a table holds up all that come after it, so it gives up soon.
func TestMigrateGivesUpOnATableThatIsInUse(t *testing.T) {
	t.Parallel()
	url := testenv.Database(t)
	const before = 7 // the next one alters fence.grants
	migrateTo(t, url, before)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "BEGIN; SELECT FROM fence.grants"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := pgstore.Migrate(ctx, url); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "kept a table") {
		t.Errorf("migrate: %v", err)
	}
	if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	done, err := pgstore.Migrate(t.Context(), url)
	if own := pgstore.SchemaVersion(); err != nil || len(done) != int(own-before) || done[len(done)-1].Version != own {
		t.Errorf("migrate again: %v %v", done, err)
	}
}

// migrateTo makes a ledger of an older version.
func migrateTo(t *testing.T, url string, version int64) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE SCHEMA IF NOT EXISTS fence"); err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithTableName("fence.schema_version"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
}

// A ledger that a newer program has migrated is left as it is, and told.
func TestMigrateOnANewerSchema(t *testing.T) {
	w := newWorld(t)
	newest := pgstore.SchemaVersion() + 2
	w.exec(fmt.Sprintf("INSERT INTO fence.schema_version (version_id, is_applied) VALUES (%d, true)", newest))
	if done, err := pgstore.Migrate(t.Context(), w.url); err != nil || len(done) != 0 {
		t.Errorf("migrate: %v %v", done, err)
	}
	list, err := pgstore.MigrationStatus(t.Context(), w.url)
	if err != nil || len(list) != int(newest)-1 || list[len(list)-1].Version != newest || !strings.Contains(list[len(list)-1].Name, "newer") {
		t.Errorf("status: %v %v", list, err)
	}
	for _, m := range list {
		if !m.Applied {
			t.Errorf("%s is not applied", m.Name)
		}
	}
}

func TestServerThatIsDownMayBeTriedLater(t *testing.T) {
	server := testenv.PostgresServer(t)
	down := server.URL("")
	missing := server.URL("nowhere")
	if err := pgstore.CheckSchema(t.Context(), missing); err == nil || fence.CodeOf(err) == fence.CodeUnavailable {
		t.Errorf("a database that is not there: %v", err)
	}
	server.Kill()
	if err := pgstore.CheckSchema(t.Context(), down); fence.CodeOf(err) != fence.CodeUnavailable {
		t.Errorf("check: %v", err)
	}
	if _, err := pgstore.Migrate(t.Context(), down); fence.CodeOf(err) != fence.CodeUnavailable {
		t.Errorf("migrate: %v", err)
	}
}
