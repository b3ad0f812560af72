package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// window is how long a lease is reserved for a gateway that was told that it is its waiter's turn.
const window = 250 * time.Millisecond

// startWaiters runs a process whose requests wait for a lease, and returns once so many wait in all.
func startWaiters(t *testing.T, gateway *program, lease, holder string, count, all int) *worker {
	t.Helper()
	plan, err := json.Marshal(waitersPlan{URL: gateway.url, Lease: url.PathEscape(lease), Holder: holder, Count: count})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), waitersEnv+"="+string(plan))
	w := startProcess(t, cmd)
	eventually(t, fmt.Sprintf("the %d requests of %s wait", count, holder), func() bool {
		return queueLength(t, gateway, lease) == all
	})
	return w
}

// queueLength is how many wait for a lease, as a gateway shows it.
func queueLength(t *testing.T, gateway *program, lease string) int {
	t.Helper()
	c := gateway.client()
	r := c.must(c.try(t.Context(), http.MethodGet, "/v1/leases/"+url.PathEscape(lease), nil))
	var shown struct {
		Queue struct{ Length int }
	}
	r.decode(t, &shown)
	return shown.Queue.Length
}

// served reads the lines of a waiters' process: whom it was granted to, and with which token.
func served(t *testing.T, w *worker, count int, into map[int64]string) {
	t.Helper()
	for range count {
		holder, token, _ := strings.Cut(w.line(), " ")
		n, err := strconv.ParseInt(token, 10, 64)
		if err != nil || into[n] != "" {
			t.Errorf("%s was granted %q, which %q has (%v)", holder, token, into[n], err)
		}
		into[n] = holder
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestHalfOfFiveHundredWaitersAreKilled: 20 processes with 25 requests each wait at three gateways; every other process is
// killed. All others are served, once, in the order in which their processes came.
func TestHalfOfFiveHundredWaitersAreKilled(t *testing.T) {
	const processes, each = 20, 25
	s := testServers(t)
	gateways := []*program{startServe(t, s), startServe(t, s), startServe(t, s)}
	first := gateways[0].client()
	held := first.acquire("crowd", time.Minute)
	var workers []*worker
	for i := range processes {
		workers = append(workers, startWaiters(t, gateways[i%3], "crowd", fmt.Sprintf("%02d", i), each, (i+1)*each))
	}
	for i := 0; i < processes; i += 2 {
		if err := workers[i].cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "those that were killed have left", func() bool { return queueLength(t, gateways[1], "crowd") == processes/2*each })
	began := time.Now()
	first.release("crowd", held)

	granted := map[int64]string{}
	for i := 1; i < processes; i += 2 {
		served(t, workers[i], each, granted)
	}
	t.Logf("%d hand-offs in %v", len(granted), time.Since(began))
	last := ""
	for _, token := range slices.Sorted(maps.Keys(granted)) {
		process, _, _ := strings.Cut(granted[token], "/")
		if process < last {
			t.Errorf("%s was served after %s", granted[token], last)
		}
		last = process
	}
	if len(granted) != processes/2*each {
		t.Errorf("%d grants", len(granted))
	}
	if _, r, err := first.tryAcquire(t.Context(), "crowd", time.Minute, time.Second); err != nil || !r.ok() {
		t.Errorf("afterwards the lease is not free: %v, %v", r, err)
	}
}

// TestStoppedGatewaysCostAWindow: two gateways whose requests wait are stopped. The requests of the third have the lease after
// a window for each; those of the two are served once they run again.
func TestStoppedGatewaysCostAWindow(t *testing.T) {
	s := testServers(t)
	var gateways []*program
	for range 4 {
		gateways = append(gateways, startServe(t, s))
	}
	c := gateways[0].client()
	held := c.acquire("stopped", time.Minute)
	one := startWaiters(t, gateways[1], "stopped", "one", 5, 5)
	two := startWaiters(t, gateways[2], "stopped", "two", 5, 10)
	three := startWaiters(t, gateways[3], "stopped", "three", 5, 15)
	for _, g := range gateways[1:3] {
		stopProcess(t, g.cmd.Process)
	}
	began := time.Now()
	c.release("stopped", held)
	granted := map[int64]string{}
	served(t, three, 5, granted)
	if took := time.Since(began); took < 2*window-50*time.Millisecond || took > 2*window+3*time.Second {
		t.Errorf("two stopped gateways cost %v", took)
	}
	for _, g := range gateways[1:3] {
		if err := g.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	served(t, one, 5, granted)
	served(t, two, 5, granted)
}

func stopProcess(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Signal(syscall.SIGCONT) })
	eventually(t, "the process has stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
		if err != nil {
			return true // another system: the signal has to do
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(after, "T")
	})
}

// TestLeftQueueAtOnce: a client that hangs up is not waited for.
func TestLeftQueueAtOnce(t *testing.T) {
	s := testServers(t)
	a, b := startServe(t, s), startServe(t, s)
	held := a.client().acquire("left", time.Minute)
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, _, err := b.client().tryAcquire(ctx, "left", time.Minute, time.Hour)
		gone <- err
	}()
	eventually(t, "it waits", func() bool { return queueLength(t, a, "left") == 1 })
	hangUp()
	if err := <-gone; err == nil {
		t.Fatal("it was answered")
	}
	eventually(t, "it has left", func() bool { return queueLength(t, a, "left") == 0 })
	a.client().release("left", held)
	if _, r, err := b.client().tryAcquire(t.Context(), "left", time.Minute, 0); err != nil || !r.ok() {
		t.Errorf("the lease is not free: %v, %v", r, err)
	}
}

