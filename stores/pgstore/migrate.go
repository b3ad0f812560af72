package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/fencegate/fencegate/migrations"
)

// Migration is one step of the ledger's schema.
type Migration struct {
	Version int64
	Name    string
	Applied bool
}

// Migrate brings the ledger's schema up to date and returns what it applied. Several may run at once: they wait for
// each other.
func Migrate(ctx context.Context, url string) ([]Migration, error) {
	var done []Migration
	err := withGoose(ctx, url, true, func(_ *sql.DB, p *goose.Provider) error {
		results, err := p.Up(ctx)
		for _, r := range results {
			done = append(done, Migration{Version: r.Source.Version, Name: r.Source.Path, Applied: r.Error == nil})
		}
		return err
	})
	return done, err
}

// MigrationStatus lists the migrations and whether each has been applied. It changes nothing.
func MigrationStatus(ctx context.Context, url string) ([]Migration, error) {
	var list []Migration
	err := withGoose(ctx, url, false, func(db *sql.DB, p *goose.Provider) error {
		var applied int64
		var exists bool
		err := db.QueryRowContext(ctx, "SELECT to_regclass('fence.schema_version') IS NOT NULL").Scan(&exists)
		if err == nil && exists {
			applied, err = p.GetDBVersion(ctx)
		}
		if err != nil {
			return err
		}
		for _, s := range p.ListSources() {
			list = append(list, Migration{Version: s.Version, Name: s.Path, Applied: s.Version <= applied})
		}
		return nil
	})
	return list, err
}

func withGoose(ctx context.Context, url string, create bool, f func(*sql.DB, *goose.Provider) error) (err error) {
	if url == "" {
		// libpq's default would be some database of the operating system's user.
		return errors.New("migrate: no database URL")
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	config.RuntimeParams["search_path"] = "pg_catalog, pg_temp"
	db := stdlib.OpenDB(*config)
	defer db.Close()
	if create {
		if err := createSchema(ctx, db); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS,
		goose.WithTableName("fence.schema_version"), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := f(db, p); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// createSchema makes the schema that goose keeps its own table in. Two that run at once may both find it missing.
func createSchema(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS fence")
	if state := sqlState(err); state == stateUniqueViolation || state == stateSchemaExists {
		return nil
	}
	return err
}
