package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fence"
)

// Config says how the store talks to PostgreSQL.
type Config struct {
	// URL is a PostgreSQL connection string, as URL or keywords. Required.
	URL string
	// MaxConns bounds the pool. Defaults to what the URL or pgxpool says, at least 16.
	MaxConns int32
	// LockTimeout bounds every wait for a lock. Defaults to 5 s.
	LockTimeout time.Duration
	// StatementTimeout bounds every statement. Defaults to 10 s, or twice the LockTimeout if that is more.
	StatementTimeout time.Duration
	// ConnectTimeout bounds the making of a connection and the wait for a free one. Defaults to 2 s.
	ConnectTimeout time.Duration
	// TableTTL is how long the description of a table is believed without asking again. Defaults to 5 s. A stale
	// description never names a row wrongly: the binding's version is checked with each write.
	TableTTL time.Duration
}

func (c Config) withDefaults() Config {
	c.LockTimeout = cmp.Or(c.LockTimeout, 5*time.Second)
	c.StatementTimeout = cmp.Or(c.StatementTimeout, max(10*time.Second, 2*c.LockTimeout))
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 2*time.Second)
	c.TableTTL = cmp.Or(c.TableTTL, 5*time.Second)
	return c
}

func (c Config) validate() error {
	if c.URL == "" {
		return errors.New("pgstore: no database URL")
	}
	if c.LockTimeout < time.Millisecond || c.StatementTimeout < c.LockTimeout {
		return errors.New("pgstore: the lock timeout is at least 1ms and at most the statement timeout")
	}
	return nil
}

// Store is the ledger and the rows of one database. It is safe for concurrent use.
type Store struct {
	pool   *pgxpool.Pool
	tables *tableCache
	cfg    Config
}

// Open makes a store. It does not connect yet: a database that is down is an error of each call, not of Open.
func Open(cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("pgstore: read the database URL: %w", err)
	}
	pc.MaxConns = max(pc.MaxConns, 16)
	if cfg.MaxConns > 0 {
		pc.MaxConns = cfg.MaxConns
	}
	pc.ConnConfig.ConnectTimeout = cfg.ConnectTimeout
	pc.AfterConnect = checkSession
	pc.AfterRelease = sessionIntact
	for name, value := range sessionSettings(cfg) {
		pc.ConnConfig.RuntimeParams[name] = value
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), pc)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	s := &Store{pool: pool, cfg: cfg}
	s.tables = newTableCache(cfg.TableTTL, s.describeTable)
	return s, nil
}

// Close waits for the calls under way and closes the connections.
func (s *Store) Close() { s.pool.Close() }

// sessionSettings pins what the guarantees depend on, against any default of the server, database or role.
func sessionSettings(cfg Config) map[string]string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return map[string]string{
		"application_name":                    "fencegate",
		"default_transaction_isolation":       "read committed",
		"timezone":                            "UTC",
		"datestyle":                           "ISO, YMD",
		"intervalstyle":                       "postgres",
		"bytea_output":                        "hex",
		"extra_float_digits":                  "1",
		"lock_timeout":                        ms(cfg.LockTimeout),
		"statement_timeout":                   ms(cfg.StatementTimeout),
		"idle_in_transaction_session_timeout": ms(cfg.LockTimeout),
		// A peer that has vanished is noticed within half a minute (on TCP), and its locks are freed.
		"tcp_keepalives_idle":     "10",
		"tcp_keepalives_interval": "5",
		"tcp_keepalives_count":    "4",
	}
}

// checkSession refuses a session whose isolation was not pinned (a proxy may swallow settings) and raises a
// synchronous_commit of off: an accepted write is durable.
func checkSession(ctx context.Context, conn *pgx.Conn) error {
	var isolation, sync string
	err := conn.QueryRow(ctx, "SELECT current_setting('transaction_isolation'), current_setting('synchronous_commit')").Scan(&isolation, &sync)
	if err != nil {
		return err
	}
	if isolation != "read committed" {
		return fmt.Errorf("the session's isolation is %s, not read committed", isolation)
	}
	if sync == "off" {
		_, err = conn.Exec(ctx, "SET synchronous_commit = local")
	}
	return err
}

// sessionIntact tells whether a connection may serve another request: code of the user's own (a trigger) may have left
// settings behind under which keys would be read differently.
func sessionIntact(conn *pgx.Conn) bool {
	pg := conn.PgConn()
	return pg.ParameterStatus("TimeZone") == "UTC" && pg.ParameterStatus("DateStyle") == "ISO, YMD" && pg.ParameterStatus("IntervalStyle") == "postgres"
}

// discardIfAltered closes a connection whose isolation is not the pinned one any more: the pool makes a new one, and
// the transaction, which was refused for it, is tried again.
func discardIfAltered(ctx context.Context, conn *pgxpool.Conn, err error) {
	if sqlState(err) == stateIsolation {
		_ = conn.Conn().Close(ctx)
	}
}

// Ready reports whether the ledger answers.
func (s *Store) Ready(ctx context.Context) error {
	_, err := s.LedgerID(ctx)
	return err
}

// LedgerID returns the id that this ledger was given when it was made.
func (s *Store) LedgerID(ctx context.Context) (string, error) {
	var id string
	err := s.read(ctx, "SELECT ledger_id::text FROM fence.settings", nil, &id)
	return id, err
}

// read runs a statement that changes nothing and returns one row.
func (s *Store) read(ctx context.Context, sql string, args []any, dest ...any) error {
	return classifyRead(s.query(ctx, sql, args, dest...))
}

// query runs a statement that is a transaction of its own and returns one row.
func (s *Store) query(ctx context.Context, sql string, args []any, dest ...any) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = conn.QueryRow(ctx, sql, args...).Scan(dest...)
	discardIfAltered(ctx, conn, err)
	return classify(err)
}

// exec runs a statement that is a transaction of its own and whose rows do not matter.
func (s *Store) exec(ctx context.Context, sql string, args ...any) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	_, err = conn.Exec(ctx, sql, args...)
	discardIfAltered(ctx, conn, err)
	return classify(err)
}

// acquire takes a connection, waiting no longer than the connect timeout: a database that is down, or a pool that
// is exhausted, is reported soon.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	waiting, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout)
	defer cancel()
	conn, err := s.pool.Acquire(waiting)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && s.pool.Stat().AcquiredConns() >= s.pool.Config().MaxConns:
		return nil, fence.Wrap(fence.CodeOverloaded, err, "every database connection is busy")
	}
	return nil, fence.Wrap(fence.CodeUnavailable, err, "PostgreSQL does not answer")
}
