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
	"golang.org/x/sync/semaphore"
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
	// ReadTimeout bounds every read. Defaults to 3 s. It and the next are kept on this side: a server that is frozen
	// keeps no timeout of its own.
	ReadTimeout time.Duration
	// ConnectTimeout bounds the making of a connection and the wait for a free one. Defaults to 2 s.
	ConnectTimeout time.Duration
	// TableTTL is how long the description of a table is believed without asking again. Defaults to 5 s. A stale
	// description never names a row wrongly: the binding's version is checked with each write.
	TableTTL time.Duration
}

func (c Config) withDefaults() Config {
	c.LockTimeout = cmp.Or(c.LockTimeout, 5*time.Second)
	c.StatementTimeout = cmp.Or(c.StatementTimeout, max(10*time.Second, 2*c.LockTimeout))
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 3*time.Second)
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
	// Writes and grants wait for locks. Each has its share of the connections, and reads find the rest.
	writes, grants *semaphore.Weighted
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
	s.writes, s.grants = semaphore.NewWeighted(max(1, int64(pc.MaxConns)*5/8)), semaphore.NewWeighted(max(1, int64(pc.MaxConns)/4))
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
