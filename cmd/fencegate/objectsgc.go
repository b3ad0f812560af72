package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/pgstore"
)

type objectsGCCmd struct {
	databaseFlag
	s3Flags
	BlobDir string `env:"FENCEGATE_BLOB_DIR" placeholder:"DIR" help:"Directory of blobs, unless they are in S3."`
	collectFlags
	UploadLimit   time.Duration `default:"1h" help:"That of the gateways."`
	DownloadLimit time.Duration `default:"1h" help:"That of the gateways."`
	DryRun        bool          `env:"-" help:"Tell what would be done, and do nothing."`
}

// Help is shown below the flags of fencegate objects gc.
func (objectsGCCmd) Help() string {
	return `Gateways do this by themselves. A pass gives up uploads that must be dead, forgets versions that are kept no longer, and deletes the
bytes that nothing has referred to for the grace period: twice, a grace period apart. The limits and the grace period must be those of the
gateways. It may be stopped at any time, and run beside them.`
}

// Validate refuses flags that do not go together.
func (c *objectsGCCmd) Validate() error {
	return errors.Join(c.databaseFlag.Validate(), c.s3Flags.check(c.BlobDir), c.collectFlags.validate())
}

// Run makes one pass.
func (c *objectsGCCmd) Run(std *streams, rc *runContext) error {
	store, err := openLedger(rc, pgstore.Config{URL: c.DatabaseURL, Pooled: true})
	if err != nil {
		return err
	}
	defer store.Close()
	if c.DryRun {
		return c.tell(std, rc, store)
	}
	blobs, _, closeStore, err := openBlobs(c.s3Flags, c.BlobDir)
	if err != nil {
		return err
	}
	defer closeStore()
	cfg := c.collector(limitFlags{UploadLimit: c.UploadLimit, DownloadLimit: c.DownloadLimit}, slog.New(slog.DiscardHandler))
	collector, err := stores.NewCollector(store, blobs, cfg)
	if err != nil {
		return err
	}
	swept, err := collector.Sweep(rc)
	if _, printErr := fmt.Fprintf(std.out, "%d uploads given up, %d versions forgotten, %d blobs deleted\n", swept.Aborted, swept.Expired, swept.Deleted); err == nil {
		err = printErr
	}
	return err
}

// tell counts what a pass would find.
func (c *objectsGCCmd) tell(std *streams, ctx context.Context, store *pgstore.Store) error {
	due, err := store.DueBlobs(ctx, c.UploadLimit+stores.UploadMargin, c.GCGrace)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "%d uploads to be given up, %d versions to be forgotten, %d blobs to be deleted (%d for the first time)\n", due.Stale, due.Expired, due.Garbage, due.First)
	return err
}
