package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// servers are private ones, in a folder that ends with them.
type servers struct {
	redis    *localservers.Redis
	etcd     *localservers.Etcd
	postgres *localservers.Postgres
	closers
}

func startServers(ctx context.Context) (s *servers, err error) {
	s = &servers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	dir, err := os.MkdirTemp("", "fencegate-bench-")
	if err != nil {
		return s, err
	}
	s.add(func() error { return os.RemoveAll(dir) })
	if s.redis, err = localservers.StartRedis(ctx, localservers.RedisConfig{Dir: filepath.Join(dir, "redis"), TCP: true}); err != nil {
		return s, err
	}
	s.add(s.redis.Stop)
	if s.etcd, err = localservers.StartEtcd(ctx, localservers.EtcdConfig{Dir: filepath.Join(dir, "etcd")}); err != nil {
		return s, err
	}
	s.add(s.etcd.Stop)
	if s.postgres, err = localservers.StartPostgres(ctx, localservers.PostgresConfig{Dir: filepath.Join(dir, "postgres")}); err != nil {
		return s, err
	}
	s.add(s.postgres.Stop)
	_, err = pgstore.Migrate(ctx, s.postgres.URL(""))
	return s, err
}

// describe says which servers these are, and how well PostgreSQL keeps what it commits.
func (s *servers) describe(ctx context.Context, admin redisInfo) (string, error) {
	conn, err := pgx.Connect(ctx, s.postgres.URL(""))
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var version, fsync, commit string
	err = conn.QueryRow(ctx, "SELECT split_part(current_setting('server_version'), ' ', 1), current_setting('fsync'), current_setting('synchronous_commit')").
		Scan(&version, &fsync, &commit)
	if err != nil {
		return "", err
	}
	info, err := admin.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	redisVersion := "?"
	if m := regexp.MustCompile(`redis_version:(\S+)`).FindStringSubmatch(info); m != nil {
		redisVersion = m[1]
	}
	return fmt.Sprintf("Redis %s on loopback TCP; PostgreSQL %s on a socket, fsync %s, synchronous_commit %s; etcd on loopback TCP, fsync on",
		redisVersion, version, fsync, commit), nil
}

// commit measures one transaction that changes one row, as often as one client can in a slice.
type commit struct{ pool *pgxpool.Pool }

func newCommit(ctx context.Context, url string, done *closers) (*commit, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	done.add(func() error { pool.Close(); return nil })
	_, err = pool.Exec(ctx, "CREATE TABLE counters (id int PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 50); INSERT INTO counters VALUES (1, 0)")
	return &commit{pool}, err
}

func (c *commit) once(ctx context.Context) error {
	_, err := c.pool.Exec(ctx, "UPDATE counters SET n = n + 1 WHERE id = $1", 1)
	return err
}

// redisInfo is a client that asks the server about itself.
type redisInfo interface {
	Info(ctx context.Context, sections ...string) *redis.StringCmd
}

// redisCalls counts commands at the server. It counts those that scripts run, too, so it is told which ones a client sends itself.
func redisCalls(admin redisInfo, commands ...string) func(context.Context) (int64, error) {
	lines := regexp.MustCompile(`(?m)^cmdstat_(\S+?):calls=(\d+)`)
	return func(ctx context.Context) (int64, error) {
		info, err := admin.Info(ctx, "commandstats").Result()
		if err != nil {
			return 0, err
		}
		var sum int64
		for _, m := range lines.FindAllStringSubmatch(info, -1) {
			for _, command := range commands {
				if m[1] == command {
					n, err := strconv.ParseInt(m[2], 10, 64)
					if err != nil {
						return 0, err
					}
					sum += n
				}
			}
		}
		return sum, nil
	}
}
