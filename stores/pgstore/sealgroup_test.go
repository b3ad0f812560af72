package pgstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// TestSealedAtGrantInGroups is TestSealedAtGrant of many leases at once, whose grants and ends are committed together.
func TestSealedAtGrantInGroups(t *testing.T) {
	w := newWorld(t)
	violations, written := raceMany(t, w, 40)
	if violations > 0 {
		t.Errorf("I2: %d voided grants wrote afterwards", violations)
	}
	if t.Logf("%d writes committed", written); written < 40 {
		t.Errorf("only %d writes committed", written)
	}
	groups := w.text("SELECT count(*)::text || ' of ' || (SELECT count(DISTINCT xid) FROM fence.events) FROM (SELECT FROM fence.events GROUP BY xid HAVING count(DISTINCT lease) > 1) g")
	if t.Logf("%s commits were of several leases", groups); groups[0] == '0' {
		t.Error("nothing was grouped")
	}
	if disordered := w.disorderedLeases(); disordered != "0" {
		t.Errorf("%s events of a lease do not stand in its order", disordered)
	}
}

// disorderedLeases counts the grants that stand before an older one of their lease among the events.
func (w *world) disorderedLeases() string {
	return w.text(`SELECT count(*)::text FROM (SELECT first < lag(first) OVER (PARTITION BY lease ORDER BY xid, id) AS wrong FROM fence.events WHERE kind = 'granted') e WHERE wrong`)
}

// TestSealInGroupsCanBreak shows that the race finds groups that lock nothing.
func TestSealInGroupsCanBreak(t *testing.T) {
	w := newWorld(t)
	w.mutate("fence.settle", "WHERE pg_try_advisory_xact_lock(l.lock)", "")
	if violations, _ := raceMany(t, w, 40); violations == 0 {
		t.Error("the race found no violation")
	} else {
		t.Logf("%d voided grants wrote afterwards", violations)
	}
}

// A transaction that tells of a lease has the lease's lock before it has its xid, so that what it tells stands behind what
// the transaction told that had the lock before.
func TestLocksComeBeforeTheXID(t *testing.T) {
	w := newWorld(t)
	w.mutate("fence.lock_lease", "RETURN pg_try", "ASSERT pg_current_xact_id_if_assigned() IS NULL; RETURN pg_try")
	w.mutate("fence.lock_lease", "PERFORM pg_advisory_xact_lock(", "ASSERT pg_current_xact_id_if_assigned() IS NULL; PERFORM pg_advisory_xact_lock(")
	w.mutate("fence.settle", "WHERE pg_try_advisory_xact_lock(l.lock)", "WHERE pg_try_advisory_xact_lock(l.lock) AND pg_current_xact_id_if_assigned() IS NULL")
	g := w.grant("alone", "p", "1")
	if _, err := w.End(t.Context(), "alone", fence.GrantRef{ID: g.ID, Principal: "p"}, fence.Ending{Why: fence.EndReleased}); err != nil {
		t.Fatal(err)
	}
	land := w.HoldFlight()
	first, second := w.certifying(t.Context(), "group/1", "p"), w.certifying(t.Context(), "group/2", "p")
	w.awaitQueue(2)
	land()
	wantCode(t, (<-first).err, fence.CodeAccepted)
	wantCode(t, (<-second).err, fence.CodeAccepted)
	if n := w.commits("group/"); n != "1" { // else they have been left out and have gone alone
		t.Errorf("%s commits", n)
	}
}

// mutate changes the text of a function of the ledger.
func (w *world) mutate(function, from, to string) {
	w.t.Helper()
	text := w.text("SELECT replace(pg_get_functiondef($1::regproc), $2, $3)", function, from, to)
	if text == w.text("SELECT pg_get_functiondef($1::regproc)", function) {
		w.t.Fatalf("nothing to replace in %s", function)
	}
	w.exec(text)
}

// raceMany plays the rounds of race for eight leases at once.
func raceMany(t *testing.T, w *world, rounds int) (violations, committed int64) {
	const leases = 8
	w.exec(fmt.Sprintf("INSERT INTO wallets SELECT n, 'p', 0 FROM generate_series(1, %d) n", leases))
	w.HoldFlight()() // one flight at a time, so that more are grouped
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var (
		wg             sync.WaitGroup
		found, written atomic.Int64
		conns          [leases][]*pgx.Conn
	)
	for i := range leases {
		conns[i] = []*pgx.Conn{w.connect(), w.connect(), w.connect()}
	}
	for i := range leases {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for round := range rounds {
				sealed, n, err := raceOnce(w, i+1, round, rng, conns[i])
				if err != nil {
					t.Error(err)
					return
				}
				if written.Add(int64(n)); !sealed {
					found.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return found.Load(), written.Load()
}

// raceOnce lets two writers write with the tokens of a grant while it is voided, and tells whether nothing was written
// afterwards. The last of the connections looks.
func raceOnce(w *world, id, round int, rng *rand.Rand, conns []*pgx.Conn) (sealed bool, committed int, err error) {
	ctx := context.Background()
	lease := fmt.Sprintf("wallet:%d", id)
	g, err := w.grantNext(ctx, lease, fmt.Sprint("a", round))
	if err != nil {
		return false, 0, err
	}
	var (
		wg      sync.WaitGroup
		written atomic.Int64
	)
	look := conns[len(conns)-1]
	for i, conn := range conns[:len(conns)-1] {
		before, inside := time.Duration(rng.IntN(3000))*time.Microsecond, float64(rng.IntN(3000))/1e6
		wg.Go(func() {
			time.Sleep(before)
			if commitWrite(ctx, conn, admitThenChange(id), int64(g.First())+int64(i), inside) {
				written.Add(1)
			}
		})
	}
	defer wg.Wait()
	time.Sleep(time.Duration(rng.IntN(4000)) * time.Microsecond)
	if round%2 == 0 {
		_, err = w.grantNext(ctx, lease, fmt.Sprint("b", round))
	} else {
		_, err = w.End(ctx, lease, fence.GrantRef{ID: g.ID, Principal: "p"}, fence.Ending{Why: fence.EndReleased})
	}
	if err != nil {
		return false, 0, err
	}
	var voided, end string
	balance := fmt.Sprintf("SELECT balance::text FROM wallets WHERE id = %d", id)
	if err := look.QueryRow(ctx, balance).Scan(&voided); err != nil {
		return false, 0, err
	}
	wg.Wait()
	err = look.QueryRow(ctx, balance).Scan(&end)
	return voided == end, int(written.Load()), err
}

// grantNext makes the next grant of a lease, for p.
func (w *world) grantNext(ctx context.Context, lease, acquire string) (*fence.Grant, error) {
	c := fence.Certificate{Lease: lease, Principal: "p", Holder: "p", Acquire: fence.AcquireDigest("p", acquire), TTL: 30e9}
	newest, err := w.Newest(ctx, lease)
	if err != nil {
		return nil, err
	}
	if newest != nil {
		c.Floor = newest.First()
	}
	return w.Certify(ctx, c)
}
