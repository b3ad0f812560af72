package pgstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
)

// A server that is frozen keeps no timeout of its own, and a connection that was just used is not tried first.
func TestFrozenServer(t *testing.T) {
	server := testenv.PostgresServer(t)
	w := newWorldAt(t, server.URL(""))
	ctx := context.Background()
	g := w.grant("wallet:42", "p", "a")
	name := fence.RowName{Table: "wallets", Key: []string{"42"}}
	read := func() error {
		_, err := w.Row(ctx, fence.RowRead{Row: name})
		return err
	}
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() { wantCode(t, read(), fence.CodeAccepted) })
	}
	wg.Wait()
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		call func() error
		most time.Duration
		want fence.Code
	}{
		"Read":   {read, 4 * time.Second, fence.CodeUnavailable},
		"Mark":   {func() error { _, err := w.RowMark(ctx, name); return err }, 4 * time.Second, fence.CodeUnavailable},
		"Newest": {func() error { _, err := w.Newest(ctx, "wallet:42"); return err }, 4 * time.Second, fence.CodeUnavailable},
		"Object": {func() error {
			_, err := w.CheckWrite(ctx, objectWrite(fence.OpPut, 1))
			return err
		}, 4 * time.Second, fence.CodeUnavailable},
		"Write": {func() error {
			_, err := w.WriteRow(ctx, patch("wallets", "42", `{"balance":1}`, g.First()))
			return err
		}, 14 * time.Second, fence.CodeOutcomeUnknown},
	} {
		wg.Go(func() {
			began := time.Now()
			err := c.call()
			if took := time.Since(began); took > c.most || fence.CodeOf(err) != c.want {
				t.Errorf("%s: %v after %v, want %s within %v", what, err, took, c.want, c.most)
			}
		})
	}
	wg.Wait()
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); read() != nil; {
		if time.Now().After(end) {
			t.Fatal("it does not recover")
		}
	}
	_, err := w.WriteRow(ctx, patch("wallets", "42", `{"balance":1}`, g.First()))
	wantCode(t, err, fence.CodeAccepted)
}

// Writers that wait for one locked row leave connections to reads and grants.
func TestLockedRowDoesNotTakeEveryConnection(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	g := w.grant("wallet:42", "p", "a")
	tx, err := w.connect().Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "SELECT 1 FROM wallets WHERE id = 42 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	codes := make([]fence.Code, 40)
	for i := range codes {
		wg.Go(func() {
			_, err := w.WriteRow(ctx, patch("wallets", "42", `{"balance":1}`, g.First()+fence.Token(i)))
			codes[i] = fence.CodeOf(err)
		})
	}
	w.waitForLock()
	for range 20 {
		began := time.Now()
		if err := w.Ready(ctx); err != nil {
			t.Errorf("not ready: %v", err)
		}
		if _, err := w.RowMark(ctx, fence.RowName{Table: "wallets", Key: []string{"43"}}); err != nil {
			t.Errorf("a read of another row: %v", err)
		}
		w.grant("other", "p", began.String())
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v", took)
		}
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for _, code := range codes {
		switch code {
		case fence.CodeAccepted, fence.CodeStaleToken, fence.CodeOverloaded:
		default:
			t.Errorf("a writer got %s", code)
		}
	}
}
