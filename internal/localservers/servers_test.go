package localservers

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

func TestStartKeepsDataAcrossRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, dir)
	run(t, first.DatabaseURL(), "CREATE TABLE wallets AS SELECT 42 AS id")
	if err := redisClient(t, first.RedisURL()).Set(t.Context(), "lease", "worker-a", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := first.Err(); err != nil {
		t.Fatalf("after Close: %v", err)
	}
	second := start(t, dir)
	defer closeServers(t, second)
	if got := text(t, second.DatabaseURL(), "SELECT current_setting('fsync') || current_setting('listen_addresses')"); got != "on" {
		t.Errorf("fsync and addresses: got %q", got)
	}
	if second.DatabaseURL() != first.DatabaseURL() || second.RedisURL() != first.RedisURL() {
		t.Error("the servers changed their addresses")
	}
	if got := text(t, second.DatabaseURL(), "SELECT id::text FROM wallets"); got != "42" {
		t.Errorf("row: got %q", got)
	}
	if got, err := redisClient(t, second.RedisURL()).Get(t.Context(), "lease").Result(); err != nil || got != "worker-a" {
		t.Errorf("lease: got %q, %v", got, err)
	}
}

func TestStartRefusesASecondInstance(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, dir)
	defer closeServers(t, first)
	begun := time.Now()
	second, err := Start(t.Context(), Config{Dir: dir})
	if err == nil {
		closeServers(t, second)
		t.Fatal("two instances run on one folder")
	}
	if !strings.Contains(err.Error(), "another fencegate") || !strings.Contains(err.Error(), dir) {
		t.Errorf("the error does not say what is wrong: %v", err)
	}
	if waited := time.Since(begun); waited > leftoverTimeout/2 {
		t.Errorf("the refusal took %s", waited)
	}
	if got := text(t, first.DatabaseURL(), "SELECT 'alive'"); got != "alive" {
		t.Errorf("the first instance: %q", got)
	}
}

func TestStartRecoversAfterItsProgramWasKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), programFolder+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	url := strings.TrimSpace(line)
	if err != nil || !strings.HasPrefix(url, "postgres://") {
		t.Fatalf("the program said %q, %v", line, err)
	}
	run(t, url, "CREATE TABLE wallets AS SELECT 42 AS id")
	// Sessions that stay open must not keep the left-behind server alive.
	idle, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close(context.Background())
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the program ended in order")
	}
	// Where the kernel does not end the servers, the next start says that they are there.
	if runtime.GOOS == "linux" {
		err := poll(t.Context(), stopTimeout, func() (bool, error) { return idle.Ping(t.Context()) != nil, nil })
		if err != nil {
			t.Fatalf("PostgreSQL outlived its program: %v", err)
		}
	}
	s := start(t, dir)
	defer closeServers(t, s)
	if got := text(t, s.DatabaseURL(), "SELECT id::text FROM wallets"); got != "42" {
		t.Errorf("got %q", got)
	}
}

func TestServersAreStartedAgain(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	defer closeServers(t, s)
	run(t, s.DatabaseURL(), "CREATE TABLE wallets AS SELECT 42 AS id")
	kill := func(server any) { server.(interface{ Signal(os.Signal) error }).Signal(os.Kill) }
	s.mu.Lock()
	kill(s.postgres)
	kill(s.redis)
	s.mu.Unlock()
	err := poll(t.Context(), stopTimeout, func() (bool, error) {
		conn, err := pgx.Connect(t.Context(), s.DatabaseURL())
		if err != nil {
			return false, nil
		}
		defer conn.Close(t.Context())
		var id int
		return conn.QueryRow(t.Context(), "SELECT id FROM wallets").Scan(&id) == nil && id == 42, nil
	})
	if err != nil {
		t.Fatalf("PostgreSQL is not back: %v", err)
	}
	client := redisClient(t, s.RedisURL())
	if err := poll(t.Context(), stopTimeout, func() (bool, error) { return client.Ping(t.Context()).Err() == nil, nil }); err != nil {
		t.Fatalf("Redis is not back: %v", err)
	}
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}

func TestServersTellWhichOneCannotBeStartedAgain(t *testing.T) {
	t.Parallel()
	s := &Servers{log: slog.New(slog.DiscardHandler), done: make(chan struct{})}
	s.stopping, s.stop = context.WithCancel(t.Context())
	ended := &Process{done: make(chan struct{}), err: errors.New("killed")}
	close(ended.done)
	s.watch("PostgreSQL", ended, func(context.Context) (*Process, error) { return nil, errors.New("no folder") })
	select {
	case <-s.Done():
	case <-time.After(stopTimeout):
		t.Fatal("nobody gave up")
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "PostgreSQL cannot be started again: no folder") {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestStartWithoutRedisServer(t *testing.T) {
	bin, err := findPostgres(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin.folder)
	s := start(t, t.TempDir())
	defer closeServers(t, s)
	client := redisClient(t, s.RedisURL())
	if err := client.Set(t.Context(), "lease", "worker-a", 50*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	err = poll(t.Context(), 5*time.Second, func() (bool, error) {
		n, err := client.Exists(t.Context(), "lease").Result()
		return n == 0, err
	})
	if err != nil {
		t.Errorf("the lease did not expire: %v", err)
	}
}

func TestStartOnAFolderWithAnAwkwardPath(t *testing.T) {
	program, err := exec.LookPath("psql")
	if err != nil {
		bin, err := findPostgres(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		program = bin.program("psql")
	}
	for name, folder := range map[string]string{
		"Long":  strings.Repeat("a-long-name/", 12),
		"Signs": "100%25 a b + c & more=1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Short, so that the folder decides and not what t.TempDir adds.
			parent, err := os.MkdirTemp("", "fg-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(parent) })
			if err := os.Chmod(parent, 0o700); err != nil {
				t.Fatal(err)
			}
			s := start(t, filepath.Join(parent, folder))
			defer closeServers(t, s)
			if got := text(t, s.DatabaseURL(), "SELECT current_setting('transaction_isolation') || ' ' || current_setting('timezone')"); got != "read committed UTC" {
				t.Errorf("got %q", got)
			}
			if err := redisClient(t, s.RedisURL()).Ping(t.Context()).Err(); err != nil {
				t.Error(err)
			}
			psql := exec.Command(program, s.DatabaseURL(), "-XAtc", "SELECT current_database()")
			psql.Env = append(os.Environ(), "PGPORT=1")
			if out, err := psql.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "fencegate" {
				t.Errorf("psql: got %q, %v", out, err)
			}
		})
	}
}

func start(t *testing.T, dir string) *Servers {
	t.Helper()
	s, err := Start(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeServers(t *testing.T, s *Servers) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func run(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func text(t *testing.T, url, query string) (value string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), query).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func redisClient(t *testing.T, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}
