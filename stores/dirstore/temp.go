package dirstore

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// tempDir holds the files that are being written, and the parts that are being removed. A bucket's directory never starts with a dot.
const tempDir = ".tmp"

// tempFile is a file that is locked for as long as its process writes it.
type tempFile struct {
	*os.File
	name string
}

func (s *Store) createTemp() (tempFile, error) {
	name := filepath.Join(tempDir, rand.Text())
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return tempFile{}, err
	}
	if locked, err := lock(f); err != nil || !locked {
		f.Close()
		return tempFile{}, errors.Join(err, s.removeIfThere(name))
	}
	return tempFile{File: f, name: name}, nil
}

// clearTemp removes the temporary files that no living process writes: those nobody holds a lock on. A process that
// shares the directory and was just about to lock its file sees its Put fail, which is harmless.
func (s *Store) clearTemp() error {
	if err := s.root.Mkdir(tempDir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := s.root.Open(tempDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.clearIfDead(filepath.Join(tempDir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) clearIfDead(name string) error {
	f, err := s.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	free, err := lock(f)
	if err != nil || !free {
		return err
	}
	// Parts that are being removed are a directory of files.
	return s.root.RemoveAll(name)
}

// lock takes the file's lock, and reports whether nobody else has it. It ends with the file, or with the process.
func lock(f *os.File) (bool, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var locked error
	if err := conn.Control(func(fd uintptr) {
		locked = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB)
	}); err != nil {
		return false, err
	}
	if errors.Is(locked, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return locked == nil, locked
}
