package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// TestLockers: a lease passes from a gateway to another one in the order of the queue, whatever keeps it, and a broken holder
// learns of it. What is promised of tokens does not depend on it: the ledger certifies.
func TestLockers(t *testing.T) {
	for name, args := range map[string]func(t *testing.T) []string{
		"Redis":    func(*testing.T) []string { return nil },
		"Postgres": func(*testing.T) []string { return []string{"--locker=postgres"} },
		"Etcd":     func(t *testing.T) []string { return []string{"--locker=etcd", "--etcd-url=" + testenv.Etcd(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testServers(t)
			flags := args(t)
			a, b := startServe(t, s, flags...), startServe(t, s, flags...)
			first := a.client().acquire("passed", time.Minute)
			granted := make(chan grant, 1)
			go func() {
				g, _, _ := b.client().tryAcquire(context.WithoutCancel(t.Context()), "passed", time.Minute, patience/2)
				granted <- g
			}()
			eventually(t, "the second waits", func() bool { return queueLength(t, a, "passed") == 1 })
			// Through the gateway that did not make it.
			b.client().release("passed", first)
			second := <-granted
			if second.Token <= first.Token {
				t.Fatalf("granted %d after %d", second.Token, first.Token)
			}
			c := a.client()
			c.must(c.try(t.Context(), http.MethodPost, "/v1/leases/passed/break", nil)).want(t, "")
			r := c.must(c.try(t.Context(), http.MethodPut, "/v1/leases/passed", nil, "X-Lease-Id", second.ID))
			r.want(t, "lease-lost")
			third := c.acquire("passed", time.Minute)
			c.release("passed", third)
		})
	}
}
