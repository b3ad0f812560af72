package pgstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/pgstore"
)

func TestAdvance(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	old := w.grant("wallet:42", "p", "a")
	w.grant("other", "p", "a")
	if _, err := w.End(ctx, "other", fence.GrantRef{Newest: true}, fence.Ending{Why: fence.EndReleased}); err != nil {
		t.Fatal(err)
	}
	_, err := w.WriteRow(ctx, patch("wallets", "42", `{"balance":1}`, old.First()))
	wantCode(t, err, fence.CodeAccepted)
	if n, all, err := w.LiveGrants(ctx); err != nil || n != 1 || !all {
		t.Errorf("%d live grants, all %v: %v", n, all, err)
	}
	const blocks = 1000
	done, err := w.Advance(ctx, blocks, time.Second)
	if err != nil || done.Ended != 1 {
		t.Fatalf("%+v %v", done, err)
	}
	if why := w.text("SELECT string_agg(lease || ' ' || ended_why, ', ' ORDER BY lease) FROM fence.grants"); why != "other released, wallet:42 ledger advanced" {
		t.Error(why)
	}
	for token, want := range map[fence.Token]fence.Code{
		old.First():        fence.CodeGrantEnded,
		old.First() + 1:    fence.CodeGrantEnded,
		old.First() + 5000: fence.CodeUnissuedToken, // of the lost part
	} {
		_, err := w.WriteRow(ctx, patch("wallets", "42", `{"balance":2}`, token))
		wantCode(t, err, want)
	}
	_, err = w.WriteRow(ctx, patch("wallets", "42", `{"balance":1}`, old.First()))
	wantCode(t, err, fence.CodeAccepted) // replayed: it stands in the ledger
	_, err = w.More(ctx, "wallet:42", fence.GrantRef{ID: old.ID, Principal: "p"})
	wantCode(t, err, fence.CodeLeaseLost)
	g := w.grant("wallet:42", "p", "b")
	if g.First() != done.First || g.First() <= old.Last()+blocks*1000 {
		t.Errorf("the next grant begins at %d, after %d and with %d blocks skipped; announced was %d", g.First(), old.Last(), blocks, done.First)
	}
	_, err = w.WriteRow(ctx, patch("wallets", "42", `{"balance":3}`, old.First()+5000))
	wantCode(t, err, fence.CodeStaleToken)
	_, err = w.WriteRow(ctx, patch("wallets", "42", `{"balance":3}`, g.First()))
	wantCode(t, err, fence.CodeAccepted)
}

func TestAdvanceCountsFromWhatWasIssued(t *testing.T) {
	for name, reset := range map[string]string{
		"GrantAboveTheSequence": "SELECT setval('fence.blocks', 1, false)",
		"MarkAboveTheSequence":  "UPDATE fence.grants SET first = 1000, blocks = '{[1000,2000)}'; SELECT setval('fence.blocks', 1, false)",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.exec("SELECT setval('fence.blocks', 500000)")
			g := w.grant("wallet:42", "p", "a")
			_, err := w.WriteRow(t.Context(), patch("wallets", "42", `{"balance":1}`, g.First()))
			wantCode(t, err, fence.CodeAccepted)
			w.exec(reset)
			if done, err := w.Advance(t.Context(), 1, time.Second); err != nil || done.First <= g.Last()+1000 {
				t.Errorf("%+v %v after %d", done, err, g.Last())
			}
		})
	}
}

func TestAdvanceRefuses(t *testing.T) {
	w := newWorld(t)
	w.grant("wallet:42", "p", "a")
	for blocks, want := range map[int64]fence.Code{
		0: fence.CodeInvalidRequest, -5: fence.CodeInvalidRequest, 999_999_999_998: fence.CodeInvalidRequest, 1 << 62: fence.CodeInvalidRequest,
	} {
		_, err := w.Advance(t.Context(), blocks, time.Second)
		wantCode(t, err, want)
	}
	_, err := w.db.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT fence.advance(1)")
	if err == nil {
		t.Error("advanced at REPEATABLE READ")
	}
	w.exec("ROLLBACK")
	if n, _, err := w.LiveGrants(t.Context()); err != nil || n != 1 {
		t.Errorf("%d live grants: %v", n, err)
	}
	if public := w.text("SELECT has_function_privilege('fence_writer', 'fence.advance(bigint)', 'EXECUTE')::text"); public != "false" {
		t.Error("everybody may advance the ledger")
	}
	if _, err := w.Advance(t.Context(), 1_000_000_000, time.Second); err != nil {
		t.Error(err)
	}
}

