package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"github.com/fencegate/fencegate/migrations"
)

// What a SchemaError is, for errors.Is.
var (
	// ErrNoLedger is a database without a ledger.
	ErrNoLedger = errors.New("the database has no ledger (schema fence): make it with fencegate migrate up, or start with --migrate")
	// ErrSchemaOld is a ledger that lacks migrations of the program's.
	ErrSchemaOld = errors.New("run fencegate migrate up, or start with --migrate")
	// ErrSchemaNew is a ledger that programs of this age do not work with any more.
	ErrSchemaNew = errors.New("replace this program by a newer one")
)

// SchemaError says that the program and the ledger do not go together, and why: it is ErrNoLedger, ErrSchemaOld or
// ErrSchemaNew.
type SchemaError struct {
	// Program is the newest migration that the program has, Ledger the newest that was applied; 0 without a ledger.
	Program, Ledger int64
	// CompatibleFrom is the oldest program, by its newest migration, that works with the ledger.
	CompatibleFrom int64
	kind           error
}

func (e *SchemaError) Error() string {
	switch e.kind {
	case ErrSchemaOld:
		return fmt.Sprintf("the ledger's schema has version %d, this program needs %d: %s", e.Ledger, e.Program, e.kind)
	case ErrSchemaNew:
		return fmt.Sprintf("the ledger's schema has version %d, which works with programs of schema version %d or newer, and this one's is %d: %s",
			e.Ledger, e.CompatibleFrom, e.Program, e.kind)
	}
	return e.kind.Error()
}

func (e *SchemaError) Unwrap() error { return e.kind }

// SchemaVersion is the schema that this program was made for: its newest migration.
func SchemaVersion() int64 {
	list, err := ownMigrations()
	if err != nil || len(list) == 0 {
		return 0
	}
	return list[len(list)-1].Version
}

// CheckSchema returns nil when the ledger's schema is the program's own, or a newer one that works with it: while the
// programs of a deployment are replaced one by one, those that are still old go on. Else it is a *SchemaError, or
// what kept it from finding out: fence.CodeUnavailable when trying later may help. It works through a pooler.
//
// The rule behind it: a migration that the programs before it cannot work with sets fence.settings.compatible_from to
// its own version.
func CheckSchema(ctx context.Context, url string) error {
	e := &SchemaError{Program: SchemaVersion(), kind: ErrNoLedger}
	err := withConn(ctx, url, func(conn *pgx.Conn) error {
		applied, err := appliedMigrations(ctx, conn)
		for v := range applied {
			e.Ledger = max(e.Ledger, v)
		}
		if err != nil || e.Ledger <= e.Program {
			return err
		}
		return conn.QueryRow(ctx, "SELECT compatible_from FROM fence.settings").Scan(&e.CompatibleFrom)
	})
	switch {
	case err != nil:
		return fmt.Errorf("read the ledger's schema: %w", err)
	case e.Ledger == 0:
		return e
	case e.Ledger < e.Program:
		e.kind = ErrSchemaOld
		return e
	case e.CompatibleFrom > e.Program:
		e.kind = ErrSchemaNew
		return e
	}
	return nil
}

// MigrationStatus lists the program's migrations and whether each has been applied, and after them those of a newer
// program that the ledger has. It changes nothing, and works through a pooler.
func MigrationStatus(ctx context.Context, url string) ([]Migration, error) {
	list, err := ownMigrations()
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	var applied map[int64]bool
	err = withConn(ctx, url, func(conn *pgx.Conn) (err error) {
		applied, err = appliedMigrations(ctx, conn)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	for i := range list {
		list[i].Applied = applied[list[i].Version]
		delete(applied, list[i].Version)
	}
	return append(list, unknown(applied)...), nil
}

func ownMigrations() ([]Migration, error) {
	names, err := migrations.FS.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var list []Migration
	for _, entry := range names { // in the order of their names, so of their versions
		version, err := goose.NumericComponent(entry.Name())
		if err != nil {
			return nil, err
		}
		list = append(list, Migration{Version: version, Name: entry.Name()})
	}
	return list, nil
}

// withConn lends a connection of its own, made with no settings that a pooler would refuse.
func withConn(ctx context.Context, url string, f func(*pgx.Conn) error) error {
	config, err := directConfig(url)
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return classifyConnect(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return classifyRead(f(conn))
}

// appliedMigrations reads goose's own table; there is none in a database without a ledger.
func appliedMigrations(ctx context.Context, conn *pgx.Conn) (map[int64]bool, error) {
	var exists bool
	applied := make(map[int64]bool)
	err := conn.QueryRow(ctx, "SELECT to_regclass('fence.schema_version') IS NOT NULL").Scan(&exists)
	if err != nil || !exists {
		return applied, err
	}
	rows, err := conn.Query(ctx, "SELECT version_id FROM fence.schema_version WHERE is_applied AND version_id > 0")
	if err != nil {
		return nil, err
	}
	versions, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	for _, v := range versions {
		applied[v] = true
	}
	return applied, err
}

func unknown(applied map[int64]bool) []Migration {
	var list []Migration
	for _, v := range slices.Sorted(maps.Keys(applied)) {
		list = append(list, Migration{Version: v, Name: fmt.Sprintf("%05d (of a newer program)", v), Applied: true})
	}
	return list
}
