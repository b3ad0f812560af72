package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/load"
	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// servers are a private PostgreSQL and Redis, in a folder that ends with them.
type servers struct {
	dir      string
	postgres *localservers.Postgres
	redis    *localservers.Redis
	admin    *pgxpool.Pool // of two connections
	closing  []func() error
}

// startServers starts them in a folder of their own below parent, or below that for temporary files.
func startServers(ctx context.Context, parent string) (s *servers, err error) {
	s = &servers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp(parent, "fencegate-bench-"); err != nil {
		return s, err
	}
	s.add(func() error { return os.RemoveAll(s.dir) })
	if s.postgres, err = localservers.StartPostgres(ctx, localservers.PostgresConfig{Dir: filepath.Join(s.dir, "postgres")}); err != nil {
		return s, err
	}
	s.add(s.postgres.Stop)
	if s.redis, err = localservers.StartRedis(ctx, localservers.RedisConfig{Dir: filepath.Join(s.dir, "redis")}); err != nil {
		return s, err
	}
	s.add(s.redis.Stop)
	if _, err = pgstore.Migrate(ctx, s.postgres.URL("")); err != nil {
		return s, err
	}
	if s.admin, err = openPool(ctx, s.postgres.URL(""), 2); err != nil {
		return s, err
	}
	s.add(func() error { s.admin.Close(); return nil })
	return s, nil
}

func (s *servers) add(f func() error) { s.closing = append(s.closing, f) }

// close ends all, the last one first.
func (s *servers) close() (err error) {
	for i := len(s.closing) - 1; i >= 0; i-- {
		err = errors.Join(err, s.closing[i]())
	}
	s.closing = nil
	return err
}

// withStore runs f with a store, which is closed afterwards, so that its connections are free.
func (s *servers) withStore(ctx context.Context, f func(context.Context, *pgstore.Store) error) error {
	store, err := pgstore.Open(pgstore.Config{URL: s.postgres.URL("")})
	if err != nil {
		return err
	}
	defer store.Close()
	return f(ctx, store)
}

// openPool opens a pool as users do, but for its size.
func openPool(ctx context.Context, url string, size int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(size)
	return pgxpool.NewWithConfig(ctx, config)
}

// room waits until the server has so many connections free. Those of programs that take turns go when they have been idle for a
// while.
func (s *servers) room(ctx context.Context, want int) error {
	const ask, patience = 50 * time.Millisecond, 30 * time.Second
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		var free int
		err := s.admin.QueryRow(waiting, `SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int - count(*)
			FROM pg_stat_activity WHERE backend_type = 'client backend'`).Scan(&free)
		if err != nil || free >= want {
			return err
		}
		select {
		case <-waiting.Done():
			return fmt.Errorf("PostgreSQL has %d connections free, not %d: %w", free, want, waiting.Err())
		case <-time.After(ask):
		}
	}
}

// cpu is what the servers and these processes have spent so far. It is unsupported where there is no /proc.
func (s *servers) cpu(trees []int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range append([]int{s.postgres.Pid(), s.redis.Pid()}, trees...) {
		spent, err := load.TreeCPU(pid)
		if err != nil {
			return 0, err
		}
		sum += spent
	}
	return sum, nil
}
