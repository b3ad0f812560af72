package pgstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// Whoever may create functions and operators in public does not get them called by a list: neither one that fits better, nor one
// that an extension's type would find by the search_path.
func TestForeignOperatorsAreNotCalledByLists(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE SCHEMA ext; CREATE EXTENSION citext SCHEMA ext; CREATE TABLE loot (what text);
		CREATE TABLE l (id varchar PRIMARY KEY, c ext.citext, n varchar); INSERT INTO l VALUES ('a', 'X', 'n'), ('b', 'y', 'm'); SELECT fence.protect('l', 'l');
		CREATE FUNCTION public.format(text, VARIADIC varchar[]) RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO loot VALUES ('format'); RETURN ''; END $$`)
	for _, typ := range []string{"varchar", "ext.citext"} {
		for i, op := range []string{"=", "<", ">", "<=", ">=", "~~"} {
			name := fmt.Sprintf("%s_%d", strings.ReplaceAll(typ, ".", "_"), i)
			w.exec(`CREATE FUNCTION public.` + name + `(` + typ + `, ` + typ + `) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.loot VALUES ('` + op + `'); RETURN true; END $$;
				CREATE OPERATOR public.` + op + ` (leftarg = ` + typ + `, rightarg = ` + typ + `, function = public.` + name + `)`)
		}
	}
	for _, column := range []string{"n", "c", "id"} {
		for _, op := range []fence.FilterOp{"eq", "neq", "lt", "lte", "gt", "gte", "in", "like"} {
			q := fence.RowQuery{Table: "l", Limit: 1, Count: true, Filters: []fence.Filter{where(column, op, "N")}, Order: []fence.OrderBy{{Column: column, Descending: true}}}
			page, err := w.ListRows(t.Context(), q)
			if err == nil && page.Next != "" {
				q.After = page.Next
				_, err = w.ListRows(t.Context(), q)
			}
			wantCode(t, err, fence.CodeAccepted)
		}
	}
	if loot := w.text("SELECT string_agg(what, ' ') FROM loot"); loot != "<null>" {
		t.Errorf("called: %s", loot)
	}
}

// Row security and privileges are those of the caller's role, and its claims are what policies see, for the rows and for their number.
func TestListAs(t *testing.T) {
	w := newWorld(t)
	role := "list_" + strings.ToLower(rand.Text())
	w.exec(`CREATE ROLE ` + role + `; GRANT SELECT (id, owner) ON wallets TO ` + role + `; INSERT INTO wallets VALUES (1, 'bob', 1), (2, 'bob', 2), (3, 'ann', 3);
		ALTER TABLE wallets ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON wallets USING (owner = current_setting('request.jwt.claims', true)::json->>'sub')`)
	t.Cleanup(func() { w.exec("DROP OWNED BY " + role + "; DROP ROLE " + role) })
	q := fence.RowQuery{Table: "wallets", Limit: 1, Count: true, Columns: []string{"id", "owner"}, Access: fence.Access{As: fence.Identity{Role: role, Claims: `{"sub":"bob"}`}}}
	page, err := w.ListRows(t.Context(), q)
	if err != nil || joined(page.Rows) != `{"id":1,"owner":"bob"}` || *page.Count != 2 || page.Next == "" {
		t.Fatalf("%s, %v", page.Rows, err)
	}
	q.After = page.Next
	if page, err = w.ListRows(t.Context(), q); err != nil || joined(page.Rows) != `{"id":2,"owner":"bob"}` || page.Next != "" {
		t.Errorf("%s, %v", page.Rows, err)
	}
	q.As.Claims = `{"sub":"nobody"}`
	if page, err = w.ListRows(t.Context(), q); err != nil || len(page.Rows) != 0 || *page.Count != 0 {
		t.Errorf("%s, %v", page.Rows, err)
	}
	q.Columns = nil
	_, err = w.ListRows(t.Context(), q)
	wantCode(t, err, fence.CodeForbidden) // balance is not granted
	q.Columns, q.Filters = []string{"id"}, []fence.Filter{where("balance", "gt", "0")}
	q.After = ""
	_, err = w.ListRows(t.Context(), q)
	wantCode(t, err, fence.CodeForbidden)
	// The next on the same connections is the gateway itself again.
	if got := w.ids(fence.RowQuery{Table: "wallets"}); got != "1 2 3 42" {
		t.Errorf("as the gateway: %s", got)
	}
}

// A table that is altered, dropped or made anew while it is read costs no internal error.
func TestListWhileTheTableIsAltered(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE m (id int PRIMARY KEY, a int, b text); INSERT INTO m VALUES (1, 1, 'x'), (2, 2, 'y'); SELECT fence.protect('m', 'm')`)
	list := func(q fence.RowQuery) (string, error) {
		q.Table, q.Limit = "m", 10
		page, err := w.ListRows(t.Context(), q)
		return joined(page.Rows), err
	}
	for _, c := range []struct {
		ddl  string
		q    fence.RowQuery
		want string
	}{
		{"SELECT 1", fence.RowQuery{}, `{"id":1,"a":1,"b":"x"}{"id":2,"a":2,"b":"y"}`},
		{"ALTER TABLE m ADD c int DEFAULT 7", fence.RowQuery{Columns: []string{"c"}, Filters: []fence.Filter{where("c", "eq", "7"), where("id", "eq", "1")}}, `{"c":7}`},
		{"ALTER TABLE m DROP b", fence.RowQuery{}, `{"id":1,"a":1,"c":7}{"id":2,"a":2,"c":7}`},
		{"ALTER TABLE m RENAME a TO z", fence.RowQuery{Order: []fence.OrderBy{{Column: "z", Descending: true}}}, `{"id":2,"z":2,"c":7}{"id":1,"z":1,"c":7}`},
		{"ALTER TABLE m ALTER z TYPE text", fence.RowQuery{Filters: []fence.Filter{where("z", "eq", "2")}}, `{"id":2,"z":"2","c":7}`},
		{"DROP TABLE m; CREATE TABLE m (id int PRIMARY KEY, other int); INSERT INTO m VALUES (5, 6)", fence.RowQuery{}, `{"id":5,"other":6}`},
	} {
		w.exec(c.ddl)
		if got, err := list(c.q); err != nil || got != c.want {
			t.Errorf("%s: %s, %v", c.ddl, got, err)
		}
	}
	w.exec("DROP TABLE m")
	_, err := list(fence.RowQuery{})
	wantCode(t, err, fence.CodeNotFound)

	w.exec(`CREATE TABLE m (id int PRIMARY KEY, a int, b text); INSERT INTO m VALUES (1, 1, 'x')`)
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for ctx.Err() == nil {
				_, err := list(fence.RowQuery{Count: true, Order: []fence.OrderBy{{Column: "b"}}})
				switch fence.CodeOf(err) {
				case fence.CodeAccepted, fence.CodeInvalidRequest, fence.CodeContention:
				default:
					t.Error(err)
				}
			}
		})
	}
	for i := 0; ctx.Err() == nil; i++ {
		w.exec([]string{"ALTER TABLE m DROP a", "ALTER TABLE m ADD a text", "ALTER TABLE m DROP b", "ALTER TABLE m ADD b int", "ALTER TABLE m ALTER b TYPE text"}[i%5])
	}
	readers.Wait()
}

