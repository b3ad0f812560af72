package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
)

// voidRounds is how often each race is run over HTTP; seal_test.go of the ledger runs many more of them.
const voidRounds = 120

// TestNoWriteCommitsAfterItsTokenIsVoid (I2): a holder writes as fast as it can while its grant is voided. Once the
// call that voids it has returned, nothing changes any more, whatever the holder is answered later.
func TestNoWriteCommitsAfterItsTokenIsVoid(t *testing.T) {
	server := testenv.RedisServer(t)
	s := servers{database: ledger(t), redis: server.URL()}
	w := serveWallets(t, s)
	w.client = keepAlive(t)
	client := redisClient(t, server.URL())
	for name, tt := range map[string]struct {
		row, object string
		void        func(w *wire, g holding) (response, error)
		code        string
	}{
		"Released": {"1", "a", func(w *wire, g holding) (response, error) {
			return w.try(w.t.Context(), "DELETE", leasePath(g.Name), "", g.id())
		}, "grant-ended"},
		"Superseded": {"2", "b", func(w *wire, g holding) (response, error) {
			if err := client.FlushAll(w.t.Context()).Err(); err != nil {
				return response{}, err
			}
			return w.try(w.t.Context(), "POST", leasePath(g.Name), `{"wait":"10s","holder":"successor"}`)
		}, "stale-token"},
	} {
		t.Run(name, func(t *testing.T) {
			raced, accepted := 0, 0
			for round := range voidRounds {
				path, lease := "/v1/rows/wallets/"+tt.row, "wallet:"+tt.row
				if round%4 == 3 {
					path, lease = "/v1/objects/reports/"+tt.object, "report:"+tt.object
				}
				r := raceVoid(t, w.in(t), client, lease, path, tt.void)
				accepted += r.accepted
				if r.accepted > 0 && r.refused[tt.code] > 0 {
					raced++
				}
			}
			t.Logf("%d of %d rounds raced, %d writes were accepted", raced, voidRounds, accepted)
			if raced < voidRounds/10 {
				t.Fatalf("only %d of %d rounds had writes on both sides of the void", raced, voidRounds)
			}
		})
	}
}

// raceOutcome counts the answers to the holder's writes.
type raceOutcome struct {
	accepted int
	refused  map[string]int
}

func raceVoid(t *testing.T, w *wire, client *redis.Client, lease, path string, void func(*wire, holding) (response, error)) raceOutcome {
	t.Helper()
	mustRedis(t, client.FlushAll(t.Context()).Err())
	g := w.acquire(lease, `"wait":"10s"`)
	method := "PATCH"
	if path[:len("/v1/objects")] == "/v1/objects" {
		method = "PUT"
	}
	const writers, each = 2, 12
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		out   = raceOutcome{refused: map[string]int{}}
	)
	for writer := range int64(writers) {
		group.Go(func() {
			for n := range int64(each) {
				token := n*writers + writer
				r, err := w.try(t.Context(), method, path, fmt.Sprintf(`{"balance":%d}`, g.Token+token), g.token(token))
				mu.Lock()
				if err != nil {
					t.Error(err)
				} else if r.ok() {
					out.accepted++
				} else if first := fmt.Sprint(r.problem()["first_token"]); r.code() != "stale-token" || first != fmt.Sprint(g.Token) {
					out.refused[r.code()]++
				} // else the holder's other writer was faster, and the token is below the mark
				mu.Unlock()
			}
		})
	}
	pause(time.Duration(rand.IntN(30_000)) * time.Microsecond)
	voided, err := void(w, g)
	after := stateOf(t, w, path)
	group.Wait()
	if err != nil || !voided.ok() {
		t.Fatalf("void: %v, %v", voided, err)
	}
	if end := stateOf(t, w, path); end != after {
		t.Fatalf("after the grant of %d was void, %s went from %s to %s", g.Token, path, after, end)
	}
	for code := range out.refused {
		if code != "stale-token" && code != "grant-ended" {
			t.Fatalf("refused with %s: %v", code, out.refused)
		}
	}
	return out
}

