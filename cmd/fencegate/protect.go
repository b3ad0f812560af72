package main

import (
	"errors"
	"fmt"

	"github.com/fencegate/fencegate/stores/pgstore"
)

type protectCmd struct {
	Table  string `arg:"" optional:"" help:"Table, quoted as in SQL where it needs it: wallets, sales.orders, '\"a.b\".\"Reply\"'."`
	Bucket string `env:"FENCEGATE_PROTECT_BUCKET" placeholder:"NAME" help:"Protect this bucket instead of a table."`
	Prefix string `env:"FENCEGATE_PROTECT_PREFIX" placeholder:"PREFIX" help:"Only the keys below this prefix. The longest protected prefix of a key wins."`
	Lease  string `required:"" env:"FENCEGATE_PROTECT_LEASE" placeholder:"TEMPLATE" help:"Name of the lease: for a row from its key columns (wallet:{id}), for an object from its key (report:{key}, daily:{key:1}), or a constant."`
	databaseFlag
}

// Help is shown below the flags of fencegate protect.
func (protectCmd) Help() string {
	return `Nothing in the table or bucket changes. What is not protected does not exist for the gateway. Protecting again
changes the template, and is in force everywhere when the command returns.

  fencegate protect wallets --lease 'wallet:{id}'
  fencegate protect --bucket reports --prefix daily/ --lease 'daily:{key:2}'`
}

// Run registers the table or bucket.
func (c *protectCmd) Run(std *streams, rc *runContext) error {
	if (c.Table == "") == (c.Bucket == "") {
		return errors.New("protect either a table or a bucket (--bucket)")
	}
	if c.Prefix != "" && c.Bucket == "" {
		return errors.New("--prefix goes with --bucket")
	}
	if err := pgstore.CheckSchema(rc, c.DatabaseURL); err != nil {
		return err
	}
	store, err := pgstore.Open(pgstore.Config{URL: c.DatabaseURL})
	if err != nil {
		return err
	}
	defer store.Close()
	b := binding{table: c.Table, bucket: c.Bucket, prefix: c.Prefix, template: c.Lease}
	if err := b.protect(rc, store); errors.Is(err, pgstore.ErrPooler) {
		return errors.New("protect needs a direct connection, and this URL leads to a pooler such as PgBouncer: give PostgreSQL's own URL")
	} else if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "%s is protected by lease %s\n", b, c.Lease)
	return err
}
