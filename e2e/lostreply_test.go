package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// lose sends a request whose reply is lost after the gateway has decided.
func lose(t *testing.T, c *cutter, w *wire, method, path, body string, headers ...string) {
	t.Helper()
	p := c.loseReply()
	if r, err := w.try(t.Context(), method, path, body, headers...); err == nil {
		t.Fatalf("the reply arrived: %v", r)
	}
	p.happened(t)
}

// TestLostReplyOfAcquire (I7): the same acquire id finds its grant again, and only while it is good.
func TestLostReplyOfAcquire(t *testing.T) {
	direct, _ := shared(t)
	c, w := cutHTTP(t, direct)
	const body = `{"acquire_id":"attempt 1","ttl":"1m","holder":"worker-a"}`
	lose(t, c, w, "POST", "/v1/leases/wallet:1", body)
	w.refused(409, "lease-held", "POST", "/v1/leases/wallet:1", `{"acquire_id":"attempt 2"}`)
	first := holdingOf(t, w.want(201, "POST", "/v1/leases/wallet:1", body))
	if again := holdingOf(t, w.want(201, "POST", "/v1/leases/wallet:1", body)); again.ID != first.ID || again.Token != first.Token || again.TokenLast != first.TokenLast {
		t.Fatalf("got %+v, first %+v", again, first)
	}
	w.refused(400, "invalid-request", "POST", "/v1/leases/wallet:1", `{"acquire_id":"attempt 1","ttl":"1m","holder":"worker-b"}`)
	w.refused(400, "invalid-request", "POST", "/v1/leases/wallet:1", `{"acquire_id":"attempt 1","ttl":"2m","holder":"worker-a"}`)
	w.want(200, "PATCH", "/v1/rows/wallets/1", `{"balance":1}`, first.token(0))

	lose(t, c, w, "DELETE", leasePath(first.Name), "", first.id())
	w.release(first) // again
	w.refused(412, "grant-ended", "POST", "/v1/leases/wallet:1", body)
	next := w.acquire("wallet:1")
	w.refused(409, "lease-lost", "DELETE", leasePath(first.Name), "", first.id())
	w.release(next)
	// Somebody else's grant came in between: the id is new again.
	if g := holdingOf(t, w.want(201, "POST", "/v1/leases/wallet:1", body)); g.Token <= next.Token || g.ID == first.ID {
		t.Fatalf("got %+v after %+v", g, next)
	}
}

// TestLostReplyOfRenewAndTokens (I7): repeating either does no harm.
func TestLostReplyOfRenewAndTokens(t *testing.T) {
	direct, _ := shared(t)
	c, w := cutHTTP(t, direct)
	g := w.acquire("wallet:1")
	lose(t, c, w, "PUT", leasePath(g.Name), `{"ttl":"1m"}`, g.id())
	w.want(200, "PUT", leasePath(g.Name), `{"ttl":"1m"}`, g.id())
	lose(t, c, w, "POST", leasePath(g.Name)+"/tokens", "", g.id())
	more := holdingOf(t, w.want(200, "POST", leasePath(g.Name)+"/tokens", "", g.id()))
	if more.Token != g.Token || more.TokenLast <= g.TokenLast {
		t.Fatalf("got %+v", more)
	}
	w.want(200, "PATCH", "/v1/rows/wallets/1", `{"balance":1}`, fmt.Sprintf("X-Fence-Token: %d", more.TokenLast))
}

