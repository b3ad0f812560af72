package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/fence"
)

// guarded is a world with a guarded table acct under one lease, and the tokens of its grant.
type guarded struct {
	*world
	next fence.Token
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	w := newWorld(t)
	w.exec(`CREATE TABLE acct (id int PRIMARY KEY, v int NOT NULL DEFAULT 0); INSERT INTO acct VALUES (1, 0), (2, 0), (3, 0);
		SELECT fence.protect('acct', 'all'); SELECT fence.guard('acct')`)
	return &guarded{world: w, next: w.grant("all", "p", "1").First()}
}

// admit is SQL that admits rows, with a token that was not spent yet.
func (g *guarded) admit(table string, keys ...string) string {
	g.next++
	var b strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&b, "SELECT fence.admit('%s', '%s', %d); ", table, key, g.next)
	}
	return b.String()
}

// try runs statements in a transaction and undoes it.
func try(t testing.TB, conn *pgx.Conn, sql ...string) *pgconn.PgError {
	t.Helper()
	ctx := context.Background()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	for _, s := range sql {
		if lines, ok := strings.CutPrefix(s, "COPY "); ok {
			table, data, _ := strings.Cut(lines, ": ")
			_, err = conn.PgConn().CopyFrom(ctx, strings.NewReader(data), "COPY "+table+" FROM STDIN")
		} else {
			_, err = tx.Exec(ctx, s)
		}
		var pg *pgconn.PgError
		if errors.As(err, &pg) {
			return pg
		}
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return nil
}

// wantState fails the test unless statements end with this SQLSTATE; empty is success.
func wantState(t testing.TB, conn *pgx.Conn, want string, sql ...string) *pgconn.PgError {
	t.Helper()
	err := try(t, conn, sql...)
	switch {
	case err == nil && want != "":
		t.Errorf("%s: it passed, want %s", sql, want)
	case err != nil && err.Code != want:
		t.Errorf("%s: %v, want %q", sql, err, want)
	}
	return err
}

func TestGuardRefusesWhatWasNotAdmitted(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	const rows = "SELECT string_agg(a::text, ' ' ORDER BY id) FROM acct a"
	before := g.text(rows)
	merge := "MERGE INTO acct a USING (VALUES (%d)) s(id) ON a.id = s.id WHEN MATCHED %s WHEN NOT MATCHED THEN INSERT VALUES (s.id, 1)"
	if g.text("SELECT (current_setting('server_version_num')::int < 150000)::text") == "true" {
		merge = "UPDATE acct SET v = 1 WHERE id = %d -- %s" // PostgreSQL 14 has no MERGE
	}
	for _, c := range []struct {
		name, sql, state string
		needs            []string // rows: each of them must be admitted
	}{
		{"Insert", "INSERT INTO acct VALUES (9)", "FG016", []string{"9"}},
		{"Update", "UPDATE acct SET v = v + 1 WHERE id = 1", "FG016", []string{"1"}},
		{"UpdateOfMany", "UPDATE acct SET v = v + 1", "FG016", []string{"1", "2", "3"}},
		{"Delete", "DELETE FROM acct WHERE id = 1", "FG016", []string{"1"}},
		{"KeyChanged", "UPDATE acct SET id = 9 WHERE id = 1", "FG016", []string{"1", "9"}},
		{"Copy", "COPY acct: 8\t0\n9\t0\n", "FG016", []string{"8", "9"}},
		{"MergeUpdates", fmt.Sprintf(merge, 1, "THEN UPDATE SET v = 1"), "FG016", []string{"1"}},
		{"MergeDeletes", fmt.Sprintf(merge, 1, "THEN DELETE"), "FG016", []string{"1"}},
		{"MergeInserts", strings.Replace(fmt.Sprintf(merge, 9, "THEN DELETE"), "UPDATE acct SET v = 1 WHERE id = 9", "INSERT INTO acct VALUES (9)", 1), "FG016", []string{"9"}},
		{"ConflictUpdates", "INSERT INTO acct VALUES (2) ON CONFLICT (id) DO UPDATE SET v = 7", "FG016", []string{"2"}},
		{"NestedInAFunction", "DO $$ BEGIN UPDATE acct SET v = 5 WHERE id = 3; END $$", "FG016", []string{"3"}},
		{"Truncate", "TRUNCATE acct", "FG017", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantState(t, g.db, c.state, c.sql)
			wantState(t, g.db, c.state, "CREATE TEMP TABLE x ()", c.sql) // a transaction that has an id
			for i := range c.needs {
				others := append(append([]string{"777"}, c.needs[:i]...), c.needs[i+1:]...)
				err := wantState(t, g.db, c.state, g.admit("acct", others...), c.sql)
				if key := c.needs[i]; err != nil && (!strings.Contains(err.Message, "public.acct") || !strings.Contains(err.Message, "row "+key+" ") ||
					!strings.Contains(err.Hint, "fence.admit('public.acct', '"+key+"', TOKEN)") || !strings.Contains(err.Detail, `"resource" : "rows/public.acct/`+key+`"`)) {
					t.Errorf("%+v", err)
				}
			}
			if c.needs != nil {
				wantState(t, g.db, "", g.admit("acct", c.needs...), c.sql)
			} else {
				wantState(t, g.db, c.state, g.admit("acct", "1", "2", "3"), c.sql)
			}
		})
	}
	wantState(t, g.db, "FG016", "UPDATE acct SET v = 1 WHERE false")
	wantState(t, g.db, "", g.admit("acct", "1"), "INSERT INTO acct VALUES (1), (2) ON CONFLICT DO NOTHING")
	if after := g.text(rows); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

// Admission is this transaction's, and only while it stands.
func TestGuardKnowsTheTransaction(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	const change = "UPDATE acct SET v = v + 1 WHERE id = 1"
	wantState(t, g.db, "FG016", "SAVEPOINT s", g.admit("acct", "1"), "ROLLBACK TO SAVEPOINT s", change)
	wantState(t, g.db, "", "SAVEPOINT s", g.admit("acct", "1"), "RELEASE SAVEPOINT s", "SAVEPOINT s", change)
	wantState(t, g.db, "", g.admit("acct", "1"), change, change, "DELETE FROM acct WHERE id = 1", "INSERT INTO acct VALUES (1)")
	// Admitted by the statement itself, and by a trigger of it.
	admit := strings.TrimSuffix(g.admit("acct", "1"), "; ")
	wantState(t, g.db, "", "CREATE TEMP TABLE x ()", "WITH a AS MATERIALIZED ("+admit+") UPDATE acct SET v = 1 FROM a WHERE id = 1 AND a.admit <> ''")

	admit = g.admit("acct", "1")
	g.exec("BEGIN; " + admit + change + "; COMMIT")
	if v := g.text("SELECT v::text FROM acct WHERE id = 1"); v != "1" {
		t.Errorf("v is %s", v)
	}
	wantState(t, g.db, "FG016", "CREATE TEMP TABLE x ()", change)
	wantState(t, g.db, "FG002", admit)

	// Somebody else is admitted after this transaction began.
	g.exec("BEGIN; CREATE TEMP TABLE x ()")
	if _, err := g.connect().Exec(t.Context(), g.admit("acct", "1")); err != nil {
		t.Fatal(err)
	}
	if _, err := g.db.Exec(t.Context(), change); err == nil || !strings.Contains(err.Error(), "FG016") {
		t.Errorf("admitted by another transaction: %v", err)
	}
	g.exec("ROLLBACK")

	// A mark that came with a dump can have the number of this transaction.
	forge := "UPDATE fence.marks SET xid = pg_current_xact_id(), written_at = %s WHERE resource = 'rows/public.acct/1'"
	wantState(t, g.db, "FG016", fmt.Sprintf(forge, "now() - interval '1 us'"), change)
	wantState(t, g.db, "", fmt.Sprintf(forge, "now()"), change)

	// What a trigger makes of the row counts.
	g.exec(`CREATE FUNCTION shift() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := NEW.id + 10; RETURN NEW; END $$;
		CREATE TRIGGER zz BEFORE INSERT OR UPDATE ON acct FOR EACH ROW EXECUTE FUNCTION shift()`)
	wantState(t, g.db, "FG016", g.admit("acct", "1"), change)
	wantState(t, g.db, "FG016", g.admit("acct", "5"), "INSERT INTO acct VALUES (5)")
	wantState(t, g.db, "", g.admit("acct", "15"), "INSERT INTO acct VALUES (5)")
	wantState(t, g.db, "", g.admit("acct", "1", "11"), change)
}

// Any role with rights on the table gets the guard's answer, and cannot talk it into another one.
func TestGuardHoldsForEveryRole(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	// The rights on the schema are not needed by those who write without a token.
	g.exec("REVOKE ALL ON SCHEMA fence FROM PUBLIC; CREATE SCHEMA evil")
	conn := connectAs(t, g.url, "GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON acct TO %[1]s; GRANT ALL ON SCHEMA evil TO %[1]s; GRANT fence_writer TO %[1]s")
	const change = "UPDATE public.acct SET v = v + 1 WHERE id = 1"
	wantState(t, conn, "FG016", change)
	wantState(t, conn, "FG016", "SET LOCAL application_name = 'fencegate'", change)
	wantState(t, conn, "FG017", "TRUNCATE acct")
	// Operators and functions of its own, in a transaction of which the ledger knows something: that row 2 was admitted. Row 1 has a mark
	// of another transaction, and row 3 an old one of this number.
	if _, err := conn.Exec(t.Context(), `
		CREATE FUNCTION evil.yes(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
		CREATE FUNCTION evil.yes(xid8, xid8) RETURNS boolean LANGUAGE sql AS 'SELECT true';
		CREATE FUNCTION evil.yes(timestamptz, timestamptz) RETURNS boolean LANGUAGE sql AS 'SELECT true';
		CREATE FUNCTION evil.no(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
		CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.yes);
		CREATE OPERATOR evil.= (LEFTARG = xid8, RIGHTARG = xid8, FUNCTION = evil.yes);
		CREATE OPERATOR evil.>= (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = evil.yes);
		CREATE OPERATOR evil.!~ (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.no);
		CREATE FUNCTION evil.concat(text, text, text, text) RETURNS text LANGUAGE sql AS $$ SELECT 'rows/public.acct/2' $$;
		BEGIN; `+strings.ReplaceAll(g.admit("acct", "2"), "'acct'", "'public.acct'")); err != nil {
		t.Fatal(err)
	}
	var xid string
	if err := conn.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text").Scan(&xid); err != nil {
		t.Fatal(err)
	}
	g.exec("INSERT INTO fence.marks (resource, token, lease, principal, created, xid, written_at) VALUES ('rows/public.acct/1', 1, 'all', 'p', false, '3', 'infinity'), ('rows/public.acct/3', 1, 'all', 'p', false, '" + xid + "', '2026-01-01')")
	for id, admitted := range map[string]bool{"1": false, "2": true, "3": false} {
		_, err := conn.Exec(t.Context(), "SAVEPOINT s; SET LOCAL search_path = evil, pg_catalog; UPDATE public.acct SET v = v + 1 WHERE id OPERATOR(pg_catalog.=) "+id)
		if refused := err != nil && strings.Contains(err.Error(), "FG016"); refused == admitted {
			t.Errorf("row %s: %v", id, err)
		}
		if _, err := conn.Exec(t.Context(), "ROLLBACK TO SAVEPOINT s"); err != nil {
			t.Fatal(err)
		}
	}
}

