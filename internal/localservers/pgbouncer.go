package localservers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// pgbouncerPort is part of the socket's name only.
const pgbouncerPort = "6432"

// PgBouncerConfig says what a PgBouncer stands before, and how.
type PgBouncerConfig struct {
	// Dir is the server's folder. It is made if absent and never shared with anything else. Required.
	Dir string
	// Server is the URL of a database of the PostgreSQL it leads to, on a Unix socket or a TCP address. Its user is
	// every client's. Required.
	Server string
	// Mode is PgBouncer's pool_mode. Defaults to transaction.
	Mode string
	// PoolSize is how many sessions it keeps for each database. Defaults to 3.
	PoolSize int
	// IgnoreStartup are startup parameters that it drops instead of refusing the client. Defaults to none.
	IgnoreStartup []string
	// Log hears what is started and where. Defaults to nothing.
	Log *slog.Logger
}

func (c PgBouncerConfig) withDefaults() PgBouncerConfig {
	c.Mode = cmp.Or(c.Mode, "transaction")
	c.PoolSize = cmp.Or(c.PoolSize, 3)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// PgBouncer is a running PgBouncer.
type PgBouncer struct {
	*Process
	sockets string
	user    string
}

// StartPgBouncer starts a PgBouncer and returns when it answers. Without the program the error is a *MissingError. The
// context bounds the start only.
func StartPgBouncer(ctx context.Context, c PgBouncerConfig) (*PgBouncer, error) {
	c = c.withDefaults()
	program, err := findPgBouncer()
	if err != nil {
		return nil, err
	}
	server, err := pgx.ParseConfig(c.Server)
	if err != nil {
		return nil, fmt.Errorf("PgBouncer's server: %w", err)
	}
	// Like PostgreSQL it refuses to run as root, and it has to reach the same socket.
	as, err := unprivileged(ctx, program)
	if err != nil {
		return nil, err
	}
	dir, err := makeFolder(c.Dir, 0o700)
	if err != nil {
		return nil, err
	}
	if err := as.makeHome(dir); err != nil {
		return nil, fmt.Errorf("home of PgBouncer: %w", err)
	}
	lock, err := lockFolder(ctx, dir, dir)
	if err != nil {
		return nil, err
	}
	sockets, err := socketFolder(dir, as)
	if err == nil {
		err = writeOwned(filepath.Join(dir, "pgbouncer.ini"), c.file(server, sockets), as)
	}
	if err != nil {
		lock.release()
		return nil, err
	}
	b := &PgBouncer{sockets: sockets, user: server.User}
	b.Process, err = startProcess(command{
		name: "PgBouncer", path: program, args: []string{filepath.Join(dir, "pgbouncer.ini")}, env: serverEnvironment(), dir: dir,
		logFile: filepath.Join(dir, "server.log"), lock: lock, as: as,
		exited: func() {
			lock.release()
			if filepath.Dir(sockets) != dir {
				os.RemoveAll(sockets)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	ready := func() bool {
		conn, err := pgx.Connect(ctx, b.URL(server.Database))
		if err != nil {
			return false
		}
		return conn.Close(ctx) == nil
	}
	if err := errors.Join(lock.record(b.Pid()), b.waitReady(ctx, ready)); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	c.Log.Info("PgBouncer is ready", "dir", dir, "pid", b.Pid())
	return b, nil
}

// URL returns the URL of a database of the server behind it.
func (b *PgBouncer) URL(database string) string {
	host := strings.ReplaceAll(url.QueryEscape(b.sockets), "+", "%20")
	return "postgres://" + url.PathEscape(b.user) + "@/" + url.PathEscape(database) + "?host=" + host + "&port=" + pgbouncerPort
}

// file is the configuration. It has no user setting: the process runs as an unprivileged user already.
func (c PgBouncerConfig) file(server *pgx.ConnConfig, sockets string) string {
	quote := func(v string) string { return "'" + strings.ReplaceAll(v, "'", "''") + "'" }
	database := fmt.Sprintf("* = host=%s port=%d user=%s", quote(server.Host), server.Port, quote(server.User))
	if server.Password != "" {
		database += " password=" + quote(server.Password)
	}
	return "[databases]\n" + database + "\n\n[pgbouncer]\n" +
		"unix_socket_dir = " + sockets + "\nunix_socket_mode = 0700\nlisten_port = " + pgbouncerPort + "\nauth_type = any\npool_mode = " + c.Mode +
		"\ndefault_pool_size = " + strconv.Itoa(c.PoolSize) + "\nmax_client_conn = 500\nignore_startup_parameters = " + strings.Join(c.IgnoreStartup, ",") +
		"\nserver_login_retry = 1\n"
}

func writeOwned(path, content string, as identity) error {
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return err
	}
	return as.own(path)
}

// findPgBouncer looks where Debian puts it too, which is not on every user's PATH.
func findPgBouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", &MissingError{Program: "PgBouncer", Apt: "pgbouncer", Homebrew: "pgbouncer"}
}