// stateOf is body and mark of a resource.
func stateOf(t *testing.T, w *wire, path string) string {
	t.Helper()
	r, err := w.try(context.WithoutCancel(t.Context()), "GET", path, "")
	if err != nil || r.status != 200 && r.status != 404 {
		t.Fatalf("got %v, %v", r, err)
	}
	if r.status == 404 {
		return "nothing, mark " + r.header.Get("X-Fence-Token")
	}
	return r.body + ", mark " + r.header.Get("X-Fence-Token")
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// TestConcurrentWritesUnderOnePrecondition (I1, I5): of writes that all saw the same mark exactly one is accepted, and
// the others change nothing.
func TestConcurrentWritesUnderOnePrecondition(t *testing.T) {
	w, _ := shared(t)
	w.client = keepAlive(t)
	for _, path := range []string{"/v1/rows/wallets/1", "/v1/objects/reports/a"} {
		method, lease := "PATCH", "wallet:1"
		if path == "/v1/objects/reports/a" {
			method, lease = "PUT", "report:a"
		}
		t.Run(method, func(t *testing.T) {
			w := w.in(t)
			g := w.acquire(lease)
			if r := w.do(method, path, `{"balance":0}`, g.token(0)); !r.ok() {
				t.Fatalf("got %v", r)
			}
			for round := range int64(60) {
				seen := w.mark(path)
				const writers = 4
				answers := make([]func() response, writers)
				for i := range answers {
					n := 1 + round*writers + int64(i)
					answers[i] = w.start(method, path, fmt.Sprintf(`{"balance":%d}`, n), g.token(n), fmt.Sprintf(`If-Match: "%d"`, seen))
				}
				var won []response
				for _, answer := range answers {
					switch r := answer(); {
					case r.ok():
						won = append(won, r)
					case r.code() != "precondition-failed" && r.code() != "stale-token":
						t.Fatalf("got %v", r)
					}
				}
				if len(won) != 1 || won[0].replayed() {
					t.Fatalf("%d of %d writes with If-Match %d were accepted: %v", len(won), writers, seen, won)
				}
				if got := fmt.Sprint(w.mark(path)); got != won[0].header.Get("X-Fence-Token") {
					t.Fatalf("the mark is %s after %v", got, won[0])
				}
			}
		})
	}
}

// TestConcurrentCopiesOfOneWrite (I5, I7): one copy is accepted, every other one is told that it was, and the data
// changes once.
func TestConcurrentCopiesOfOneWrite(t *testing.T) {
	w, s := shared(t)
	w.client = keepAlive(t)
	const rounds, copies = 60, 4
	for name, tt := range map[string]struct{ method, path, lease, applied string }{
		"Patch":  {"PATCH", "/v1/rows/wallets/1", "wallet:1", "SELECT count(*)::text FROM changes WHERE id = 1"},
		"PutRow": {"PUT", "/v1/rows/wallets/777", "wallet:777", "SELECT count(*)::text FROM changes WHERE id = 777"},
		"Object": {"PUT", "/v1/objects/reports/a", "report:a", "SELECT count(*)::text FROM flips WHERE key = 'a'"},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			g := w.acquire(tt.lease)
			for n := range int64(rounds) {
				answers := make([]func() response, copies)
				for i := range answers {
					answers[i] = w.start(tt.method, tt.path, fmt.Sprintf(`{"balance":%d}`, n), g.token(n))
				}
				first, statuses := 0, map[int]bool{}
				for _, answer := range answers {
					r := answer()
					if !r.ok() {
						t.Fatalf("got %v", r)
					}
					statuses[r.status] = true
					if !r.replayed() {
						first++
					}
				}
				if first != 1 || len(statuses) != 1 {
					t.Fatalf("round %d: %d copies were answered as the first, with statuses %v", n, first, statuses)
				}
			}
			if got := queryText(t, s.database, tt.applied); got != fmt.Sprint(rounds) {
				t.Fatalf("%d writes were applied %s times", rounds, got)
			}
		})
	}
}
