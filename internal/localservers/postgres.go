package localservers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// PostgresConfig says where a PostgreSQL keeps its data, and how well.
type PostgresConfig struct {
	// Dir is the server's folder. It is made if absent and never shared with anything else. Required.
	Dir string
	// Database is created if absent. Defaults to fencegate.
	Database string
	// Ephemeral gives durability up for speed: for tests that throw the folder away. Defaults to false.
	Ephemeral bool
	// Log hears what is started and where. Defaults to nothing.
	Log *slog.Logger

	// dropUser skips user namespaces.
	dropUser bool
}

func (c PostgresConfig) withDefaults() PostgresConfig {
	c.Database = cmp.Or(c.Database, "fencegate")
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Postgres is a running PostgreSQL. To start it again after Stop or Kill, call StartPostgres on the same folder: its
// URL stays the same.
type Postgres struct {
	*Process
	sockets  string
	database string
}

// StartPostgres starts the PostgreSQL of a folder and returns when it takes connections. The context bounds the start
// only.
func StartPostgres(ctx context.Context, c PostgresConfig) (_ *Postgres, err error) {
	c = c.withDefaults()
	dir, err := makeFolder(c.Dir, 0o700)
	if err != nil {
		return nil, err
	}
	// The home depends on how root can start PostgreSQL, which any version tells; the version on the data.
	bin, err := findPostgres(ctx, 0)
	if err != nil {
		return nil, err
	}
	as, err := unprivileged(ctx, bin.program("postgres"))
	if c.dropUser && os.Geteuid() == 0 {
		as, err = dropped()
	}
	if err != nil {
		return nil, err
	}
	home := as.homeOf(dir)
	lock, err := lockFolder(ctx, dir, home)
	if err != nil {
		return nil, err
	}
	started := false
	defer func() {
		if !started {
			lock.release()
		}
	}()
	cluster := cluster{home: home, as: as, lock: lock, ephemeral: c.Ephemeral}
	if err := as.makeHome(home); err != nil {
		return nil, fmt.Errorf("home of PostgreSQL: %w", err)
	}
	if cluster.bin, err = matching(ctx, bin, cluster.major()); err != nil {
		return nil, err
	}
	if err := cluster.prepare(ctx); err != nil {
		return nil, err
	}
	sockets, err := socketFolder(home, as)
	if err != nil {
		return nil, err
	}
	process, err := cluster.start(sockets, func() {
		lock.release()
		if filepath.Dir(sockets) != home {
			os.RemoveAll(sockets)
		}
	})
	started = true
	if err != nil {
		return nil, err
	}
	p := &Postgres{Process: process, sockets: sockets, database: c.Database}
	if err := p.ready(ctx, cluster); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	c.Log.Info("PostgreSQL is ready", "version", cluster.bin.major, "dir", home, "pid", p.Pid())
	return p, nil
}

// URL returns the URL of a database, for pgx and libpq alike; of the configured one when the name is empty. It names
// the port so that PGPORT does not count.
func (p *Postgres) URL(database string) string {
	// libpq does not read + as a space.
	host := strings.ReplaceAll(url.QueryEscape(p.sockets), "+", "%20")
	return "postgres://postgres@/" + url.PathEscape(cmp.Or(database, p.database)) + "?host=" + host + "&port=" + postgresPort
}

func (p *Postgres) ready(ctx context.Context, c cluster) error {
	if err := c.lock.record(p.Pid()); err != nil {
		return fmt.Errorf("lock of PostgreSQL: %w", err)
	}
	if err := p.waitReady(ctx, func() bool { return c.takesConnections(p.Pid()) }); err != nil {
		return err
	}
	if err := createDatabase(ctx, p.URL("postgres"), p.database); err != nil {
		return fmt.Errorf("create database %s: %w", p.database, err)
	}
	return nil
}

func createDatabase(ctx context.Context, server, name string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists); err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	return err
}

// makeFolder makes a folder and returns its path without links, as the kernel tells the working folder of a process.
func makeFolder(dir string, mode os.FileMode) (string, error) {
	if dir == "" {
		return "", errors.New("localservers: Dir is required")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// serverEnvironment is this program's without the variables that would change what a PostgreSQL does.
func serverEnvironment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") {
			env = append(env, v)
		}
	}
	return env
}

// readMajor reads a data folder's PG_VERSION, 0 when there is none.
func readMajor(data string) int {
	content, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0
	}
	return n
}
