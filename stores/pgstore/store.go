package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"

	"github.com/fencegate/fencegate/fence"
)

// LeastConns is the least bound of the pool, unless Config.MaxConns says otherwise.
const LeastConns = 16

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
	// Lanes is how many transactions at once are made of the writes of different callers, each of all that arrived while its
	// last one was under way; a resource always has the same lane. Defaults to 1; -1 makes each write a transaction of its own.
	Lanes int
	// Pooled says that the URL leads to a pooler that gives a session to each transaction (PgBouncer, pool_mode
	// transaction). Nothing is then kept in a session: the settings go along with each transaction, and no statement is
	// prepared. Defaults to false; a pooler that was not announced is refused with ErrPooler.
	Pooled bool
	// Tracer is told of every query, batch and connection; one that is a pgxpool.AcquireTracer too, of every wait for a
	// connection. Defaults to none.
	Tracer pgx.QueryTracer
}

func (c Config) withDefaults() Config {
	c.LockTimeout = cmp.Or(c.LockTimeout, 5*time.Second)
	c.StatementTimeout = cmp.Or(c.StatementTimeout, max(10*time.Second, 2*c.LockTimeout))
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 3*time.Second)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 2*time.Second)
	c.Lanes = cmp.Or(c.Lanes, 1)
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
	// tracked are the settings that are the same in every session.
	tracked map[string]string
	// preamble sets, behind a pooler, what each transaction depends on.
	preamble string
	// commits counts the leases whose locks commits hold.
	commits *semaphore.Weighted
	// Writes and grants wait for locks. Each has its share of the connections, and reads find the rest.
	writes, grants *share
	// locked is the part of the grants' share whose transactions may wait for a lease that is in use. The rest is for those
	// that wait for none.
	locked *share
	gather *gatherer
	// lanes make one transaction of many writes; nil when each goes alone.
	lanes   []*lane
	batches batchCounts
	// intents are recorded in advance for those who store many blobs.
	intents *intents
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
	pc.MaxConns = max(pc.MaxConns, LeastConns)
	if cfg.MaxConns > 0 {
		pc.MaxConns = cfg.MaxConns
	}
	pc.ConnConfig.ConnectTimeout = cfg.ConnectTimeout
	pc.ConnConfig.Tracer = cfg.Tracer
	configureSessions(pc, cfg)
	pool, err := pgxpool.NewWithConfig(context.Background(), pc)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	s := &Store{pool: pool, cfg: cfg, preamble: preamble(cfg), tracked: trackedSettings(), commits: semaphore.NewWeighted(commitLocks)}
	s.writes, s.grants = newShare(max(1, int64(pc.MaxConns)*5/8)), newShare(max(1, int64(pc.MaxConns)/4))
	s.locked = newShare(max(1, s.grants.size-1))
	s.gather = &gatherer{
		one:     func(ctx context.Context, c *settlement) error { return s.settleOne(ctx, c, false) },
		many:    s.settleMany,
		limit:   flightLimit,
		slots:   flightSlots,
		patient: cfg.ConnectTimeout,
	}
	s.intents = newIntents(s.recordBlobs, s.discardBlobs)
	if cfg.Lanes > 0 {
		s.lanes = s.newLanes(cfg.Lanes)
	}
	s.tables = newTableCache(cfg.TableTTL, s.describeTable)
	return s, nil
}

// Close waits for the calls under way and closes the connections.
func (s *Store) Close() {
	for _, l := range s.lanes {
		l.close()
	}
	s.gather.close()
	s.intents.close()
	s.pool.Close()
}

// Ready reports whether the ledger answers and still works with this program; it is ErrSchemaNew, and CodeUnavailable,
// once a newer program has migrated it to what this one cannot work with.
func (s *Store) Ready(ctx context.Context) error {
	var from int64
	if err := s.read(ctx, "SELECT compatible_from FROM fence.settings", nil, &from); err != nil {
		return err
	}
	if own := SchemaVersion(); from > own {
		return fence.Wrap(fence.CodeUnavailable, ErrSchemaNew, "the ledger works with programs of schema version %d or newer, and this one's is %d", from, own)
	}
	return nil
}

// LedgerID returns the id that this ledger was given when it was made.
func (s *Store) LedgerID(ctx context.Context) (string, error) {
	var id string
	err := s.read(ctx, "SELECT ledger_id::text FROM fence.settings", nil, &id)
	return id, err
}
