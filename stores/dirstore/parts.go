package dirstore

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// The parts of a blob lie in a directory beside it, <id>.parts, each in a file that is named by its number and ends with the MD5 of the bytes
// before it. A part is renamed to its name when it is durable, so it is always whole, whichever process put it there last.
const (
	partsDir = ".parts"
	// upload is the name of every upload: an id is used once.
	upload   = "parts"
	maxParts = 10_000
	maxList  = 1000
)

var _ stores.Assembler = (*Store)(nil)

// BeginParts implements stores.Assembler.
func (s *Store) BeginParts(_ context.Context, bucket, id string) (string, error) {
	at, err := locate(bucket, id)
	if err != nil {
		return "", err
	}
	if err := s.beginParts(at); err != nil {
		return "", unavailable(err, "begin the parts of blob %s", id)
	}
	return upload, nil
}

func (s *Store) beginParts(at place) error {
	if err := s.ensurePath(at); err != nil {
		return err
	}
	if err := s.root.Mkdir(at.file+partsDir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		s.forgetPath(at)
		return err
	}
	return syncDir(s.root.Open(at.dir))
}

// PutPart implements stores.Assembler.
func (s *Store) PutPart(ctx context.Context, bucket, id, name string, number int, body io.Reader, size int64) (stores.Part, error) {
	dir, err := s.locateParts(bucket, id, name)
	switch {
	case err != nil:
		return stores.Part{}, err
	case number < 1 || number > maxParts:
		return stores.Part{}, fence.Errorf(fence.CodeInvalidRequest, "a part's number is 1 to %d, not %d", maxParts, number).In("part")
	case size < 0:
		return stores.Part{}, fence.Errorf(fence.CodeInvalidRequest, "a part cannot have %d bytes", size).In("size")
	}
	b := stores.NewBody(ctx, body, size)
	sum, err := s.putPart(ctx, dir, number, b)
	switch {
	case err == nil:
		return stores.Part{Number: number, Size: size, ETag: hex.EncodeToString(sum), ModifiedAt: time.Now()}, nil
	case b.Err() != nil:
		return stores.Part{}, fmt.Errorf("read body: %w", b.Err())
	}
	return stores.Part{}, partFailure(err, "store a part of blob %s", id)
}

func (s *Store) putPart(ctx context.Context, dir string, number int, b *stores.Body) (sum []byte, err error) {
	tmp, err := s.createTemp()
	if err != nil {
		return nil, err
	}
	defer func() {
		if tmp.Close(); err != nil {
			err = errors.Join(err, s.removeIfThere(tmp.name))
		}
	}()
	h := md5.New()
	if _, err = io.CopyBuffer(io.MultiWriter(tmp, h), b, make([]byte, copyBuffer)); err != nil {
		return nil, err
	}
	sum = h.Sum(nil)
	if _, err = tmp.Write(sum); err != nil {
		return nil, err
	}
	if err = tmp.Sync(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err = s.root.Rename(tmp.name, partFile(dir, number)); err != nil {
		return nil, err
	}
	return sum, syncDir(s.root.Open(dir))
}

func partFile(dir string, number int) string { return filepath.Join(dir, strconv.Itoa(number)) }

// Parts implements stores.Assembler.
func (s *Store) Parts(_ context.Context, bucket, id, name string, after, limit int) (parts []stores.Part, more bool, err error) {
	dir, err := s.locateParts(bucket, id, name)
	if err != nil {
		return nil, false, err
	}
	if after < 0 || limit < 1 || limit > maxList {
		return nil, false, fence.Errorf(fence.CodeInvalidRequest, "1 to %d parts can be listed behind a number, not %d behind %d", maxList, limit, after)
	}
	numbers, err := s.numbers(dir)
	if err != nil {
		return nil, false, partFailure(err, "list the parts of blob %s", id)
	}
	for _, n := range numbers {
		if n <= after {
			continue
		}
		if len(parts) == limit {
			return parts, true, nil
		}
		f, part, err := s.openPart(dir, n)
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped, or joined, meanwhile
		}
		if err != nil {
			return nil, false, partFailure(err, "list the parts of blob %s", id)
		}
		f.Close()
		parts = append(parts, part)
	}
	return parts, false, nil
}

