package redislease_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/leasetest"
	"github.com/fencegate/fencegate/lease/redislease"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	awaitPools(t)
	config := localservers.RedisConfig{Dir: t.TempDir()}
	var server *localservers.Redis
	start := func(t *testing.T) {
		t.Helper()
		var err error
		if server, err = localservers.StartRedis(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		addUser(t, server)
	}
	start(t)
	t.Cleanup(func() { server.Stop() })
	b := backend(t, server.URL(), redislease.Config{})
	b.Open = func(t *testing.T) lease.Locker { l, _ := open(t, asUser(server), redislease.Config{}); return l }
	b.Restart = func(t *testing.T) { server.Kill(); start(t) }
	leasetest.Run(t, b)
}

// userInDocs is the command of the docs that makes a user for the gateways.
func userInDocs(t *testing.T) []any {
	t.Helper()
	text, err := os.ReadFile("../../docs/lockers.md")
	if err != nil {
		t.Fatal(err)
	}
	var command []any
	for _, word := range strings.Fields(regexp.MustCompile("(?m)^ACL SETUSER .*$").FindString(string(text))) {
		command = append(command, word)
	}
	if len(command) == 0 {
		t.Fatal("the docs have no ACL SETUSER")
	}
	return command
}

func addUser(t *testing.T, server *localservers.Redis) {
	t.Helper()
	client, err := redislease.Open(server.URL(), redislease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Do(t.Context(), userInDocs(t)...).Err(); err != nil {
		t.Fatal(err)
	}
}

// asUser is the server's URL for that user.
func asUser(server interface{ URL() string }) string {
	scheme, rest, _ := strings.Cut(server.URL(), "://")
	return scheme + "://fencegate:a-secret@" + rest
}

// backend opens lockers on one prefix of the server at url.
func backend(t *testing.T, url string, c redislease.Config) leasetest.Backend {
	t.Helper()
	_, client := open(t, url, c)
	return leasetest.Backend{
		Open:      func(t *testing.T) lease.Locker { l, _ := open(t, url, c); return l },
		Fill:      func(t *testing.T, _ lease.Locker, name string, entries int) { fill(t, client, c, name, entries) },
		Leftovers: func(t *testing.T, name string) []string { return keysOf(t, client, c, name) },
	}
}

// TestConformanceMiniredis is for fencegate dev without a redis-server.
func TestConformanceMiniredis(t *testing.T) {
	t.Parallel()
	server, err := localservers.StartMiniredis()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	// It reads each script anew for each call, which takes its time.
	leasetest.Run(t, backend(t, server.URL(), redislease.Config{CallTimeout: 10 * time.Second}))
}

// fill puts entries in a queue without asking the locker.
func fill(t *testing.T, client redis.UniversalClient, c redislease.Config, name string, entries int) {
	t.Helper()
	key := redislease.KeyOf(c, name)
	// Behind whatever stands there.
	behind := float64(time.Now().Add(time.Hour).UnixMicro())
	for first := 0; first < entries; first += 1000 {
		var queue []redis.Z
		var notes []any
		for i := first; i < min(first+1000, entries); i++ {
			value := fence.DigestOf("fill", name, fmt.Sprint(i)).String()
			queue = append(queue, redis.Z{Score: behind + float64(i), Member: value + ":NOBODY"})
			notes = append(notes, value, "NOBODY 1 note")
		}
		if err := errors.Join(client.ZAdd(t.Context(), key+":q", queue...).Err(), client.HSet(t.Context(), key+":n", notes...).Err()); err != nil {
			t.Fatal(err)
		}
	}
}

// keysOf are the keys of a lease.
func keysOf(t *testing.T, client redis.UniversalClient, c redislease.Config, name string) []string {
	t.Helper()
	var found []string
	key := redislease.KeyOf(c, name)
	for _, k := range []string{key, key + ":q", key + ":n"} {
		n, err := client.Exists(t.Context(), k).Result()
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			found = append(found, k)
		}
	}
	return found
}
