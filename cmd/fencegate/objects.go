package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/pgstore"
	"github.com/fencegate/fencegate/stores/s3store"
)

type objectsCmd struct {
	Import  objectsImportCmd  `cmd:"" help:"Take objects that lie in a bucket under their own keys into the ledger."`
	Export  objectsExportCmd  `cmd:"" help:"Copy objects to their own keys, unfenced, for readers that cannot come through a gateway."`
	History objectsHistoryCmd `cmd:"" help:"List the versions of an object that are kept."`
	Restore objectsRestoreCmd `cmd:"" help:"Make a version that is kept the object again; a fenced write."`
	GC      objectsGCCmd      `cmd:"" name:"gc" help:"Delete blobs that nothing refers to, as gateways do from time to time, or tell which."`
}

// moveFlags say which objects a command moves between the two layouts.
type moveFlags struct {
	databaseFlag
	s3Flags
	Bucket  string `arg:"" help:"The bucket."`
	Prefix  string `env:"-" placeholder:"PREFIX" help:"Only keys that begin with this."`
	DryRun  bool   `env:"-" help:"Tell what would be done, and do nothing."`
	Verbose bool   `env:"-" help:"Print a line for each object."`
}

// Validate refuses flags that do not go together.
func (f *moveFlags) Validate() error {
	if f.S3Endpoint == "" {
		return errors.New("missing flags: --s3-endpoint=URL: a directory has no objects under their own keys")
	}
	return errors.Join(f.databaseFlag.Validate(), f.s3Flags.check(""))
}

// mover is who moves objects, in the ledger's intents.
const mover = "fencegate objects"

func (f *moveFlags) move(std *streams, remove bool) stores.Move {
	m := stores.Move{Bucket: f.Bucket, Prefix: f.Prefix, Principal: mover, DryRun: f.DryRun, Remove: remove}
	if f.Verbose || f.DryRun {
		m.Each = func(key, what string) { fmt.Fprintf(std.out, "%-22s  %s\n", what, shownName(key)) }
	}
	told := 0
	m.Failed = func(_ string, err error) {
		if told++; f.Verbose || told <= toldFailures {
			fmt.Fprintln(std.err, "fencegate:", printable(sayable(err)))
		}
	}
	return m
}

// toldFailures is how many objects that failed are told of, unless all are asked for.
const toldFailures = 20

// outcome tells what was moved. Objects that failed are an error.
func (f *moveFlags) outcome(std *streams, done, removed string, moved stores.Moved) error {
	if f.DryRun {
		done, removed = "to be "+done, "to be "+removed
	}
	text := fmt.Sprintf("%d %s, %d %s, %d left as they are", moved.Copied, done, moved.Removed, removed, moved.Left)
	var failed error
	if moved.Failed > 0 {
		text += fmt.Sprintf(", %d failed", moved.Failed)
		failed = fmt.Errorf("objects that failed: %d", moved.Failed)
		if !f.Verbose && moved.Failed > toldFailures {
			failed = fmt.Errorf("objects that failed: %d; --verbose tells of more than the first %d", moved.Failed, toldFailures)
		}
	}
	if _, err := fmt.Fprintln(std.out, text); err != nil {
		return err
	}
	return failed
}

// do opens the ledger and the store, moves, and tells.
func (f *moveFlags) do(std *streams, rc *runContext, done, removed string, move func(context.Context, *stores.Objects, *pgstore.Store) (stores.Moved, error)) error {
	store, err := openLedger(rc, pgstore.Config{URL: f.DatabaseURL, Pooled: true}) // right with a pooler, and without one
	if err != nil {
		return err
	}
	defer store.Close()
	blobs, err := s3store.New(f.s3Flags.store())
	if err != nil {
		return err
	}
	defer blobs.Close()
	objects, err := stores.NewObjects(store, blobs, stores.ObjectsConfig{MaxSize: maxObjectSize})
	if err != nil {
		return err
	}
	moved, err := move(rc, objects, store)
	if failed := f.outcome(std, done, removed, moved); err == nil {
		err = failed
	}
	return err
}

// maxObjectSize is what S3 holds under one key, in bytes.
const maxObjectSize = 5 << 40

type objectsImportCmd struct {
	moveFlags
	Remove bool `env:"-" help:"Delete each object under its own key once it was imported."`
}

// Help is shown below the flags of fencegate objects import.
func (objectsImportCmd) Help() string {
	return `Objects that were in a bucket before it was protected are served from there until they are first written. This copies them, within
the S3, to where the gateway keeps bodies, so that what is written to their own keys from then on is not seen. A key that was written
through a gateway is left alone. It may be repeated, and gateways may serve meanwhile. Objects that cannot be imported are told, and the exit
code is 1 then; the others are imported all the same.`
}

// Run imports.
func (c *objectsImportCmd) Run(std *streams, rc *runContext) error {
	return c.do(std, rc, "imported", "deleted under their own keys", func(ctx context.Context, o *stores.Objects, store *pgstore.Store) (stores.Moved, error) {
		return o.Import(ctx, store, c.move(std, c.Remove))
	})
}

type objectsExportCmd struct {
	moveFlags
	Remove bool `env:"-" help:"Delete earlier copies of objects that were deleted since."`
}

// Help is shown below the flags of fencegate objects export.
func (objectsExportCmd) Help() string {
	return `The copies are plain objects: nothing fences them, and they are as old as the last export. Repeat it to bring them up to date: only
what has changed is copied. Gateways serve the objects as before; they do not look at the copies. Objects that cannot be exported are told,
and the exit code is 1 then; the others are exported all the same.`
}

// Run exports.
func (c *objectsExportCmd) Run(std *streams, rc *runContext) error {
	return c.do(std, rc, "exported", "deleted", func(ctx context.Context, o *stores.Objects, _ *pgstore.Store) (stores.Moved, error) {
		return o.Export(ctx, c.move(std, c.Remove))
	})
}

// objectFlags name an object of a gateway.
type objectFlags struct {
	gatewayFlags
	Bucket string `arg:"" help:"The bucket."`
	Key    string `arg:"" help:"The object's key."`
}

func (f *objectFlags) name() (fence.ObjectName, error) {
	if f.Bucket == "" {
		return fence.ObjectName{}, errors.New("the bucket's name is empty")
	}
	return fence.ObjectName{Bucket: f.Bucket, Key: f.Key}, fence.CheckObjectKey(f.Key)
}