// A list that takes too long is given up by the server in time, and leaves its connection to others.
func TestListThatTakesTooLong(t *testing.T) {
	w := newWorld(t)
	s, err := pgstore.Open(pgstore.Config{URL: w.url, ReadTimeout: 300 * time.Millisecond, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	q := fence.RowQuery{Table: "wallets", Limit: 10, Count: true}
	if _, err := s.ListRows(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	pids := func() string {
		return w.text("SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'fencegate' AND query LIKE '%wallets%'")
	}
	before := pids()
	w.exec("BEGIN; LOCK TABLE wallets")
	_, err = s.ListRows(t.Context(), q)
	if wantCode(t, err, fence.CodeOverloaded); pids() != before {
		t.Errorf("the connection was given up: %s, then %s", before, pids())
	}
	w.exec("COMMIT")
	_, err = s.ListRows(t.Context(), q)
	wantCode(t, err, fence.CodeAccepted)
}

// Behind a pooler the settings go along with each list.
func TestListThroughPgBouncer(t *testing.T) {
	w := newWorld(t)
	url := w.url
	w.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Tokyo''', current_database()); EXECUTE format('ALTER DATABASE %I SET bytea_output = escape', current_database()); END $$;
		CREATE EXTENSION citext; CREATE TABLE b (id timestamptz PRIMARY KEY, v bytea, c citext);
		INSERT INTO b VALUES ('2026-01-01 00:00:00+00', '\xff', 'x'), ('2026-01-02 00:00:00+00', '\x01', 'X'); SELECT fence.protect('b', 'b')`)
	s, err := pgstore.Open(pgstore.Config{URL: testenv.PgBouncer(t, url, "transaction"), Pooled: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	q := fence.RowQuery{Table: "b", Limit: 1, Count: true, Order: []fence.OrderBy{{Column: "c"}, {Column: "v", Descending: true}}, Filters: []fence.Filter{where("id", "gte", "2026-01-01")}}
	for i, want := range []string{`{"id":"2026-01-01T00:00:00+00:00","v":"\\xff","c":"x"}`, `{"id":"2026-01-02T00:00:00+00:00","v":"\\x01","c":"X"}`} {
		page, err := s.ListRows(t.Context(), q)
		if err != nil || joined(page.Rows) != want || *page.Count != 2 || (page.Next == "") != (i == 1) {
			t.Fatalf("%s, next %q, %v", page.Rows, page.Next, err)
		}
		q.After = page.Next
	}
}
