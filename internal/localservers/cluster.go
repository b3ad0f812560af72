package localservers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// postgresPort is part of the socket's name only: PostgreSQL listens on no network.
const postgresPort = "5432"

// The lines of postmaster.pid that tell the postmaster's process id and its state.
const (
	pidLine   = 0
	stateLine = 7
)

// cluster is PostgreSQL's data, whose folder is locked.
type cluster struct {
	home      string
	as        identity
	lock      *folderLock
	bin       postgresBinaries
	ephemeral bool
}

func (c cluster) data() string { return filepath.Join(c.home, "data") }

func (c cluster) major() int { return readMajor(c.data()) }

// prepare makes the data if there is none, and otherwise ready for a start.
func (c cluster) prepare(ctx context.Context) error {
	if _, err := os.Stat(c.data()); errors.Is(err, os.ErrNotExist) {
		return c.create(ctx)
	}
	if err := c.as.own(c.data()); err != nil {
		return fmt.Errorf("owner of PostgreSQL's data: %w", err)
	}
	return c.removeStalePid()
}

// create runs initdb beside the final place: one that is killed half-way leaves a folder on which a server starts,
// says that it is ready, and has no databases.
func (c cluster) create(ctx context.Context) error {
	unfinished := c.data() + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("remove unfinished data: %w", err)
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	if err := c.as.own(unfinished); err != nil {
		return fmt.Errorf("owner of data folder: %w", err)
	}
	args := []string{"-D", unfinished, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C", "--no-instructions"}
	if c.ephemeral {
		args = append(args, "--no-sync")
	}
	p, err := startProcess(command{
		name: "initdb", path: c.bin.program("initdb"), args: args, env: serverEnvironment(), dir: c.home,
		logFile: filepath.Join(c.home, "initdb.log"), lock: c.lock, as: c.as,
	})
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		return ctx.Err()
	}
	if !p.cmd.ProcessState.Success() {
		return p.Err()
	}
	if err := os.Rename(unfinished, c.data()); err != nil {
		return fmt.Errorf("move new data into place: %w", err)
	}
	return nil
}

// removeStalePid removes a postmaster.pid whose process does not run on the data. PostgreSQL takes any live process of
// its own user for a postmaster, and process ids come back, above all in containers. The lock rules out a server of
// ours; one that somebody else started on the data is left for PostgreSQL to refuse.
func (c cluster) removeStalePid() error {
	pid, err := strconv.Atoi(c.postmaster(pidLine))
	if err != nil || !canTellFolder || runsIn(pid, c.data()) {
		return nil
	}
	if err := os.Remove(c.pidFile()); err != nil {
		return fmt.Errorf("remove stale postmaster.pid: %w", err)
	}
	return nil
}

func (c cluster) start(sockets string, exited func()) (*Process, error) {
	args := []string{"-D", c.data()}
	for _, setting := range c.settings(sockets) {
		args = append(args, "-c", setting)
	}
	return startProcess(command{
		name: "PostgreSQL", path: c.bin.program("postgres"), args: args, env: serverEnvironment(), dir: c.data(),
		logFile: filepath.Join(c.home, "server.log"), lock: c.lock, as: c.as, exited: exited,
	})
}

func (c cluster) settings(sockets string) []string {
	s := []string{
		"listen_addresses=",
		"port=" + postgresPort,
		"unix_socket_directories=" + sockets,
		"unix_socket_permissions=0700",
		"default_transaction_isolation=read committed",
		"timezone=UTC",
		"log_timezone=UTC",
		"max_connections=100",
	}
	if c.ephemeral {
		// The folder may be in memory, of which logs of write-ahead take no more than they need.
		s = append(s, "fsync=off", "full_page_writes=off", "max_wal_size=256MB")
	}
	return s
}

// takesConnections tells whether the postmaster with this process id says so.
func (c cluster) takesConnections(pid int) bool {
	return c.postmaster(pidLine) == strconv.Itoa(pid) && c.postmaster(stateLine) == "ready"
}

func (c cluster) pidFile() string { return filepath.Join(c.data(), "postmaster.pid") }

// postmaster returns a line of postmaster.pid, or nothing.
func (c cluster) postmaster(line int) string {
	content, err := os.ReadFile(c.pidFile())
	if err != nil {
		return ""
	}
	lines := strings.Split(string(content), "\n")
	if line >= len(lines) {
		return ""
	}
	return strings.TrimSpace(lines[line])
}
