package redislease_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease/redislease"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// prefixes makes prefixes unique within the test binary's shared server.
var prefixes atomic.Int64

func prefix(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("test-%d-%d", os.Getpid(), prefixes.Add(1))
}

// open returns a locker and its client on the server at url.
func open(t testing.TB, url string, c redislease.Config) (*redislease.Locker, redis.UniversalClient) {
	t.Helper()
	client, err := redislease.Open(url, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	l, err := redislease.New(client, c)
	if err != nil {
		t.Fatal(err)
	}
	return l, client
}

// eventually polls until ok, for at most a generous while.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}
