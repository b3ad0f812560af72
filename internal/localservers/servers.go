package localservers

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
)

// Config says where the servers of a development gateway keep their data.
type Config struct {
	// Dir is the folder for all of them. It is made if absent. Required.
	Dir string
	// Ephemeral gives durability up for speed: for tests that throw the folder away. Defaults to false.
	Ephemeral bool
	// Log hears what is started and where. Defaults to nothing.
	Log *slog.Logger
}

// Servers are a PostgreSQL and a Redis that run.
type Servers struct {
	postgres *Postgres
	redis    redisServer
	done     chan struct{} // closed when one of them has ended, or Close was called
	err      error         // guarded by once
	once     sync.Once
	watchers sync.WaitGroup
}

// redisServer is a redis-server or the one in process.
type redisServer interface {
	URL() string
	Stop() error
}

// Start starts a PostgreSQL with a database fencegate and a redis-server below a folder and returns when both answer.
// Where there is no redis-server, a Redis in process takes its place. The context bounds the start only; Close ends
// the servers.
func Start(ctx context.Context, c Config) (*Servers, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	// Other users may pass through: PostgreSQL's may be another than this program's.
	dir, err := makeFolder(c.Dir, 0o711)
	if err != nil {
		return nil, err
	}
	s := &Servers{done: make(chan struct{})}
	s.postgres, err = StartPostgres(ctx, PostgresConfig{Dir: filepath.Join(dir, "postgres"), Ephemeral: c.Ephemeral, Log: c.Log})
	if err != nil {
		return nil, err
	}
	s.watch(s.postgres.Process)
	r, err := StartRedis(ctx, RedisConfig{Dir: filepath.Join(dir, "redis"), Persist: !c.Ephemeral, Log: c.Log})
	var missing *MissingError
	switch {
	case err == nil:
		s.redis = r
		s.watch(r.Process)
	case errors.As(err, &missing):
		c.Log.Warn("redis-server is not installed: leases are kept in this process and end with it")
		m, err := StartMiniredis()
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.redis = m
	default:
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Servers) watch(p *Process) {
	s.watchers.Go(func() {
		<-p.Done()
		s.end(p.Err())
	})
}

// end keeps the first reason only.
func (s *Servers) end(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.done)
	})
}

// DatabaseURL returns the URL of the database fencegate, for pgx and libpq alike.
func (s *Servers) DatabaseURL() string { return s.postgres.URL("") }

// RedisURL returns the URL of the Redis as go-redis reads it.
func (s *Servers) RedisURL() string { return s.redis.URL() }

// Done is closed when a server has ended, by itself or by Close.
func (s *Servers) Done() <-chan struct{} { return s.done }

// Err tells which server ended by itself, and how. It is nil before Done is closed and after Close.
func (s *Servers) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close ends the servers in order and waits for them. It is called once.
func (s *Servers) Close() error {
	s.end(nil)
	var err error
	if s.redis != nil {
		err = s.redis.Stop()
	}
	err = errors.Join(err, s.postgres.Stop())
	s.watchers.Wait()
	return err
}
