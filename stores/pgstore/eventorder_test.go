package pgstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// tell inserts an event, as old as that, into a transaction of its own.
func tell(t testing.TB, tx pgx.Tx, token int64, age time.Duration) {
	t.Helper()
	if _, err := tx.Exec(context.Background(), "INSERT INTO fence.events (at, kind, lease, principal, token) VALUES (clock_timestamp() - $1::interval, 'refused', 'l', 'p', $2)", age, token); err != nil {
		t.Error(err)
	}
}

func (w *world) begin() pgx.Tx {
	w.t.Helper()
	tx, err := w.connect().Begin(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return tx
}

func tokensOf(events []fence.Event) (all []int64) {
	for _, e := range events {
		all = append(all, int64(e.Token))
	}
	return all
}

// An event appears although a transaction before it is open, and what that one tells appears behind it, once.
func TestEventBehindAnOpenTransaction(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	const old = 2 * time.Second
	early, foreign, late := w.begin(), w.begin(), w.begin()
	defer foreign.Rollback(ctx)
	tell(t, early, 1, old)
	tell(t, early, 2, old)
	if _, err := foreign.Exec(ctx, "SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	tell(t, late, 3, -time.Hour) // young for as long as the test wants
	if err := late.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if held, _, err := w.Events(ctx, "", 10); err != nil || len(held) != 0 {
		t.Fatalf("told before what stands before it: %v %v", tokensOf(held), err)
	}
	later := w.begin()
	tell(t, later, 4, old)
	if err := later.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if held, _, err := w.Events(ctx, "", 10); err != nil || len(held) != 0 {
		t.Fatalf("told before one that is held back: %v %v", tokensOf(held), err)
	}
	w.exec("UPDATE fence.events SET at = now() - interval '2 seconds' WHERE token = 3")
	told := w.eventsAfter("", 2)
	if got := tokensOf(told); !slices.Equal(got, []int64{3, 4}) {
		t.Fatalf("told %v", got)
	}
	last, err := w.LastEvent(ctx)
	if err != nil || last != told[1].Position {
		t.Errorf("last %q, want %q: %v", last, told[1].Position, err)
	}
	if err := early.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	for after, want := range map[string][]int64{
		"":               {1, 2, 3, 4},
		told[0].Position: {1, 2, 4},
		told[1].Position: {1, 2},
	} {
		got := w.eventsAfter(after, len(want)) // all at once
		if !slices.Equal(tokensOf(got), want) {
			t.Errorf("behind %q: %v, want %v", after, tokensOf(got), want)
		}
		// And one by one, of which each goes on where the one before was.
		var single []int64
		for next := after; len(single) < len(want); {
			e := w.eventsAfter(next, 1)[0]
			single, next = append(single, int64(e.Token)), e.Position
		}
		if !slices.Equal(single, want) {
			t.Errorf("behind %q, one by one: %v, want %v", after, single, want)
		}
	}
}

// A position has its length, however many transactions are open: more than it can name hold up what stands behind them.
func TestEventsBehindManyOpenTransactions(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	// Each has a subtransaction of its own, which is not one of those that are open.
	const open = 40
	var txs []pgx.Tx
	for range open {
		tx := w.begin()
		defer tx.Rollback(ctx)
		if _, err := tx.Exec(ctx, "SELECT pg_current_xact_id(); SAVEPOINT s; CREATE TEMP TABLE s ()"); err != nil {
			t.Fatal(err)
		}
		txs = append(txs, tx)
	}
	tx := w.begin()
	tell(t, tx, 1, 2*time.Second)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	e := w.eventsAfter("", 1)[0]
	if names := strings.Count(e.Position, "-")/2 - 1; names < open || names > 2*open || len(e.Position) > 100*18 {
		t.Errorf("%d open transactions in %q", names, e.Position)
	}
	tell(t, txs[7], 7, 2*time.Second)
	if err := txs[7].Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got := w.eventsAfter(e.Position, 1)[0]; got.Token != 7 {
		t.Errorf("told %d", got.Token)
	}
}

// Whatever commits in whatever order, whoever goes on behind whichever event reads every event once.
func TestEventsThatCommitOutOfOrder(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	foreign := w.begin() // somebody else's, open for long
	defer foreign.Rollback(ctx)
	if _, err := foreign.Exec(ctx, "SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	var (
		writers, readers sync.WaitGroup
		next, committed  atomic.Int64
		over             atomic.Bool
	)
	for i := range 6 {
		conn, rng := w.connect(), rand.New(rand.NewPCG(seed, uint64(i)))
		writers.Go(func() {
			for range 60 {
				committed.Add(writeEvents(t, conn, rng, &next))
			}
		})
	}
	writers.Go(func() {
		for i := range 40 {
			w.grant("leased", "p", fmt.Sprint(i))
			if _, err := w.End(ctx, "leased", fence.GrantRef{Newest: true}, fence.Ending{Why: fence.EndReleased}); err != nil {
				t.Error(err)
			}
			committed.Add(2)
		}
	})
	logs := make([][]fence.Event, 4)
	for i := range logs {
		rng := rand.New(rand.NewPCG(seed, uint64(100+i)))
		readers.Go(func() {
			logs[i] = w.follow(rng, i > 0, func(seen int) bool { return over.Load() && seen == int(committed.Load()) })
		})
	}
	writers.Wait()
	// Told, although the transaction is open still.
	told := w.eventsAfter("", int(committed.Load()))
	if err := foreign.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	over.Store(true)
	readers.Wait()
	for i, log := range append(logs, told) {
		checkLog(t, fmt.Sprint("reader ", i), log, int(committed.Load()))
	}
}

// writeEvents tells a few events in a transaction, stays in it for a while, and returns how many it committed.
func writeEvents(t *testing.T, conn *pgx.Conn, rng *rand.Rand, next *atomic.Int64) int64 {
	ctx := context.Background()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer tx.Rollback(ctx)
	n := 1 + rng.Int64N(3)
	for range n {
		age := 2 * time.Second
		if rng.IntN(4) == 0 {
			age = 0
		}
		tell(t, tx, next.Add(1), age)
		time.Sleep(time.Duration(rng.IntN(5000)) * time.Microsecond)
	}
	if rng.IntN(5) == 0 {
		return 0
	}
	if err := tx.Commit(ctx); err != nil {
		t.Error(err)
		return 0
	}
	return n
}

// follow reads events in pages of random length until it is done. If it jumps, it forgets now and then what it has read
// behind some event, and goes on there.
func (w *world) follow(rng *rand.Rand, jumps bool, done func(seen int) bool) (log []fence.Event) {
	for end := time.Now().Add(30 * time.Second); !done(len(log)) && time.Now().Before(end); {
		after := ""
		if jumps && len(log) > 0 && rng.IntN(10) == 0 {
			log = log[:len(log)-min(rng.IntN(30), len(log))]
		}
		if len(log) > 0 {
			after = log[len(log)-1].Position
		}
		page, gone, err := w.Events(context.Background(), after, 1+rng.IntN(5))
		if err != nil || gone {
			w.t.Errorf("behind %q: gone %v, %v", after, gone, err)
			return log
		}
		if log = append(log, page...); len(page) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return log
}

func checkLog(t *testing.T, who string, log []fence.Event, want int) {
	t.Helper()
	seen := map[int64]int{}
	var leased []fence.Event
	for _, e := range log {
		if e.Lease == "leased" {
			leased = append(leased, e)
		} else {
			seen[int64(e.Token)]++
		}
	}
	for token, n := range seen {
		if n != 1 {
			t.Errorf("%s was told %d times of %d", who, n, token)
		}
	}
	if len(log) != want {
		t.Errorf("%s was told of %d events, want %d", who, len(log), want)
	}
	for i, e := range leased {
		switch {
		case i%2 == 0 && e.Kind == fence.EventGranted && (i == 0 || e.First > leased[i-1].First):
		case i%2 == 1 && e.Kind == fence.EventReleased && e.First == leased[i-1].First:
		default:
			t.Fatalf("%s was told of event %d of a lease: %s of %d, after %d", who, i, e.Kind, e.First, leased[max(0, i-1)].First)
		}
	}
}
