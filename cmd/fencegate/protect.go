package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/stores/pgstore"
)

type protectCmd struct {
	Set protectSetCmd `cmd:"" default:"withargs" help:"Protect a table, view or bucket, guard a table, or take either away. The word set may be left out."`
	Ls  protectLsCmd  `cmd:"" help:"List what is protected, by which lease, and how it stands."`
}

// Help is shown below the commands of fencegate protect.
func (protectCmd) Help() string {
	return `For example:

  fencegate protect wallets --lease 'wallet:{id}'
  fencegate protect wallets --guard
  fencegate protect --bucket reports --prefix daily/ --lease 'daily:{key:2}'
  fencegate protect --bucket reports --keep 720h
  fencegate protect ls`
}

type protectSetCmd struct {
	Table   string   `arg:"" optional:"" help:"Table or view, quoted as in SQL where it needs it: wallets, sales.orders, '\"a.b\".\"Reply\"'. One that is called ls or set is named with its schema."`
	Bucket  string   `env:"FENCEGATE_PROTECT_BUCKET" placeholder:"NAME" help:"Protect this bucket instead of a table."`
	Prefix  string   `env:"FENCEGATE_PROTECT_PREFIX" placeholder:"PREFIX" help:"Only the keys below this prefix. The longest protected prefix of a key wins."`
	Lease   string   `env:"FENCEGATE_PROTECT_LEASE" placeholder:"TEMPLATE" help:"Name of the lease: for a row from its key columns (wallet:{id}), for an object from its key (report:{key}, daily:{key:1}), or a constant."`
	Key     []string `env:"-" placeholder:"COLUMN" help:"Columns that name a view's rows: a view has no primary key. Separated by commas, in the order in which a path has them."`
	Guard   bool     `env:"-" xor:"guard" help:"Refuse, in the database, every change of the table's rows by a transaction that was not admitted for them."`
	Unguard bool     `env:"-" xor:"guard" help:"Take the guard away. The table stays protected."`
	Remove  bool     `env:"-" xor:"guard" help:"Take the protection away, and the guard with it. The marks stay."`
	bucketOptionFlags
	databaseFlag
}

// bucketOptionFlags are options of a protected bucket or prefix. What is not given stays as it is.
type bucketOptionFlags struct {
	Keep     *time.Duration `env:"-" placeholder:"TIME" help:"How long bodies that were replaced or deleted are kept as versions: 720h. 0s is not at all, the default."`
	Redirect *bool          `env:"-" negatable:"" help:"Send readers to the S3 itself, by URLs that are good for some minutes. Default: no."`
	Existing *bool          `env:"-" negatable:"" help:"Serve objects that lie in the bucket under their own keys until they are written. Default: yes."`
	Deletes  string         `env:"-" enum:",refuse,lease" default:"" placeholder:"HOW" help:"Deletes by S3 clients without a token: refuse (the default), or lease: take the object's lease for the delete."`
}

// options are those that were given.
func (f bucketOptionFlags) options() map[string]any {
	given := map[string]any{}
	if f.Keep != nil {
		given["keep"] = fmt.Sprintf("%d ms", f.Keep.Milliseconds())
	}
	if f.Redirect != nil {
		given["redirect"] = *f.Redirect
	}
	if f.Existing != nil {
		given["existing"] = *f.Existing
	}
	if f.Deletes != "" {
		given["deletes"] = f.Deletes
	}
	return given
}

// Help is shown below the flags of fencegate protect set.
func (protectSetCmd) Help() string {
	return `Nothing in the table or bucket changes. What is not protected does not exist for the gateway. Protecting again
changes the template, and is in force everywhere when the command returns.

--guard adds triggers to a table: SQL writers then call fence.admit first, for each row (docs/sql-writers.md). It waits for the
transactions that write to the table, and wants to be run by the table's owner. Run it again when a partition was added.`
}

// Validate refuses flags that do not go together.
func (c *protectSetCmd) Validate() error {
	options := len(c.options()) > 0
	if c.Lease == "" && !c.Guard && !c.Unguard && !c.Remove && !options {
		return errors.New("missing flags: --lease=TEMPLATE")
	}
	if c.Remove && c.Lease != "" {
		return errors.New("--remove takes a protection away, and --lease is for one that is made or changed")
	}
	if options && (c.Bucket == "" || c.Remove) {
		return errors.New("--keep, --redirect, --existing and --deletes are for a bucket (--bucket) that is protected")
	}
	if len(c.Key) > 0 && c.Lease == "" {
		return errors.New("--key goes with --lease")
	}
	return c.databaseFlag.Validate() // which this one hides from kong
}

// Run registers the table or bucket.
func (c *protectSetCmd) Run(std *streams, rc *runContext) error {
	switch {
	case (c.Table == "") == (c.Bucket == ""):
		return errors.New("protect either a table or a bucket (--bucket)")
	case c.Prefix != "" && c.Bucket == "":
		return errors.New("--prefix goes with --bucket")
	case c.Bucket != "" && (c.Guard || c.Unguard || len(c.Key) > 0):
		return errors.New("--guard, --unguard and --key are for tables and views, not for buckets")
	}
	store, err := openLedger(rc, pgstore.Config{URL: c.DatabaseURL})
	if err != nil {
		return err
	}
	defer store.Close()
	b := binding{table: c.Table, bucket: c.Bucket, prefix: c.Prefix, template: c.Lease, key: c.Key}
	for _, step := range c.steps(b, store) {
		err := step.do(rc)
		if errors.Is(err, pgstore.ErrPooler) {
			return errors.New("protect needs a direct connection, and this URL leads to a pooler such as PgBouncer: give PostgreSQL's own URL")
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(std.out, "%s is %s\n", b, step.done); err != nil {
			return err
		}
	}
	return nil
}

// protectStep is one of the things that the command does, and what is so when it is done.
type protectStep struct {
	done string
	do   func(context.Context) error
}

func (c *protectSetCmd) steps(b binding, store *pgstore.Store) (steps []protectStep) {
	if c.Lease != "" {
		steps = append(steps, protectStep{"protected by lease " + c.Lease, func(ctx context.Context) error { return b.protect(ctx, store) }})
	}
	if options := c.options(); len(options) > 0 {
		steps = append(steps, protectStep{"set up as asked for", func(ctx context.Context) error { return store.SetOptions(ctx, c.Bucket, c.Prefix, options) }})
	}
	switch {
	case c.Guard:
		steps = append(steps, protectStep{"guarded", func(ctx context.Context) error { return store.Guard(ctx, c.Table) }})
	case c.Unguard:
		steps = append(steps, protectStep{"not guarded any more", func(ctx context.Context) error { return store.Unguard(ctx, c.Table) }})
	case c.Remove:
		steps = append(steps, protectStep{"not protected any more", func(ctx context.Context) error { return b.unprotect(ctx, store) }})
	}
	return steps
}

// openLedger opens a ledger that goes with this program.
func openLedger(ctx context.Context, config pgstore.Config) (*pgstore.Store, error) {
	if err := pgstore.CheckSchema(ctx, config.URL); err != nil {
		return nil, err
	}
	return pgstore.Open(config)
}
