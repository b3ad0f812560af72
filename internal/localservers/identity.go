package localservers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// rootHome keeps the data of servers that run as another user and cannot enter the folder they were started on.
const rootHome = "/var/lib/fencegate"

// identity is the user a server runs as.
type identity struct {
	// namespace runs it in a user namespace in which this user's files belong to an unprivileged user.
	namespace bool
	// credential runs it as another user.
	credential *syscall.Credential
}

// attributes makes a server a process group of its own, so that a Ctrl-C meant for the program does not end the
// server under it.
func (id identity) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Credential: id.credential}
	dieWithParent(a)
	if id.namespace {
		enterNamespace(a)
	}
	return a
}

// uid is the owner of the server's files as this program sees them.
func (id identity) uid() int {
	if id.credential != nil {
		return int(id.credential.Uid)
	}
	return os.Geteuid()
}

// own makes the path, and what is below it, the server's.
func (id identity) own(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if owner(info) == id.uid() {
		return nil
	}
	gid := os.Getegid()
	if id.credential != nil {
		gid = int(id.credential.Gid)
	}
	return filepath.WalkDir(path, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, id.uid(), gid)
	})
}

func owner(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

// unprivileged returns an identity for a program that refuses to run as root. The program at path is run once with
// --version to see whether namespaces work: they can be forbidden, or used up, in ways that only trying shows.
func unprivileged(ctx context.Context, path string) (identity, error) {
	if os.Geteuid() != 0 {
		return identity{}, nil
	}
	if canNamespace() {
		probe := exec.CommandContext(ctx, path, "--version")
		probe.Dir = "/"
		probe.SysProcAttr = &syscall.SysProcAttr{}
		enterNamespace(probe.SysProcAttr)
		if probe.Run() == nil {
			return identity{namespace: true}, nil
		}
	}
	return dropped()
}

// dropped returns the identity of the user postgres, else nobody.
func dropped() (identity, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return identity{credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return identity{}, errors.New("PostgreSQL does not run as root, user namespaces are not available, and there is neither a user postgres nor nobody: run as an ordinary user")
}

// homeOf returns the folder for the data of a server that was started on dir. It is dir, unless the server's user
// cannot enter it, and stays where it is once it has been made.
func (id identity) homeOf(dir string) string {
	if os.Geteuid() != 0 {
		return dir
	}
	sum := sha256.Sum256([]byte(dir))
	elsewhere := filepath.Join(rootHome, hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(filepath.Join(elsewhere, "data")); err == nil {
		return elsewhere
	}
	if id.credential == nil || enterable(filepath.Dir(dir)) {
		return dir
	}
	return elsewhere
}

func (id identity) makeHome(home string) error {
	parent := filepath.Dir(home)
	if parent == rootHome {
		if err := os.MkdirAll(parent, 0o711); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	if err := id.own(home); err != nil {
		return fmt.Errorf("owner of %s: %w", home, err)
	}
	return nil
}

// enterable tells whether every user may pass through dir.
func enterable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}
