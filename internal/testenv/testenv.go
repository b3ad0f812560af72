package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/internal/localservers"
)

// shared are the servers of this test binary. Main sets it before the first test and ends it after the last.
var shared *servers

type servers struct {
	dir      string
	postgres once[string]
	redis    once[string]
	etcd     once[string]
	s3       once[*localservers.S3]
	ledger   once[string] // the database that ledgers are copies of

	mu   sync.Mutex
	stop []func() error // guarded by mu
}

// once starts a server for the first that asks; everybody gets the same answer.
type once[T any] struct {
	once  sync.Once
	value T
	err   error
}

func (o *once[T]) get(start func() (T, error)) (T, error) {
	o.once.Do(func() { o.value, o.err = start() })
	return o.value, o.err
}

// Main runs the tests, ends the servers they used, looks for goroutines that nobody ended, and returns the exit code.
func Main(m *testing.M) int {
	dir, err := quickDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return 1
	}
	shared = &servers{dir: dir}
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return max(code, 1)
	}
	if err := goleak.Find(leftBehind()...); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return max(code, 1)
	}
	return code
}

func (s *servers) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, stop := range slices.Backward(s.stop) {
		err = errors.Join(err, stop())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

func (s *servers) stopLater(stop func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = append(s.stop, stop)
}

// mustShared returns the test binary's, or ends the test.
func mustShared(t testing.TB) *servers {
	t.Helper()
	if shared == nil {
		t.Fatal("testenv: the package needs func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }")
	}
	return shared
}

func (s *servers) databaseServer() (string, error) {
	return s.postgres.get(func() (string, error) {
		if url := os.Getenv("FENCEGATE_TEST_DATABASE_URL"); url != "" {
			return url, nil
		}
		p, err := localservers.StartPostgres(context.Background(), localservers.PostgresConfig{
			Dir: filepath.Join(s.dir, "postgres"), Ephemeral: true,
		})
		if err != nil {
			return "", err
		}
		s.stopLater(p.Stop)
		return p.URL("postgres"), nil
	})
}

func (s *servers) redisServer() (string, error) {
	return s.redis.get(func() (string, error) {
		if url := os.Getenv("FENCEGATE_TEST_REDIS_URL"); url != "" {
			return url, nil
		}
		r, err := localservers.StartRedis(context.Background(), localservers.RedisConfig{Dir: filepath.Join(s.dir, "redis")})
		if err != nil {
			return "", err
		}
		s.stopLater(r.Stop)
		return r.URL(), nil
	})
}

func (s *servers) etcdServer() (string, error) {
	return s.etcd.get(func() (string, error) {
		if url := os.Getenv("FENCEGATE_TEST_ETCD_URL"); url != "" {
			return url, nil
		}
		e, err := localservers.StartEtcd(context.Background(), localservers.EtcdConfig{Dir: filepath.Join(s.dir, "etcd")})
		if err != nil {
			return "", err
		}
		s.stopLater(e.Stop)
		return e.URL(), nil
	})
}

func (s *servers) s3Server() (*localservers.S3, error) {
	return s.s3.get(func() (*localservers.S3, error) {
		program, err := versitygw()
		if err != nil {
			return nil, err
		}
		server, err := localservers.StartS3(context.Background(), localservers.S3Config{
			Dir: filepath.Join(s.dir, "s3"), Program: program,
		})
		if err != nil {
			return nil, err
		}
		s.stopLater(server.Stop)
		return server, nil
	})
}