// The gateways' writes raise the mark before they change the row. Their refusals stay what they are.
func TestGuardedTableThroughTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("SELECT fence.guard('wallets')")
	ctx, by := t.Context(), fence.RowName{Table: "wallets", Key: []string{"42"}}
	old := w.grant("wallet:42", "p", "1").First()
	now := w.grant("wallet:42", "p", "2").First()
	write := func(op fence.Op, token fence.Token, body string, columns ...string) error {
		_, err := w.WriteRow(ctx, fence.RowWrite{Op: op, Row: by, Access: fence.Access{Principal: "p", Token: token}, Columns: columns, Body: []byte(body)})
		return err
	}
	for _, c := range []struct {
		op    fence.Op
		token fence.Token
		body  string
		want  fence.Code
	}{
		{fence.OpPatch, old, `{"balance":1}`, fence.CodeStaleToken},
		{fence.OpPut, old, `{"owner":"o","balance":1}`, fence.CodeStaleToken},
		{fence.OpDelete, old, "", fence.CodeStaleToken},
		{fence.OpPatch, now, `{"balance":1}`, fence.CodeAccepted},
		{fence.OpPatch, now, `{"balance":2}`, fence.CodeSpentToken},
		{fence.OpPatch, now + 1, `{"balance":-1}`, fence.CodeConstraintViolation},
		{fence.OpPut, now + 1, `{"owner":"o","balance":1}`, fence.CodeAccepted},
		{fence.OpDelete, now + 2, "", fence.CodeAccepted},
		{fence.OpPatch, now + 3, `{"balance":1}`, fence.CodeNotFound},
		{fence.OpPut, now + 4, `{"owner":"o","balance":1}`, fence.CodeAccepted},
	} {
		columns := []string{"owner", "balance"}
		if c.op == fence.OpPatch {
			columns = columns[1:]
		}
		if err := write(c.op, c.token, c.body, columns...); fence.CodeOf(err) != c.want {
			t.Errorf("%s with %d: %v, want %s", c.op, c.token, err, c.want)
		}
	}
	wantState(t, w.db, "FG016", "UPDATE wallets SET balance = 0")
	// A trigger of the user's that writes to another guarded row is refused as a violation of it.
	w.exec(`CREATE TABLE totals (id int PRIMARY KEY, n int); INSERT INTO totals VALUES (1, 0); SELECT fence.protect('totals', 't'); SELECT fence.guard('totals');
		CREATE FUNCTION tally() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE totals SET n = n + 1; RETURN NULL; END $$;
		CREATE TRIGGER tally AFTER UPDATE ON wallets FOR EACH ROW EXECUTE FUNCTION tally()`)
	if err := write(fence.OpPatch, now+5, `{"balance":3}`, "balance"); err == nil {
		t.Error("a trigger wrote to a row that was not admitted")
	}
	if got := w.text("SELECT balance::text || ' ' || n FROM wallets, totals"); got != "1 0" {
		t.Error(got)
	}
}
