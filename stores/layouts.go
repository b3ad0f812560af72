package stores

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/fence"
)

// Importer takes natural objects into the ledger.
type Importer interface {
	// ImportObject takes a natural object, which was copied to a blob whose intent is pending, into the ledger, unless its key was
	// written before; false when it was.
	ImportObject(ctx context.Context, name fence.ObjectName, blob fence.Blob, header fence.ObjectHeader, modifiedAt time.Time) (bool, error)
}

// Move says which objects move between the two layouts: natural objects under their own keys, and blobs.
type Move struct {
	Bucket, Prefix string
	// Principal is on whose behalf.
	Principal string
	// DryRun only counts.
	DryRun bool
	// Remove deletes natural objects: after they were imported, or, in an export, those that were exported and are deleted since.
	Remove bool
	// Each is told what became of an object; nil is nobody. It is called by one goroutine at a time.
	Each func(key, what string)
	// Failed is told why an object could not be moved; nil is nobody. It is called as Each is.
	Failed func(key string, err error)
}

// Moved counts what a Move did.
type Moved struct {
	// Copied were copied, Removed deleted under their own keys, and Left needed nothing.
	Copied, Removed, Left int
	// Failed could not be moved.
	Failed int
}

// movers is how many objects are copied at once.
const movers = 4

// mover carries a Move out.
type mover struct {
	*Objects
	Move
	mu   sync.Mutex
	done Moved // guarded by mu
}

func (m *mover) note(key, what string, count func(*Moved)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	count(&m.done)
	if m.Each != nil {
		m.Each(key, what)
	}
}

