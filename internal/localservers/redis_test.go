package localservers

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestRedisWithoutPersistForgets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startRedis(t, RedisConfig{Dir: dir})
	if err := redisClient(t, r.URL()).Set(t.Context(), "lease", "worker-a", 0).Err(); err != nil {
		t.Fatal(err)
	}
	r.Kill()
	again := startRedis(t, RedisConfig{Dir: dir})
	defer stopProcess(t, again.Process)
	if again.URL() != r.URL() {
		t.Errorf("the URL changed from %s to %s", r.URL(), again.URL())
	}
	if n, err := redisClient(t, again.URL()).DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("it remembers %d keys, %v", n, err)
	}
}

func TestRedisRefusesASecondServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startRedis(t, RedisConfig{Dir: dir})
	defer stopProcess(t, r.Process)
	if second, err := StartRedis(t.Context(), RedisConfig{Dir: dir}); err == nil {
		stopProcess(t, second.Process)
		t.Fatal("two servers on one folder")
	}
	if err := redisClient(t, r.URL()).Ping(t.Context()).Err(); err != nil {
		t.Errorf("the first server: %v", err)
	}
}

func TestProcessThatCannotStartTellsWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := lockFolder(t.Context(), dir, dir)
	if err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	p, err := startProcess(command{
		name: "redis-server", path: path, args: []string{"--port", "no-number"}, dir: dir,
		logFile: filepath.Join(dir, "server.log"), lock: lock, exited: lock.release,
	})
	if err != nil {
		t.Fatal(err)
	}
	err = p.waitReady(t.Context(), func() bool { return false })
	if err == nil || !strings.Contains(err.Error(), "no-number") {
		t.Errorf("got %v", err)
	}
}

func startRedis(t *testing.T, c RedisConfig) *Redis {
	t.Helper()
	r, err := StartRedis(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
