package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

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
// each other. A schema newer than the program's own is left as it is: CheckSchema tells whether the program works with
// it. Behind a pooler it is ErrMigrateDirectly. When a transaction keeps a table that it needs for 5 s, it gives up.
func Migrate(ctx context.Context, url string) ([]Migration, error) {
	var done []Migration
	err := withGoose(ctx, url, func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		for _, r := range results {
			done = append(done, Migration{Version: r.Source.Version, Name: r.Source.Path, Applied: r.Error == nil})
		}
		return err
	})
	return done, err
}

// ErrMigrateDirectly is a URL that leads to a pooler: the lock that keeps two migrations apart belongs to a session.
var ErrMigrateDirectly = errors.New("migrations need a direct connection, and this URL leads to a pooler such as PgBouncer: run fencegate migrate up with PostgreSQL's own URL")

// migrationLockTimeout bounds a migration's wait for each table.
const migrationLockTimeout = 5 * time.Second

func withGoose(ctx context.Context, url string, f func(*goose.Provider) error) (err error) {
	config, err := directConfig(url)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	config.RuntimeParams["search_path"] = "pg_catalog, pg_temp"
	// While a migration waits for a table, all that come to it later wait too, gateways among them. It may work for long.
	config.RuntimeParams["lock_timeout"] = strconv.FormatInt(migrationLockTimeout.Milliseconds(), 10)
	config.RuntimeParams["statement_timeout"] = "0"
	if err := refusePooler(ctx, config); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	if err := createSchema(ctx, db); err != nil {
		return fmt.Errorf("migrate: %w", err)
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
	if err := f(p); sqlState(err) == stateLockTimeout {
		return fmt.Errorf("migrate: another transaction (a dump, a session that has stalled) kept a table of the ledger for longer than %v: end it, or migrate again when it is over: %w", migrationLockTimeout, err)
	} else if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// refusePooler recognizes a pooler by the process id that it makes up for its clients, or by its refusal of settings.
func refusePooler(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if sqlState(err) == stateProtocol {
		return errors.Join(ErrMigrateDirectly, err)
	}
	if err != nil {
		return classifyConnect(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	pooled, err := Pooler(ctx, conn)
	if err == nil && pooled {
		err = ErrMigrateDirectly
	}
	return err
}

func directConfig(url string) (*pgx.ConnConfig, error) {
	if url == "" {
		// libpq's default would be some database of the operating system's user.
		return nil, errors.New("no database URL")
	}
	return pgx.ParseConfig(url)
}

// createSchema makes the schema that goose keeps its own table in. Two that run at once may both find it missing.
func createSchema(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS fence")
	if state := sqlState(err); state == stateUniqueViolation || state == stateSchemaExists {
		return nil
	}
	return err
}