// An advance waits for the writes under way. What comes meanwhile passes before it, or is refused.
func TestAdvanceWaitsForWriters(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	g := w.grant("wallet:42", "p", "a")
	writer := w.connect()
	admitted := func() pgx.Tx {
		tx, err := writer.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(ctx, "SELECT fence.admit('wallets', '42', $1)", int64(g.First())); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	tx := admitted()
	_, err := w.Advance(ctx, 1, 100*time.Millisecond)
	wantCode(t, err, fence.CodeContention)
	if n, _, _ := w.LiveGrants(ctx); n != 1 {
		t.Errorf("%d live grants after an advance that failed", n)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}

	tx = admitted()
	advanced := make(chan error, 1)
	go func() {
		_, err := w.Advance(ctx, 1, 5*time.Second)
		advanced <- err
	}()
	w.waitForLock()
	late := make(chan error, 1)
	go func() {
		_, err := w.WriteRow(ctx, patch("wallets", "42", `{"balance":7}`, g.First()+1))
		late <- err
	}()
	// The writer that the advance waits for goes on, with a lease whose grant waits behind the advance.
	other := make(chan error, 1)
	go func() {
		_, err := w.Certify(ctx, fence.Certificate{Lease: "wallet:43", Principal: "q", Holder: "q", Acquire: fence.AcquireDigest("q", "b"), TTL: 30e9})
		other <- err
	}()
	if _, err := tx.Exec(ctx, "UPDATE wallets SET balance = 5 WHERE id = 42"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-advanced; err != nil {
		t.Fatal(err)
	}
	balance := "5"
	if err := <-late; err == nil {
		balance = "7"
	} else {
		wantCode(t, err, fence.CodeGrantEnded)
	}
	wantCode(t, <-other, fence.CodeAccepted)
	if got := w.text("SELECT balance::text FROM wallets WHERE id = 42"); got != balance {
		t.Errorf("balance %s, want %s", got, balance)
	}
	_, err = w.WriteRow(ctx, patch("wallets", "42", `{"balance":9}`, g.First()+2))
	wantCode(t, err, fence.CodeGrantEnded)
}

// A writer that the advance waits for, and that wants the lock of a lease whose grant waits behind the advance, is a
// cycle that PostgreSQL resolves by letting the grant pass.
func TestAdvanceDoesNotDeadlock(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	w.exec("INSERT INTO wallets VALUES (43, 'bob', 1)")
	g := w.grant("wallet:42", "p", "a")
	writer, granter := w.connect(), w.connect()
	for _, conn := range []*pgx.Conn{writer, granter} {
		if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := writer.Exec(ctx, fmt.Sprintf("SELECT fence.admit('wallets', '42', %d)", g.First())); err != nil {
		t.Fatal(err)
	}
	if _, err := granter.Exec(ctx, "SELECT pg_advisory_xact_lock(fence.lease_lock('wallet:43'))"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 3)
	go func() { _, err := w.Advance(ctx, 1, 10*time.Second); done <- err }()
	w.waitForLock()
	go func() {
		_, err := granter.Exec(ctx, "SELECT code FROM fence.certify('wallet:43', 0, 'x', 'p', 'p', 1000); COMMIT")
		done <- err
	}()
	go func() {
		// Refused, once it has the lock: what matters is that it gets it.
		_, _ = writer.Exec(ctx, "SELECT fence.admit('wallets', '43', 5)")
		_, err := writer.Exec(ctx, "ROLLBACK")
		done <- err
	}()
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Those that come while an advance waits are held up for a part of its time only.
func TestAdvanceLetsReadersPassWhileItWaits(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	w.grant("wallet:42", "p", "a")
	dump, err := w.connect().Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dump.Exec(ctx, "SELECT FROM fence.grants"); err != nil {
		t.Fatal(err)
	}
	const wait = 2800 * time.Millisecond // less than reads have
	advanced := make(chan error, 1)
	go func() { _, err := w.Advance(ctx, 1, wait); advanced <- err }()
	w.waitForLock()
	began := time.Now()
	if _, err := w.Newest(ctx, "wallet:42"); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > wait*2/3 {
		t.Errorf("a read took %v", took)
	}
	wantCode(t, <-advanced, fence.CodeContention)
	if err := dump.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
}

// The count is bounded, and the advance is not.
func TestAdvanceOfManyGrants(t *testing.T) {
	w := newWorld(t)
	const many = 100_500
	w.exec(fmt.Sprintf(`INSERT INTO fence.grants (lease, first, blocks, id_hash, acquire_hash, principal, holder, ttl_ms, granted_at)
		SELECT n::text, n * 1000, int8multirange(int8range(n * 1000, n * 1000 + 1000)), '', '', 'p', 'p', 1000, now() FROM generate_series(1, %d) n`, many))
	if n, all, err := w.LiveGrants(t.Context()); err != nil || all || n != 100_000 {
		t.Errorf("%d live grants, all %v: %v", n, all, err)
	}
	if done, err := w.Advance(t.Context(), 1, time.Second); err != nil || done.Ended != many {
		t.Errorf("%+v %v", done, err)
	}
}

func TestAdvanceThroughPgBouncer(t *testing.T) {
	w := newWorld(t)
	url := w.url
	w.grant("wallet:42", "p", "a")
	s, err := pgstore.Open(pgstore.Config{URL: testenv.PgBouncer(t, url, "transaction"), Pooled: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if done, err := s.Advance(t.Context(), 1, time.Second); err != nil || done.Ended != 1 {
		t.Errorf("%+v %v", done, err)
	}
}