// attempt moves one object. That it fails is no reason to leave the others where they are, unless it is the ledger or the store that does
// not answer.
func (m *mover) attempt(ctx context.Context, verb, key string, move func(context.Context) error) error {
	err := move(ctx)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s %s: %w", verb, key, err)
	code := fence.CodeOf(err)
	if ctx.Err() != nil || code == fence.CodeUnavailable {
		return err
	}
	if code == fence.CodeStoreUnavailable {
		// So says a store of what it refuses, too. One that lists is there.
		if _, down := m.naturals.ListNatural(ctx, NaturalQuery{Bucket: m.Bucket, Prefix: m.Prefix, Limit: 1}); down != nil {
			return down
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done.Failed++
	if m.Failed != nil {
		m.Failed(key, err)
	}
	return nil
}

func (o *Objects) mover(ctx context.Context, move Move) (*mover, error) {
	if o.naturals == nil {
		return nil, fence.Errorf(fence.CodeInvalidRequest, "the blob store has no objects under keys of their own: only S3 does")
	}
	return &mover{Objects: o, Move: move}, o.ledger.CheckBucket(ctx, move.Bucket)
}

// Import copies natural objects to blobs, within the store, and takes them into the ledger, where their keys were not written yet. Their
// marks stay 0. It may be repeated, and run while gateways serve. Objects that cannot be imported are counted, and no error.
func (o *Objects) Import(ctx context.Context, to Importer, move Move) (Moved, error) {
	m, err := o.mover(ctx, move)
	if err != nil {
		return Moved{}, err
	}
	bindings, err := o.ledger.Bindings(ctx, move.Bucket)
	if err != nil {
		return Moved{}, err
	}
	l := &listing{Objects: o, q: fence.ObjectQuery{Bucket: move.Bucket}, bindings: bindings}
	for q := (NaturalQuery{Bucket: move.Bucket, Prefix: move.Prefix, Limit: fence.MaxObjects}); ; {
		page, err := o.naturals.ListNatural(ctx, q)
		if err != nil {
			return m.done, err
		}
		unknown, err := l.unknown(ctx, page.Objects)
		if err != nil {
			return m.done, err
		}
		m.done.Left += len(page.Objects) - len(unknown)
		err = each(ctx, unknown, func(ctx context.Context, n Natural) error {
			return m.attempt(ctx, "import", n.Key, func(ctx context.Context) error { return m.importOne(ctx, to, n.Key) })
		})
		if err != nil {
			return m.done, err
		}
		if !page.More {
			return m.done, nil
		}
		q.After = page.last()
	}
}

// each calls f for several at once, and stops at the first error.
func each[T any](ctx context.Context, list []T, f func(context.Context, T) error) error {
	all, group := errgroup.WithContext(ctx)
	all.SetLimit(movers)
	for _, one := range list {
		if group.Err() != nil {
			break
		}
		all.Go(func() error { return f(group, one) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return ctx.Err() // the rest of the list was not looked at
}

func (m *mover) importOne(ctx context.Context, to Importer, key string) error {
	if m.DryRun {
		m.note(key, "would be imported", func(d *Moved) { d.Copied++ })
		return nil
	}
	name := fence.ObjectName{Bucket: m.Bucket, Key: key}
	n, err := m.naturals.Stat(ctx, m.Bucket, key)
	if errors.Is(err, ErrMissing) {
		return nil // since it was listed
	} else if err != nil {
		return err
	}
	blob, err := m.take(ctx, fence.Object{ObjectName: name, Size: n.Size, ETag: n.ETag, ModifiedAt: n.ModifiedAt, Header: n.Header}, m.Principal)
	if err != nil {
		return err
	}
	imported, err := to.ImportObject(ctx, name, blob, n.Header, n.ModifiedAt)
	switch {
	case fence.CodeOf(err) == fence.CodeOutcomeUnknown:
		return err
	case err != nil || !imported:
		m.abort(ctx, blob.ID)
	}
	if err != nil {
		return err
	}
	if !imported {
		m.note(key, "was written meanwhile", func(d *Moved) { d.Left++ })
		return nil
	}
	m.note(key, "imported", func(d *Moved) { d.Copied++ })
	if !m.Remove {
		return nil
	}
	if err := m.naturals.Remove(ctx, m.Bucket, key); err != nil {
		return fmt.Errorf("it was imported; delete it under its own key: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done.Removed++
	return nil
}

// ExportedMeta is the user metadata by which an export knows its own copies: the version that was copied. An object's own of that
// name is not exported.
const ExportedMeta = "fencegate-version"

// Export copies objects of the ledger to their own keys, for readers that cannot come through the gateway. These copies are not fenced:
// what writes to them is not seen, and what they hold is as old as the export. Repeated, it copies what has changed since. Objects that
// cannot be exported are counted, and no error.
func (o *Objects) Export(ctx context.Context, move Move) (Moved, error) {
	m, err := o.mover(ctx, move)
	if err != nil {
		return Moved{}, err
	}
	for q := (fence.ObjectQuery{Bucket: move.Bucket, Prefix: move.Prefix, Limit: fence.MaxObjects}); ; {
		page, err := o.ledger.ListObjects(ctx, q)
		if err != nil {
			return m.done, err
		}
		err = each(ctx, page.Entries, func(ctx context.Context, e fence.ObjectEntry) error {
			return m.attempt(ctx, "export", e.Key, func(ctx context.Context) error { return m.exportOne(ctx, e) })
		})
		if err != nil {
			return m.done, err
		}
		if !page.More {
			break
		}
		q.After = page.Entries[len(page.Entries)-1].Key
	}
	if !move.Remove {
		return m.done, nil
	}
	err = m.removeDeleted(ctx)
	return m.done, err
}

func (m *mover) exportOne(ctx context.Context, e fence.ObjectEntry) error {
	n, err := m.naturals.Stat(ctx, m.Bucket, e.Key)
	switch {
	case err != nil && !errors.Is(err, ErrMissing):
		return err
	case err == nil && n.Size == e.Size && n.Exported == e.Version.String():
		m.note(e.Key, "up to date", func(d *Moved) { d.Left++ })
		return nil
	case m.DryRun:
		m.note(e.Key, "would be exported", func(d *Moved) { d.Copied++ })
		return nil
	}
	obj, err := m.ledger.Object(ctx, fence.ObjectName{Bucket: m.Bucket, Key: e.Key}, fence.Access{Principal: m.Principal})
	if fence.CodeOf(err) == fence.CodeNotFound {
		return nil // since it was listed
	} else if err != nil {
		return err
	}
	header := obj.Header
	header.Meta = make(map[string]string, len(obj.Header.Meta)+1)
	for name, value := range obj.Header.Meta {
		if !strings.EqualFold(name, ExportedMeta) {
			header.Meta[name] = value
		}
	}
	header.Meta[ExportedMeta] = obj.Version.String()
	if _, err := m.naturals.Give(ctx, m.Bucket, fence.Blob{ID: obj.Blob, Size: obj.Size, Bucket: obj.BlobBucket}, e.Key, header); err != nil {
		return err
	}
	m.note(e.Key, "exported", func(d *Moved) { d.Copied++ })
	return nil
}

// removeDeleted removes copies of objects that were deleted since they were exported.
func (m *mover) removeDeleted(ctx context.Context) error {
	for q := (NaturalQuery{Bucket: m.Bucket, Prefix: m.Prefix, Limit: fence.MaxObjects}); ; {
		page, err := m.naturals.ListNatural(ctx, q)
		if err != nil {
			return err
		}
		keys := make([]string, len(page.Objects))
		for i, n := range page.Objects {
			keys[i] = n.Key
		}
		known, err := m.ledger.KnownKeys(ctx, m.Bucket, keys)
		if err != nil {
			return err
		}
		slices.Sort(known)
		err = each(ctx, known, func(ctx context.Context, key string) error {
			return m.attempt(ctx, "remove the copy", key, func(ctx context.Context) error { return m.removeIfDeleted(ctx, key) })
		})
		if err != nil {
			return err
		}
		if !page.More {
			return nil
		}
		q.After = page.last()
	}
}

func (m *mover) removeIfDeleted(ctx context.Context, key string) error {
	_, err := m.ledger.Object(ctx, fence.ObjectName{Bucket: m.Bucket, Key: key}, fence.Access{Principal: m.Principal})
	if fence.CodeOf(err) != fence.CodeNotFound {
		return err
	}
	n, err := m.naturals.Stat(ctx, m.Bucket, key)
	if errors.Is(err, ErrMissing) || err == nil && n.Exported == "" {
		return nil // it is nobody's copy
	} else if err != nil {
		return err
	}
	if m.DryRun {
		m.note(key, "would be removed", func(d *Moved) { d.Removed++ })
		return nil
	}
	if err := m.naturals.Remove(ctx, m.Bucket, key); err != nil {
		return err
	}
	m.note(key, "removed", func(d *Moved) { d.Removed++ })
	return nil
}