func (s *Store) numbers(dir string) ([]int, error) {
	d, err := s.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// openPart opens a part's file at its beginning.
func (s *Store) openPart(dir string, number int) (*os.File, stores.Part, error) {
	f, err := s.root.Open(partFile(dir, number))
	if err != nil {
		return nil, stores.Part{}, err
	}
	info, err := f.Stat()
	sum := make([]byte, md5.Size)
	if err == nil {
		_, err = f.ReadAt(sum, info.Size()-md5.Size)
	}
	if err != nil {
		f.Close()
		return nil, stores.Part{}, err
	}
	return f, stores.Part{Number: number, Size: info.Size() - md5.Size, ETag: hex.EncodeToString(sum), ModifiedAt: info.ModTime()}, nil
}

// JoinParts implements stores.Assembler. It reads every byte once more, and compares them with the parts' MD5.
func (s *Store) JoinParts(ctx context.Context, bucket, id, name string, parts []stores.Part) error {
	dir, err := s.locateParts(bucket, id, name)
	if err != nil {
		return err
	}
	at, err := locate(bucket, id)
	if err != nil {
		return err
	}
	var size int64
	for i, p := range parts {
		if i > 0 && parts[i-1].Number >= p.Number {
			return errParts("the parts are not in the order of their numbers")
		}
		size += p.Size
	}
	if len(parts) == 0 {
		return errParts("a blob has at least one part")
	}
	// Of two that join at once, one may find nothing, in the middle of it, because the other is done.
	err = s.joinParts(ctx, at, dir, parts)
	if err != nil && s.joined(at, dir, size) {
		err = nil
	}
	if err != nil {
		return partFailure(err, "join the parts of blob %s", id)
	}
	// The blob is there; what stays behind of its parts is removed with it.
	_ = s.removeParts(dir)
	return nil
}

// removeParts removes all parts of a blob at once, as others see it.
func (s *Store) removeParts(dir string) error {
	trash := filepath.Join(tempDir, rand.Text())
	if err := s.root.Rename(dir, trash); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return s.root.RemoveAll(trash)
}

func (s *Store) joinParts(ctx context.Context, at place, dir string, parts []stores.Part) error {
	if _, err := s.root.Stat(dir); err != nil {
		return err
	}
	return s.write(ctx, at, func(w io.Writer) error {
		buf := make([]byte, copyBuffer)
		for _, p := range parts {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := s.appendPart(w, dir, p, buf); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) appendPart(w io.Writer, dir string, want stores.Part, buf []byte) error {
	f, is, err := s.openPart(dir, want.Number)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errParts("there is no part %d", want.Number), err)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if is.ETag != want.ETag || is.Size != want.Size {
		return errParts("part %d is another one: %d bytes with MD5 %s", want.Number, is.Size, is.ETag)
	}
	h := md5.New()
	if _, err := io.CopyBuffer(io.MultiWriter(w, h), struct{ io.Reader }{io.NewSectionReader(f, 0, is.Size)}, buf); err != nil {
		return err
	}
	if sum, err := hex.DecodeString(is.ETag); err != nil || !bytes.Equal(sum, h.Sum(nil)) {
		return fmt.Errorf("part %d is damaged", want.Number)
	}
	return nil
}

// joined tells whether the parts are gone because they are this blob.
func (s *Store) joined(at place, dir string, size int64) bool {
	if _, err := s.root.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	info, err := s.root.Stat(at.file)
	return err == nil && info.Mode().IsRegular() && info.Size() == size
}

// DropParts implements stores.Assembler.
func (s *Store) DropParts(_ context.Context, bucket, id, name string) error {
	dir, err := s.locateParts(bucket, id, name)
	if err != nil {
		return err
	}
	if err := s.removeParts(dir); err != nil {
		return unavailable(err, "drop the parts of blob %s", id)
	}
	return nil
}

func (s *Store) locateParts(bucket, id, name string) (string, error) {
	at, err := locate(bucket, id)
	if err != nil {
		return "", err
	}
	if name != upload {
		return "", fence.Errorf(fence.CodeInternal, "%.40q is no upload of a blob directory", name)
	}
	return at.file + partsDir, nil
}

func errParts(format string, args ...any) error {
	return fence.Errorf(fence.CodeInvalidRequest, format, args...).In("parts")
}

func partFailure(err error, format string, args ...any) error {
	switch {
	case fence.CodeOf(err) != fence.CodeInternal:
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fence.Wrap(fence.CodeNotFound, errors.Join(stores.ErrMissing, err), format+": there is no such upload", args...)
	}
	return unavailable(err, format, args...)
}
