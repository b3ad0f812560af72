package pgstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores/pgstore"
)

func TestAdmit(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	g := w.grant("wallet:42", "p", "a")
	admit := func(t *testing.T, key string, token fence.Token) (string, error) {
		t.Helper()
		tx, err := w.db.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(ctx)
		resource, err := pgstore.Admit(ctx, tx, "wallets", key, token)
		if err == nil {
			_, err = tx.Exec(ctx, "UPDATE wallets SET balance = balance - 1 WHERE id = 42")
		}
		if err == nil {
			err = tx.Commit(ctx)
		}
		return resource, err
	}
	resource, err := admit(t, "+42", g.First()+5)
	wantCode(t, err, fence.CodeAccepted)
	if resource != "rows/public.wallets/42" {
		t.Error(resource)
	}
	if b := w.text("SELECT balance::text FROM wallets WHERE id = 42"); b != "99" {
		t.Errorf("balance %s", b)
	}
	for _, c := range []struct {
		name, key string
		token     fence.Token
		want      fence.Code
	}{
		{"SpentToken", "42", g.First() + 5, fence.CodeSpentToken},
		{"StaleToken", "42", g.First(), fence.CodeStaleToken},
		{"UnissuedToken", "42", g.Last() + 1, fence.CodeUnissuedToken},
		{"InvalidToken", "42", 0, fence.CodeInvalidToken},
		{"InvalidKey", "4%2", g.First() + 6, fence.CodeInvalidRequest},
		{"MissingKey", "", g.First() + 6, fence.CodeInvalidRequest},
		{"NotAKey", "x", g.First() + 6, fence.CodeInvalidRequest},
		{"TooManyParts", "1,2", g.First() + 6, fence.CodeInvalidRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := admit(t, c.key, c.token)
			e := wantCode(t, err, c.want)
			if c.want == fence.CodeStaleToken && (e.State == nil || e.State.Mark != g.First()+5 || e.Lease != "wallet:42" || e.First != g.First()) {
				t.Errorf("%+v", e)
			}
		})
	}
	t.Run("NotProtected", func(t *testing.T) {
		for _, table := range []string{"nowhere", "a.b.c", "fence.marks"} {
			tx, err := w.db.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			_, err = pgstore.Admit(ctx, tx, table, "42", g.First()+6)
			wantCode(t, err, fence.CodeNotFound)
			tx.Rollback(ctx)
		}
	})
	if m := w.text("SELECT token::text FROM fence.marks"); m != (g.First() + 5).String() {
		t.Errorf("mark %s", m)
	}
	t.Run("RaisesAtRepeatableRead", func(t *testing.T) {
		for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			tx, err := w.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			_, err = pgstore.Admit(ctx, tx, "wallets", "42", g.First()+7)
			wantCode(t, err, fence.CodeInvalidRequest)
			tx.Rollback(ctx)
		}
	})
	t.Run("IsolationIsPinnedAgainstTheDatabasesDefault", func(t *testing.T) {
		w.exec("ALTER DATABASE " + pgx.Identifier{w.text("SELECT current_database()")}.Sanitize() + " SET default_transaction_isolation = 'serializable'")
		s, err := pgstore.Open(pgstore.Config{URL: w.url})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, err = s.WriteRow(ctx, patch("wallets", "42", `{"balance": 7}`, g.First()+8))
		wantCode(t, err, fence.CodeAccepted)
	})
}

// A worker that was admitted in its own transaction and is then paused holds the lease's lock. The server ends its
// transaction, so that the next grant waits no longer than that.
func TestPausedSQLCallerDoesNotBlockTheNextGrant(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	g := w.grant("wallet:42", "p", "a")
	paused := w.connect()
	tx, err := paused.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Admit(ctx, tx, "wallets", "42", g.First()); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "UPDATE wallets SET balance = 0 WHERE id = 42"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next := w.grant("wallet:42", "p", "b")
	waited := time.Since(began)
	t.Logf("the next grant waited %v", waited)
	if waited < time.Second || waited > 5*time.Second {
		t.Errorf("the next grant waited %v: it must wait for the transaction, and no longer than its timeout", waited)
	}
	if err := tx.Commit(ctx); err == nil {
		t.Error("the paused transaction committed after its successor's grant (I2)")
	}
	if b := w.text("SELECT balance::text FROM wallets WHERE id = 42"); b != "100" {
		t.Errorf("balance %s", b)
	}
	_, err = w.WriteRow(ctx, patch("wallets", "42", `{"balance": 1}`, next.First()))
	wantCode(t, err, fence.CodeAccepted)
}

// A stale insert that arrives while the delete is still in flight waits for the mark's row and is refused (I1).
func TestStaleInsertWhileDeleteIsInFlight(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	g := w.grant("wallet:42", "p", "a")
	conn := w.connect()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Admit(ctx, tx, "wallets", "42", g.First()+9); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "DELETE FROM wallets WHERE id = 42"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var insert error
	wg.Go(func() {
		_, insert = w.WriteRow(ctx, rowWrite(fence.OpPut, "wallets", "42", `{"owner":"stale","balance":1}`, g.First()+8))
	})
	w.waitForLock()
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	wantCode(t, insert, fence.CodeStaleToken)
	if n := w.text("SELECT count(*)::text FROM wallets"); n != "0" {
		t.Errorf("%s rows: the stale insert got in", n)
	}
	// A newer one re-creates the row.
	row, err := w.WriteRow(ctx, rowWrite(fence.OpPut, "wallets", "42", `{"owner":"bob","balance":1}`, g.First()+10))
	if wantCode(t, err, fence.CodeAccepted); !row.Created {
		t.Error("not created")
	}
}

// waitForLock returns once some session of the database waits for a lock.
func (w *world) waitForLock() {
	w.t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if w.text("SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") != "0" {
			return
		}
	}
	w.t.Fatal("nobody waits for a lock")
}

// A template that changes waits for the writes under way and is in force when the change returns (I2).
func TestTemplateChange(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	old := w.grant("wallet:42", "p", "a")
	tx, err := w.connect().Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Admit(ctx, tx, "wallets", "42", old.First()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.Protect(ctx, "wallets", "account:{id}") }()
	w.waitForLock()
	select {
	case err := <-done:
		t.Fatalf("the change did not wait for the write under way: %v", err)
	default:
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	_, err = w.WriteRow(ctx, patch("wallets", "42", `{"balance": 1}`, old.First()+1))
	if e := wantCode(t, err, fence.CodeUnissuedToken); e.Lease != "account:42" {
		t.Errorf("lease %q", e.Lease)
	}
	next := w.grant("account:42", "p", "a")
	_, err = w.WriteRow(ctx, patch("wallets", "42", `{"balance": 1}`, next.First()))
	wantCode(t, err, fence.CodeAccepted)
}