// TestNoLeaseSurvivesItsRelease: whatever races a release, renewals, repetitions, breaks and waiters at several gateways, no key of a
// lease is left after twice its TTL.
func TestNoLeaseSurvivesItsRelease(t *testing.T) {
	const ttl = 400 * time.Millisecond
	s := testServers(t)
	gateways := []*program{startServe(t, s), startServe(t, s)}
	redis := redisClient(t, s.redis)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 25 {
				c := gateways[(i+n)%2].client()
				other := gateways[(i+n+1)%2].client()
				name := fmt.Sprint("gone/", n%3)
				g, r, err := c.tryAcquire(t.Context(), name, ttl, patience/2)
				if err != nil || !r.ok() {
					t.Errorf("acquire: %v, %v", r, err)
					return
				}
				var racing sync.WaitGroup
				racing.Go(func() {
					_, _ = other.try(t.Context(), http.MethodPut, "/v1/leases/"+url.PathEscape(name), nil, "X-Lease-Id", g.ID)
				})
				if n%4 == 0 {
					racing.Go(func() {
						_, _ = other.try(t.Context(), http.MethodPost, "/v1/leases/"+url.PathEscape(name)+"/break", nil)
					})
				}
				via := c
				if n%2 == 0 {
					via = other
				}
				if r, err := via.try(t.Context(), http.MethodDelete, "/v1/leases/"+url.PathEscape(name), nil, "X-Lease-Id", g.ID); err != nil || !r.ok() && r.code() != "lease-lost" {
					t.Errorf("release: %v, %v", r, err)
				}
				racing.Wait()
			}
		})
	}
	wg.Wait()
	over := time.Now().Add(2 * ttl)
	var left []string
	for {
		all, err := redis.Keys(t.Context(), "*{*}").Result()
		if err != nil {
			t.Fatal(err)
		}
		left = nil
		for _, key := range all {
			if strings.Contains(key, "Z29uZS") { // gone/
				left = append(left, key)
			}
		}
		if len(left) == 0 || time.Now().After(over) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(left) > 0 {
		t.Errorf("%v are left after two TTLs", left)
	}
}
