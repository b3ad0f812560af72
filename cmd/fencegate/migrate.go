package main

import (
	"fmt"
	"time"

	"github.com/fencegate/fencegate/stores/pgstore"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply what is missing, and protect what is named. Several may run at once: they wait for each other."`
	Status migrateStatusCmd `cmd:"" help:"List the migrations and whether each has been applied. Changes nothing."`
}

type migrateUpCmd struct {
	// Templates may hold commas, so the values of a list are on lines of their own in the environment.
	Protect       []string      `env:"FENCEGATE_MIGRATE_PROTECT" sep:"none" placeholder:"TABLE=TEMPLATE" help:"Then protect this table; repeatable. In the environment one per line."`
	ProtectBucket []string      `env:"FENCEGATE_MIGRATE_PROTECT_BUCKET" sep:"none" placeholder:"BUCKET[/PREFIX]=TEMPLATE" help:"Then protect this bucket, or its keys below a prefix; repeatable. In the environment one per line."`
	Wait          time.Duration `env:"FENCEGATE_MIGRATE_WAIT" default:"30s" help:"How long to wait for a PostgreSQL that does not answer yet."`
	databaseFlag
}

// Help is shown below the flags of fencegate migrate up.
func (migrateUpCmd) Help() string {
	return `Made to run once before the gateways start, and again at will: what is done already is not done again. Protecting
needs the tables to exist, and the same rights as fencegate protect.

  fencegate migrate up --protect 'wallets=wallet:{id}' \
    --protect-bucket 'reports=report:{key}' --protect-bucket 'reports/daily/=daily:{key:2}'

The first = ends the name of a table or bucket; a table's name is quoted as in SQL where it needs it. A prefix or a
template of a prefix that holds a = would be ambiguous and is refused here: protect it with fencegate protect.`
}

// Run applies the migrations that are missing and protects what is not protected yet.
func (c *migrateUpCmd) Run(std *streams, rc *runContext) error {
	wanted, err := readBindings(c.Protect, c.ProtectBucket)
	if err != nil {
		return err
	}
	if err := waitForPostgres(rc, c.DatabaseURL, c.Wait, func(err error) {
		fmt.Fprintf(std.err, "waiting up to %v for PostgreSQL: %v\n", c.Wait, err)
	}); err != nil {
		return err
	}
	done, err := pgstore.Migrate(rc, c.DatabaseURL)
	for _, m := range done {
		fmt.Fprintf(std.out, "applied %s\n", m.Name)
	}
	if err != nil {
		return err
	}
	// A ledger of a newer program has nothing to apply, and still may not be this program's to use.
	if err := pgstore.CheckSchema(rc, c.DatabaseURL); err != nil {
		return err
	}
	if len(done) == 0 {
		fmt.Fprintln(std.out, "the ledger is up to date")
	}
	return protectAll(rc, std.out, c.DatabaseURL, wanted)
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
