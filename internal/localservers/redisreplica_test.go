package localservers

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestRedisOnAPort(t *testing.T) {
	t.Parallel()
	config := RedisConfig{Dir: t.TempDir(), TCP: true}
	r := startRedis(t, config)
	if err := redisClient(t, r.URL()).Ping(t.Context()).Err(); err != nil || !strings.HasPrefix(r.URL(), "redis://127.0.0.1:") {
		t.Errorf("%s: %v", r.URL(), err)
	}
	r.Kill()
	again := startRedis(t, config)
	defer stopProcess(t, again.Process)
	if again.URL() != r.URL() {
		t.Errorf("the URL changed from %s to %s", r.URL(), again.URL())
	}
	if a := startedWithoutPort(t).Address(); a != "" {
		t.Errorf("without TCP it listens on %s", a)
	}
}

func startedWithoutPort(t *testing.T) *Redis {
	r := startRedis(t, RedisConfig{Dir: t.TempDir()})
	t.Cleanup(func() { stopProcess(t, r.Process) })
	return r
}

func TestPromotionLosesWhatWasNotCopied(t *testing.T) {
	t.Parallel()
	primary := startRedis(t, RedisConfig{Dir: t.TempDir(), TCP: true})
	defer stopProcess(t, primary.Process)
	replica := startRedis(t, RedisConfig{Dir: t.TempDir(), TCP: true})
	defer stopProcess(t, replica.Process)
	at, behind := redisClient(t, primary.URL()), redisClient(t, replica.URL())
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(at.Set(t.Context(), "copied", "1", 0).Err())
	do(replica.Follow(t.Context(), primary))
	do(replica.Cut(t.Context()))
	do(at.Set(t.Context(), "lost", "1", 0).Err())
	if err := behind.Set(t.Context(), "a", "1", 0).Err(); !redis.HasErrorPrefix(err, "READONLY") {
		t.Errorf("a replica that was cut off is no replica any more: %v", err)
	}
	do(replica.Promote(t.Context()))
	if got := behind.MGet(t.Context(), "copied", "lost").Val(); len(got) != 2 || got[0] != "1" || got[1] != nil {
		t.Errorf("the promoted replica has %v", got)
	}
	do(primary.Follow(t.Context(), replica))
	if n := at.Exists(t.Context(), "lost").Val(); n != 0 {
		t.Error("the former primary keeps what the new one never had")
	}
}
