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

// TestSealedAtGrant races writes with what voids their tokens (a grant, a release, a break, an advance of the ledger) with random delays. After
// the call that voided a grant has returned, no write of it may commit (I2): the balance is a counter that each
// committed write raises, read when the call returned and again when all writes have ended.
func TestSealedAtGrant(t *testing.T) {
	w := newWorld(t)
	rounds := 1200 // for each way of voiding as many as TestSealCanBreak has, a third of which find its mistakes
	if testing.Short() || throughPgBouncer(t) {
		rounds = 150
	}
	violations, written := race(t, w, rounds, admitThenChange(42))
	if violations > 0 {
		t.Errorf("I2: %d of %d voided grants wrote afterwards", violations, rounds)
	}
	// Nothing was raced if the writers were all too late.
	if t.Logf("%d writes committed", written); written < rounds/10 {
		t.Errorf("only %d writes committed in %d rounds", written, rounds)
	}
}

// TestSealCanBreak shows that the race finds what only looks safe: without it TestSealedAtGrant would prove nothing.
func TestSealCanBreak(t *testing.T) {
	for name, sql := range map[string]string{
		"GrantJoinedWithoutALock": `UPDATE wallets SET balance = balance + 1 FROM fence.grants g, pg_sleep($2)
			WHERE id = 42 AND g.lease = 'wallet:42' AND g.ended_at IS NULL AND g.blocks @> $1::bigint`,
		"LockInTheSameStatement": `WITH l AS MATERIALIZED (SELECT pg_sleep($2), pg_advisory_xact_lock_shared(fence.lease_lock('wallet:42')))
			UPDATE wallets SET balance = balance + 1 FROM l, fence.grants g
			WHERE id = 42 AND g.lease = 'wallet:42' AND g.ended_at IS NULL AND g.blocks @> $1::bigint`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if v, _ := race(t, w, 300, writing{sql: sql}); v == 0 {
				t.Error("the race found no violation")
			} else {
				t.Logf("%d of 300 voided grants wrote afterwards", v)
			}
		})
	}
}

// writing is how a writer writes: one statement over its token ($1) and the seconds it takes ($2), which changes the data
// itself or lets the next one do so.
type writing struct{ sql, next string }

func admitThenChange(id int) writing {
	return writing{
		sql: fmt.Sprintf(`WITH a AS MATERIALIZED (SELECT code FROM fence.admit_row('public.wallets', NULL, NULL, NULL, '{%d}', $1, 'p', NULL, NULL, NULL))
			SELECT pg_sleep($2) FROM a WHERE code = 'accepted'`, id),
		next: fmt.Sprintf("UPDATE wallets SET balance = balance + 1 WHERE id = %d", id),
	}
}

// race plays rounds of: a grant, four writers with its tokens, and a call that voids it at a random moment. It returns
// how many grants wrote after they were void, and how many writes committed in all.
func race(t *testing.T, w *world, rounds int, by writing) (violations, committed int) {
	ctx := context.Background()
	const writers = 4
	conns := make([]*pgx.Conn, writers)
	for i := range conns {
		conns[i] = w.connect()
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds {
		g := w.grant("wallet:42", "p", fmt.Sprint("a", round))
		var (
			wg      sync.WaitGroup
			written atomic.Int64
		)
		for i, conn := range conns {
			token := g.First() + fence.Token(i)
			before, inside := time.Duration(rng.IntN(1500))*time.Microsecond, float64(rng.IntN(1000))/1e6
			wg.Go(func() {
				time.Sleep(before)
				if commitWrite(ctx, conn, by, int64(token), inside) {
					written.Add(1)
				}
			})
		}
		time.Sleep(time.Duration(rng.IntN(2500)) * time.Microsecond)
		switch round % 4 {
		case 0:
			w.grant("wallet:42", "p", fmt.Sprint("b", round))
		case 1:
			if _, err := w.End(ctx, "wallet:42", fence.GrantRef{ID: g.ID, Principal: "p"}, fence.Ending{Why: fence.EndReleased}); err != nil {
				t.Fatal(err)
			}
		case 2:
			if _, err := w.End(ctx, "wallet:42", fence.GrantRef{Newest: true}, fence.Ending{Why: fence.EndBroken}); err != nil {
				t.Fatal(err)
			}
		case 3:
			if _, err := w.Advance(ctx, 1, 5*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		voided := w.text("SELECT balance::text FROM wallets WHERE id = 42")
		wg.Wait()
		if end := w.text("SELECT balance::text FROM wallets WHERE id = 42"); end != voided {
			violations++
		}
		committed += int(written.Load())
	}
	return violations, committed
}

// commitWrite makes one write in a transaction of its own and reports whether it committed.
func commitWrite(ctx context.Context, conn *pgx.Conn, by writing, token int64, inside float64) bool {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return false
	}
	defer tx.Rollback(ctx)
	tag, err := tx.Exec(ctx, by.sql, token, inside)
	if err != nil || tag.RowsAffected() == 0 {
		return false
	}
	if by.next != "" {
		if _, err := tx.Exec(ctx, by.next); err != nil {
			return false
		}
	}
	return tx.Commit(ctx) == nil
}
