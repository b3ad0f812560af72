package main

import (
	"fmt"

	"github.com/fencegate/fencegate/stores/pgstore"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply what is missing. Several may run at once: they wait for each other."`
	Status migrateStatusCmd `cmd:"" help:"List the migrations and whether each has been applied. Changes nothing."`
}

type migrateUpCmd struct{ databaseFlag }

// Run applies the migrations that are missing.
func (c *migrateUpCmd) Run(std *streams, rc *runContext) error {
	done, err := pgstore.Migrate(rc, c.DatabaseURL)
	for _, m := range done {
		fmt.Fprintf(std.out, "applied %s\n", m.Name)
	}
	if err == nil && len(done) == 0 {
		fmt.Fprintln(std.out, "the ledger is up to date")
	}
	return err
}

type migrateStatusCmd struct{ databaseFlag }

// Run lists the migrations.
func (c *migrateStatusCmd) Run(std *streams, rc *runContext) error {
	list, err := pgstore.MigrationStatus(rc, c.DatabaseURL)
	for _, m := range list {
		state := "missing"
		if m.Applied {
			state = "applied"
		}
		fmt.Fprintf(std.out, "%s  %s\n", state, m.Name)
	}
	return err
}
