package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/pglease"
)

// grantBlock is the SQL of docs/operations.md that gives a gateway's role its rights.
func grantBlock(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- grants -->")
	_, rest, _ = strings.Cut(rest, "```sql\n")
	block, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatalf("%s has no block of grants", operations)
	}
	return block
}

// asRole is a database URL with another user.
func asRole(t *testing.T, database, role string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	return u.String()
}

func execAs(t *testing.T, database, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// A role that is not the owner of the ledger serves with what the docs tell to grant, and with nothing more.
func TestGrantBlock(t *testing.T) {
	admin := testenv.PostgresServer(t).URL("") // roles belong to the server, so it is the test's own
	owner, gateway := asRole(t, admin, "fencegate_owner"), asRole(t, admin, "fencegate")
	execAs(t, admin, "CREATE ROLE fencegate_owner LOGIN; GRANT CREATE ON DATABASE fencegate TO fencegate_owner; GRANT CREATE ON SCHEMA public TO fencegate_owner")
	execAs(t, owner, `CREATE TABLE wallets (id bigint PRIMARY KEY, balance numeric NOT NULL); INSERT INTO wallets VALUES (42, 100);
		CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount numeric NOT NULL); CREATE TABLE receipts (id serial PRIMARY KEY, amount numeric)`)
	if code, out, errs := command(t, "migrate", "up", "--database-url="+owner, "--protect=wallets=wallet:{id}", "--protect=payments=payments", "--protect=receipts=payments", "--protect-bucket=reports=report:{key}"); code != 0 {
		t.Fatalf("%s%s", out, errs)
	}
	// Twice, as after each upgrade.
	block := grantBlock(t)
	execAs(t, admin, block)
	_, again, _ := strings.Cut(block, ";")
	execAs(t, admin, again)
	execAs(t, owner, "GRANT SELECT, INSERT, UPDATE, DELETE ON payments, receipts TO fencegate; GRANT USAGE ON SEQUENCE payments_id_seq, receipts_id_seq TO fencegate")
	if code, out, errs := command(t, "protect", "payments", "--lease=payments", "--guard", "--database-url="+owner); code != 0 {
		t.Fatalf("%s%s", out, errs)
	}

	redis, blobs := testenv.Redis(t), t.TempDir()
	a, err := assemble(t.Context(), parts{databaseURL: gateway, redisURL: redis, blobDir: blobs, log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	server := httptest.NewServer(a)
	defer server.Close()

	t.Run("Rows", func(t *testing.T) {
		s := &serving{t: t, url: server.URL}
		token, id := s.acquire("wallet:42")
		s.want(http.StatusOK, "PATCH", "/v1/rows/wallets/42", `{"balance":90}`, "X-Fence-Token: "+token.String())
		s.want(http.StatusOK, "POST", "/v1/leases/wallet:42/tokens", "", "X-Lease-Id: "+id)
		s.want(http.StatusNoContent, "DELETE", "/v1/leases/wallet:42", "", "X-Lease-Id: "+id)
		s.want(http.StatusOK, "GET", "/v1/marks/rows/wallets/42", "")
		token, _ = s.acquire("wallet:43")
		s.want(http.StatusCreated, "PUT", "/v1/rows/wallets/43", `{"balance":1}`, "X-Fence-Token: "+token.String())
		token, _ = s.acquire("wallet:42")
		s.want(http.StatusNoContent, "DELETE", "/v1/rows/wallets/42", "", "X-Fence-Token: "+token.String())
	})
	t.Run("InsertsListsAndCommits", func(t *testing.T) {
		s := &serving{t: t, url: server.URL}
		token, _ := s.acquire("payments")
		s.want(http.StatusCreated, "POST", "/v1/rows/payments", `{"amount":1.50}`, "X-Fence-Token: "+token.String())
		s.want(http.StatusCreated, "POST", "/v1/rows/payments", `{"amount":1.50}`, "X-Fence-Token: "+token.String())
		s.want(http.StatusCreated, "POST", "/v1/rows/receipts", `{"amount":1.50}`, "X-Fence-Token: "+token.String())
		if got := s.want(http.StatusOK, "GET", "/v1/rows/payments?amount=eq.1.5", "", "Prefer: count=exact"); !strings.Contains(got, `"count":1`) {
			t.Errorf("the payments are %s", got)
		}
		var up struct{ Blob string }
		if err := json.Unmarshal([]byte(s.want(http.StatusCreated, "POST", "/v1/uploads/reports", "a receipt")), &up); err != nil {
			t.Fatal(err)
		}
		wallet, _ := s.acquire("wallet:45")
		report, _ := s.acquire("report:receipt")
		commit := fmt.Sprintf(`{"writes":[{"op":"put","resource":"rows/wallets/45","token":%s,"body":{"balance":5}},{"op":"put","resource":"objects/reports/receipt","token":%s,"blob":%q},
			{"op":"put","resource":"rows/payments/7","token":%s,"body":{"amount":2}}]}`, wallet, report, up.Blob, token)
		for range 2 {
			s.want(http.StatusOK, "POST", "/v1/commit", commit)
		}
		s.want(http.StatusOK, "GET", "/v1/objects/reports/receipt", "")
		s.want(http.StatusOK, "GET", "/openapi.json", "")
	})
	t.Run("Leases", func(t *testing.T) {
		s := &serving{t: t, url: server.URL}
		token, id := s.acquire("wallet:44")
		s.want(http.StatusOK, "PUT", "/v1/leases/wallet:44", "", "X-Lease-Id: "+id)
		refused := fence.Event{At: time.Now(), Kind: fence.EventRefused, Lease: "wallet:44", Resource: "rows/public.wallets/44", Token: 1, Code: fence.CodeStaleToken}
		if err := a.store.NoteRefusals(t.Context(), []fence.Event{refused}); err != nil {
			t.Error(err)
		}
		if held := s.want(http.StatusOK, "GET", "/v1/leases?prefix=wallet:44", ""); !strings.Contains(held, token.String()) {
			t.Errorf("held: %s", held)
		}
		s.want(http.StatusNoContent, "POST", "/v1/leases/wallet:44/break", `{"reason":"a test"}`)
		var kinds []fence.EventKind
		events, _, err := a.store.Events(t.Context(), "", 1000)
		for _, e := range events {
			if e.Lease == "wallet:44" {
				kinds = append(kinds, e.Kind)
			}
		}
		if want := []fence.EventKind{fence.EventGranted, fence.EventRefused, fence.EventBroken}; err != nil || !slices.Equal(kinds, want) {
			t.Errorf("events %v (%v), want %v", kinds, err, want)
		}
		if _, err := a.store.PruneEvents(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
	})
	t.Run("LockerOnPostgreSQL", func(t *testing.T) {
		l, err := pglease.Open(pglease.Config{URL: gateway})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := tryLease(t.Context(), l); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := l.Listen(ctx, func(lease.Signal) { cancel() }); err != nil {
			t.Error(err)
		}
	})
	t.Run("Objects", func(t *testing.T) {
		s := &serving{t: t, url: server.URL}
		token, id := s.acquire("report:a")
		s.want(http.StatusCreated, "PUT", "/v1/objects/reports/a", "one", "X-Fence-Token: "+token.String())
		s.want(http.StatusNoContent, "DELETE", "/v1/leases/report:a", "", "X-Lease-Id: "+id)
		token, _ = s.acquire("report:a")
		s.want(http.StatusOK, "PUT", "/v1/objects/reports/a", "two", "X-Fence-Token: "+token.String())
		s.want(http.StatusOK, "GET", "/v1/objects/reports/a", "")
	})
	t.Run("Collector", func(t *testing.T) {
		if _, err := a.store.AbortStale(t.Context(), time.Hour, 10); err != nil {
			t.Error(err)
		}
		for range 2 { // the second time the ledger forgets the blob
			garbage, err := a.store.Collectable(t.Context(), 0, 10)
			if err != nil || len(garbage) != 1 {
				t.Fatalf("%v, %v", garbage, err)
			}
			if err := a.store.Collected(t.Context(), garbage[0]); err != nil {
				t.Error(err)
			}
		}
		if _, err := a.store.CountBlobs(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("StalledWriterIsEnded", func(t *testing.T) {
		writer, err := pgx.Connect(t.Context(), gateway)
		if err != nil {
			t.Fatal(err)
		}
		defer writer.Close(context.WithoutCancel(t.Context()))
		if _, err := writer.Exec(t.Context(), "BEGIN; SELECT pg_advisory_xact_lock_shared(fence.lease_lock('wallet:42'))"); err != nil {
			t.Fatal(err)
		}
		execAs(t, gateway, "DO $$ BEGIN ASSERT fence.end_stalled('wallet:42', '-1s') = 1; END $$")
	})
	t.Run("Doctor", func(t *testing.T) {
		code, out, errs := command(t, "doctor", "--database-url="+gateway, "--redis-url="+redis, "--blob-dir="+blobs)
		if !strings.Contains(out, "granted to fencegate one by one") || strings.Contains(out, "lacks the right") {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
	})
	t.Run("NothingMore", func(t *testing.T) {
		conn, err := pgx.Connect(t.Context(), gateway)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		for _, sql := range []string{
			"SELECT fence.advance(1)", "SELECT fence.protect('wallets', 'other:{id}')", "DELETE FROM fence.marks", "DELETE FROM fence.grants", "UPDATE fence.grants SET first = 1", "SELECT nextval('fence.blocks')", "DELETE FROM fence.events", "DELETE FROM fence.leases",
			"UPDATE fence.settings SET ledger_id = gen_random_uuid()", "UPDATE fence.protected SET template = ''", "SELECT setval('fence.blocks', 1)", "CREATE TABLE fence.x ()",
		} {
			if _, err := conn.Exec(t.Context(), sql); err == nil {
				t.Errorf("the gateway's role may %s", sql)
			}
		}
		// What such a function locks before it fails is enough to stop every gateway.
		var callable []string
		if err := conn.QueryRow(t.Context(), `SELECT coalesce(array_agg(oid::regprocedure::text), '{}') FROM pg_proc
			WHERE pronamespace = 'fence'::regnamespace AND proname IN ('advance', 'protect', 'protect_view', 'protect_relation', 'protect_bucket', 'unprotect', 'unprotect_bucket', 'set_options',
				'guard', 'unguard', 'make_guard', 'drop_guard', 'refresh_guards') AND has_function_privilege(oid, 'EXECUTE')`).Scan(&callable); err != nil || len(callable) > 0 {
			t.Errorf("the gateway's role may call %v (%v)", callable, err)
		}
	})
}