// TestLostReplyOfWrite (I7, I5): the same request with the same token is told that it was accepted, also after the
// grant has passed on, and changes nothing a second time.
func TestLostReplyOfWrite(t *testing.T) {
	direct, s := shared(t)
	c, w := cutHTTP(t, direct)
	for name, tt := range map[string]struct {
		method, path, lease, body string
		status                    int
		applied                   string
	}{
		"Patch":     {"PATCH", "/v1/rows/wallets/1", "wallet:1", `{"balance":7}`, 200, "SELECT count(*)::text FROM changes WHERE id = 1"},
		"Insert":    {"PUT", "/v1/rows/wallets/900", "wallet:900", `{"balance":7}`, 201, "SELECT count(*)::text FROM changes WHERE id = 900"},
		"Replace":   {"PUT", "/v1/rows/wallets/2", "wallet:2", `{"balance":7}`, 200, "SELECT count(*)::text FROM changes WHERE id = 2"},
		"PutObject": {"PUT", "/v1/objects/reports/a", "report:a", "body", 201, "SELECT count(*)::text FROM flips WHERE key = 'a'"},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			g := w.acquire(tt.lease)
			lose(t, c, w, tt.method, tt.path, tt.body, g.token(0))
			again := func() {
				t.Helper()
				if r := w.want(tt.status, tt.method, tt.path, tt.body, g.token(0)); !r.replayed() {
					t.Fatalf("not replayed: %v", r)
				}
			}
			again()
			// The token is spent: another body is another request.
			w.refusedWith(g.Token, 412, "spent-token", tt.method, tt.path, `{"balance":8}`, g.token(0))
			w.release(g)
			again()
			next := w.acquire(tt.lease)
			again()
			w.refusedWith(g.Token, 412, "stale-token", tt.method, tt.path, `{"balance":9}`, g.token(1))
			if got := queryText(t, s.database, tt.applied); got != "1" {
				t.Fatalf("applied %s times", got)
			}
			if got := w.want(200, "GET", tt.path, "").header.Get("X-Fence-Token"); got != fmt.Sprint(g.Token) {
				t.Fatalf("the mark is %s", got)
			}
			// The successor has written: now the mark has passed.
			w.do(tt.method, tt.path, `{"balance":10}`, next.token(0))
			w.refusedWith(next.Token, 412, "stale-token", tt.method, tt.path, tt.body, g.token(0))
		})
	}
	t.Run("Delete", func(t *testing.T) {
		w := w.in(t)
		for path, lease := range map[string]string{"/v1/rows/wallets/3": "wallet:3", "/v1/objects/reports/d": "report:d"} {
			g := w.acquire(lease)
			if lease == "report:d" {
				w.want(201, "PUT", path, "x", g.token(0))
			}
			lose(t, c, w, "DELETE", path, "", g.token(1))
			if r := w.want(204, "DELETE", path, "", g.token(1)); !r.replayed() {
				t.Fatalf("not replayed: %v", r)
			}
			w.refusedWith(g.Token+1, 404, "not-found", "GET", path, "")
		}
	})
}

