package pgstore_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// durableWorld is a ledger on a server of the test's own whose commits are durable, and a store of it with short
// timeouts, through PgBouncer if the test wants.
func durableWorld(t *testing.T, pooled bool) (w *world, s *pgstore.Store, url string, server *localservers.Postgres) {
	t.Helper()
	server, err := localservers.StartPostgres(t.Context(), localservers.PostgresConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() }) // it may have been killed
	w = newWorldAt(t, server.URL(""))
	w.exec("SET synchronous_commit = local")
	cfg := pgstore.Config{URL: w.url, Pooled: pooled, LockTimeout: 500 * time.Millisecond, StatementTimeout: time.Second, ConnectTimeout: time.Second}
	if pooled {
		cfg.URL = testenv.PgBouncer(t, w.url, "transaction")
	}
	if s, err = pgstore.Open(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return w, s, cfg.URL, server
}

// awaitStandby says whether commits wait for a standby that is not there, and returns when they do as told.
func (w *world) awaitStandby(names string) {
	w.t.Helper()
	w.exec("ALTER SYSTEM SET synchronous_standby_names = '" + names + "'")
	w.exec("SELECT pg_reload_conf()")
	waits := func() bool {
		conn := w.connect()
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		_, err := conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'probe', '')")
		return err != nil
	}
	for deadline := time.Now().Add(10 * time.Second); waits() != (names != ""); {
		if time.Now().After(deadline) {
			w.t.Fatal("the setting does not take")
		}
	}
}

// A commit whose server dies is not known to have failed, whoever brings the news.
func TestCrashInCommit(t *testing.T) {
	t.Parallel()
	for name, pooled := range map[string]bool{"Direct": false, "ThroughPgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s, _, _ := durableWorld(t, pooled)
			g := w.grant("wallet:42", "p", "a")
			w.awaitStandby("gone")
			write := patch("wallets", "42", `{"balance":7}`, g.First())
			cert := fence.Certificate{Lease: "l", Principal: "p", Holder: "p", Acquire: fence.AcquireDigest("p", "b"), TTL: 30e9}
			for what, commit := range map[string]func() error{
				"Write":   func() error { _, err := s.WriteRow(t.Context(), write); return err },
				"Certify": func() error { _, err := s.Certify(t.Context(), cert); return err },
			} {
				done := make(chan error, 1)
				go func() { done <- commit() }()
				if err := syscall.Kill(w.syncWaiter(), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				if err := <-done; fence.CodeOf(err) != fence.CodeOutcomeUnknown {
					t.Errorf("%s: %s (%v)", what, fence.CodeOf(err), err)
				}
				w.recovered(s)
			}
		})
	}
}

// syncWaiter returns the process of the store's that waits for the standby.
func (w *world) syncWaiter() (pid int) {
	w.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); pid == 0; time.Sleep(time.Millisecond) {
		err := w.db.QueryRow(context.Background(), "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'fencegate'").Scan(&pid)
		if err != nil || time.Now().After(deadline) {
			w.t.Fatalf("nobody waits for the standby: %v", err)
		}
	}
	return pid
}

// recovered waits until the server has crashed, has recovered and the store finds it.
func (w *world) recovered(s *pgstore.Store) {
	w.t.Helper()
	// The store may learn of it before the server has ended its other sessions.
	for deadline := time.Now().Add(20 * time.Second); w.db.Ping(context.Background()) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatal("the server did not crash")
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := pgx.Connect(context.Background(), w.url)
		if err == nil {
			w.db = conn
			w.t.Cleanup(func() { conn.Close(context.Background()) })
			err = s.Ready(context.Background())
		}
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatal(err)
		}
	}
}

// What reads is never of unknown outcome, and a program that starts may wait.
func TestDownBehindPgBouncer(t *testing.T) {
	t.Parallel()
	w, s, url, server := durableWorld(t, true)
	g := w.grant("wallet:42", "p", "a")
	_, err := s.WriteRow(t.Context(), patch("wallets", "42", `{"balance":7}`, g.First()))
	wantCode(t, err, fence.CodeAccepted)
	server.Kill()
	// Its sessions notice a little later.
	for i := 1; err == nil && i < 1000; i++ {
		_, err = s.WriteRow(t.Context(), patch("wallets", "42", `{"balance":8}`, g.First()+fence.Token(i)))
	}
	wantCode(t, err, fence.CodeOutcomeUnknown)
	wantCode(t, s.Ready(t.Context()), fence.CodeUnavailable)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := pgstore.CheckSchema(ctx, url); fence.CodeOf(err) != fence.CodeUnavailable {
		t.Errorf("check: %v", err)
	}
}

// What was answered as unknown is not answered as done before the standby has it.
func TestReplayWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	for name, pooled := range map[string]bool{"Direct": false, "ThroughPgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s, _, _ := durableWorld(t, pooled)
			g := w.grant("wallet:42", "p", "a")
			w.awaitStandby("gone")
			cert := fence.Certificate{Lease: "l", Principal: "p", Holder: "p", Acquire: fence.AcquireDigest("p", "b"), TTL: 30e9}
			for range 2 {
				_, err := s.WriteRow(t.Context(), patch("wallets", "42", `{"balance":7}`, g.First()))
				wantCode(t, err, fence.CodeOutcomeUnknown)
				_, err = s.Certify(t.Context(), cert)
				wantCode(t, err, fence.CodeOutcomeUnknown)
			}
			w.awaitStandby("")
			row, err := s.WriteRow(t.Context(), patch("wallets", "42", `{"balance":7}`, g.First()))
			if wantCode(t, err, fence.CodeAccepted); !row.Replayed {
				t.Error("not a replay")
			}
			if _, err := s.Certify(t.Context(), cert); err != nil {
				t.Error(err)
			}
		})
	}
}
