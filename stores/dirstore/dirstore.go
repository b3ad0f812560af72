// Package dirstore keeps blobs as files in a directory. It is the default of a gateway without S3.
//
// A blob is written to a temporary file, made durable, and then renamed to its name: <bucket>/<first two characters
// of the id>/<id>. So a file under a blob's name is always whole. All access goes through an [os.Root]: a symbolic
// link cannot lead out of the directory.
package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
	// copyBuffer is all the memory that a Put needs, whatever the size of its body.
	copyBuffer = 64 << 10
)

// Store is a directory of blobs.
type Store struct {
	root *os.Root
	// durable has the name of every directory whose entry in its parent this process has synced: a blob is only
	// as durable as the path that leads to it.
	durable sync.Map
}

var _ stores.Blobs = (*Store)(nil)

// New opens the directory, which is made if it is absent, and removes the temporary files of dead processes.
func New(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("make blob directory: %w", err)
	}
	if err := syncDir(os.Open(filepath.Dir(filepath.Clean(dir)))); err != nil {
		return nil, fmt.Errorf("sync the parent of the blob directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open blob directory: %w", err)
	}
	s := &Store{root: root}
	if err := s.clearTemp(); err != nil {
		root.Close()
		return nil, fmt.Errorf("clear temporary files: %w", err)
	}
	return s, nil
}

// Close releases the directory. Readers that are open stay valid.
func (s *Store) Close() error { return s.root.Close() }

// Put implements stores.Blobs.
func (s *Store) Put(ctx context.Context, bucket, id string, body io.Reader, size int64) error {
	at, err := locate(bucket, id)
	if err != nil {
		return err
	}
	b := stores.NewBody(ctx, body, size)
	if err := s.put(ctx, at, b); err != nil {
		if b.Err() != nil {
			return fmt.Errorf("read body: %w", b.Err())
		}
		return unavailable(err, "store blob %s", id)
	}
	return nil
}

func (s *Store) put(ctx context.Context, at place, b *stores.Body) error {
	return s.write(ctx, at, func(w io.Writer) error {
		// The file's own ReadFrom would bypass the buffer only to make one per call.
		_, err := io.CopyBuffer(struct{ io.Writer }{w}, b, make([]byte, copyBuffer))
		return err
	})
}

// write makes a file of what fill writes, whole or not at all.
func (s *Store) write(ctx context.Context, at place, fill func(io.Writer) error) (err error) {
	tmp, err := s.createTemp()
	if err != nil {
		return err
	}
	defer func() {
		if tmp.Close(); err != nil {
			err = errors.Join(err, s.removeIfThere(tmp.name))
		}
	}()
	if err = fill(tmp); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = s.ensurePath(at); err != nil {
		return err
	}
	// After the deadline the intent may be given up and its blob deleted: nothing may appear then.
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err = s.root.Rename(tmp.name, at.file); err != nil {
		s.forgetPath(at)
		return err
	}
	if err = syncDir(s.root.Open(at.dir)); err != nil {
		return errors.Join(err, s.removeIfThere(at.file))
	}
	return nil
}

func (s *Store) ensurePath(at place) error {
	if err := s.ensureDir(at.bucket, "."); err != nil {
		return err
	}
	return s.ensureDir(at.dir, at.bucket)
}

// forgetPath is for when somebody may have removed the directories: the next write makes them again.
func (s *Store) forgetPath(at place) {
	s.durable.Delete(at.bucket)
	s.durable.Delete(at.dir)
}

// ensureDir makes a directory and its entry in the parent durable, once.
func (s *Store) ensureDir(dir, parent string) error {
	if _, ok := s.durable.Load(dir); ok {
		return nil
	}
	if err := s.root.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := syncDir(s.root.Open(parent)); err != nil {
		return err
	}
	s.durable.Store(dir, struct{}{})
	return nil
}

// Open implements stores.Blobs.
func (s *Store) Open(_ context.Context, bucket, id string, offset, length int64) (io.ReadCloser, error) {
	at, err := locate(bucket, id)
	if err != nil {
		return nil, err
	}
	f, err := s.root.Open(at.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fence.Wrap(fence.CodeInternal, stores.ErrMissing, "open blob %s", id)
	case err != nil:
		return nil, unavailable(err, "open blob %s", id)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = unavailable(err, "open blob %s", id)
	case !info.Mode().IsRegular():
		err = fence.Errorf(fence.CodeInternal, "blob %s is not a file", id)
	case offset < 0 || length < 0 || offset > info.Size()-length:
		err = fence.Errorf(fence.CodeInternal, "blob %s has %d bytes, not %d from %d", id, info.Size(), length, offset)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, offset, length), f}, nil
}

// Delete implements stores.Blobs. It also removes the parts of a blob that was not joined.
func (s *Store) Delete(_ context.Context, bucket, id string) error {
	at, err := locate(bucket, id)
	if err != nil {
		return err
	}
	if err := errors.Join(s.removeIfThere(at.file), s.removeParts(at.file+partsDir)); err != nil {
		return unavailable(err, "delete blob %s", id)
	}
	return nil
}

func (s *Store) removeIfThere(name string) error {
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// syncDir makes the entries of an opened directory durable and closes it.
func syncDir(d *os.File, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func unavailable(err error, format string, args ...any) error {
	return fence.Wrap(fence.CodeStoreUnavailable, err, format, args...)
}