// TestLostTransaction (I7, I5): the gateway loses PostgreSQL's answer. It says that it does not know, and the same
// request with the same token settles it: replayed when the transaction had been committed, carried out when it had
// never arrived; applied once in either case.
func TestLostTransaction(t *testing.T) {
	direct := ledger(t)
	c, through := cutPostgres(t, direct)
	w := serveWallets(t, servers{database: through, redis: testenv.Redis(t)})
	g, object := w.acquire("wallet:1"), w.acquire("report:a")
	w.want(200, "PATCH", "/v1/rows/wallets/1", `{"balance":0}`, g.token(0))
	w.want(201, "PUT", "/v1/objects/reports/a", "0", object.token(0))
	n := int64(1)
	for name, before := range map[string]bool{"AfterCommit": false, "BeforeArrival": true} {
		// settle repeats a request whose outcome the gateway did not know.
		settle := func(t *testing.T, send func() response, read func() string, was, is string) {
			t.Helper()
			r := send()
			r.refusal(t, 503, "outcome-unknown")
			want := is
			if before {
				want = was
			}
			if got := read(); got != want {
				t.Fatalf("after the cut it is %s, want %s", got, want)
			}
			if r = send(); r.status != 200 || r.replayed() == before {
				t.Fatalf("repeated: %v", r)
			}
			if got := read(); got != is {
				t.Fatalf("after the repetition it is %s", got)
			}
			if r = send(); r.status != 200 || !r.replayed() {
				t.Fatalf("repeated once more: %v", r)
			}
		}
		t.Run(name+"/Row", func(t *testing.T) {
			w := w.in(t)
			n++
			body := fmt.Sprintf(`{"balance":%d.5}`, n)
			p := c.loseTransaction(body, before)
			read := func() string { return queryText(t, direct, "SELECT balance::text FROM wallets WHERE id = 1") }
			settle(t, func() response { return w.do("PATCH", "/v1/rows/wallets/1", body, g.token(n)) }, read, read(), fmt.Sprintf("%d.5", n))
			p.happened(t)
			if got := queryText(t, direct, "SELECT count(*)::text FROM changes WHERE balance = $1::text::numeric", fmt.Sprintf("%d.5", n)); got != "1" {
				t.Fatalf("applied %s times", got)
			}
		})
		t.Run(name+"/Object", func(t *testing.T) {
			w := w.in(t)
			n++
			// The header is kept in the pointer, so it passes by in the transaction that flips it.
			marker := fmt.Sprintf("flip-%d", n)
			p := c.loseTransaction(marker, before)
			read := func() string { return w.want(200, "GET", "/v1/objects/reports/a", "").body }
			settle(t, func() response {
				return w.do("PUT", "/v1/objects/reports/a", marker, object.token(n), "X-Meta-Marker: "+marker)
			}, read, read(), marker)
			p.happened(t)
			if got := queryText(t, direct, "SELECT count(*)::text FROM flips WHERE sha256 = sha256(convert_to($1, 'UTF8'))", marker); got != "1" {
				t.Fatalf("published %s times", got)
			}
		})
		t.Run(name+"/MarkHasPassed", func(t *testing.T) {
			w := w.in(t)
			n += 2
			body := fmt.Sprintf(`{"balance":%d.25}`, n)
			p := c.loseTransaction(body, before)
			r := w.do("PATCH", "/v1/rows/wallets/1", body, g.token(n-1))
			r.refusal(t, 503, "outcome-unknown")
			p.happened(t)
			w.want(200, "PATCH", "/v1/rows/wallets/1", `{"owner":"bob"}`, g.token(n))
			w.refusedWith(g.Token+n, 412, "stale-token", "PATCH", "/v1/rows/wallets/1", body, g.token(n-1))
		})
		// Certifying a grant is settled by the gateway itself: it can repeat the acquire.
		t.Run(name+"/Acquire", func(t *testing.T) {
			w := w.in(t)
			p := c.loseTransaction("holder-"+name, before)
			held := w.acquire("wallet:2", `"holder":"holder-`+name+`"`)
			p.happened(t)
			w.want(200, "PATCH", "/v1/rows/wallets/2", `{"balance":1}`, held.token(0))
			w.release(held)
		})
	}
}

// TestLostTransactionThatStillRuns (I5, I7): the first attempt waits for a lock when the gateway loses PostgreSQL, and is
// repeated before it is decided. The repetition waits for it and is told that it was accepted.
func TestLostTransactionThatStillRuns(t *testing.T) {
	direct := ledger(t)
	c, through := cutPostgres(t, direct)
	w := serveWallets(t, servers{database: through, redis: testenv.Redis(t)})
	g := w.acquire("wallet:1")
	conn := connect(t, direct)
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM wallets WHERE id = 1 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	const body = `{"balance":77}`
	// The gateway's driver asks the server to cancel what it no longer hears of; that is lost too.
	const cancelRequest = "\x04\xd2\x16\x2e"
	p := c.set(&cut{marker: body, atOnce: true, then: &cut{marker: cancelRequest, before: true}})
	r := w.do("PATCH", rowPath1, body, g.token(0))
	r.refusal(t, 503, "outcome-unknown")
	p.happened(t)
	waiting := func(n string) func() bool {
		return func() bool {
			return queryText(t, direct, "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") == n
		}
	}
	within(t, patience, "the first attempt waits", waiting("1"))
	again := w.start("PATCH", rowPath1, body, g.token(0))
	within(t, patience, "both attempts wait", waiting("2"))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := again(); r.status != 200 || !r.replayed() {
		t.Fatalf("got %v", r)
	}
	if got := queryText(t, direct, "SELECT count(*)::text FROM changes WHERE balance = 77"); got != "1" {
		t.Fatalf("applied %s times", got)
	}
}
