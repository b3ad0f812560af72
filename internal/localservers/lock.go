package localservers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// leftoverTimeout is how long a server whose program is gone gets to end.
const leftoverTimeout = 30 * time.Second

// folderLock is an flock on a file of the folder. The file's content names the program and the server that hold it
// and serves messages and clean-up only: the lock alone decides.
type folderLock struct{ file *os.File }

// Hold makes a folder, if absent, and keeps it from every other program until release is called or this program ends.
func Hold(ctx context.Context, dir string) (release func(), err error) {
	dir, err = makeFolder(dir, 0o711)
	if err != nil {
		return nil, err
	}
	lock, err := lockFolder(ctx, dir, dir)
	if err != nil {
		return nil, err
	}
	return lock.release, nil
}

// lockFolder takes the lock of dir. A holder that lives is an error at once; processes of a server whose program has
// ended are interrupted (if they run in home) and waited for.
func lockFolder(ctx context.Context, dir, home string) (*folderLock, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	l := &folderLock{file: file}
	interrupted := 0
	err = poll(ctx, leftoverTimeout, func() (bool, error) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return false, fmt.Errorf("lock %s: %w", dir, err)
		}
		program, server := l.holders()
		if program != 0 && alive(program) {
			return false, fmt.Errorf("another fencegate (process %d) is running on %s", program, dir)
		}
		if server != 0 && server != interrupted && runsIn(server, home) {
			_ = syscall.Kill(server, syscall.SIGINT)
			interrupted = server
		}
		return false, nil
	})
	if err == nil {
		err = l.record(0)
	}
	if err != nil {
		_, server := l.holders()
		file.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("a server that was left behind (process %d) still runs on %s: %w", server, dir, err)
		}
		return nil, err
	}
	return l, nil
}

// record writes who holds the lock. A server of 0 is one that has not been started.
func (l *folderLock) record(server int) error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt(fmt.Appendf(nil, "%d %d\n", os.Getpid(), server), 0)
	return err
}

func (l *folderLock) holders() (program, server int) {
	content := make([]byte, 64)
	n, _ := l.file.ReadAt(content, 0)
	if _, err := fmt.Sscanf(string(content[:n]), "%d %d", &program, &server); err != nil {
		return 0, 0
	}
	return program, server
}

// release gives this program's share of the lock up. Processes of the server that still run keep theirs, so the
// content goes first: it must not name a program that has nothing to do with the folder any more.
func (l *folderLock) release() {
	_ = l.file.Truncate(0)
	l.file.Close()
}
