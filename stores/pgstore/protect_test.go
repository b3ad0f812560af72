package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// write writes one row with a token that was not spent yet, and returns the row and whether it is new.
func (g *guarded) write(op fence.Op, table string, key []string, body string, columns ...string) (string, error) {
	g.next++
	row, err := g.WriteRow(context.Background(), fence.RowWrite{Op: op, Row: fence.RowName{Table: table, Key: key},
		Access: fence.Access{Principal: "p", Token: g.next}, Columns: columns, Body: []byte(body)})
	return fmt.Sprint(string(row.JSON), " ", row.Created), err
}

func TestProtectView(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	ctx := t.Context()
	g.exec(`CREATE TABLE base (id bigint PRIMARY KEY, owner text NOT NULL DEFAULT 'nobody', balance numeric NOT NULL DEFAULT 7, secret text DEFAULT 's');
		INSERT INTO base VALUES (1, 'a', 1.50, 's'), (2, 'b', 2, 's'), (3, 'c', 3, 's');
		CREATE VIEW plain AS SELECT balance, id AS account, owner AS "Own er" FROM base;
		ALTER VIEW plain ALTER balance SET DEFAULT 7;
		CREATE TABLE base2 (LIKE base INCLUDING ALL); INSERT INTO base2 SELECT * FROM base;
		CREATE VIEW checked AS SELECT id, owner, balance FROM base2 WHERE balance < 100 AND owner IN (SELECT owner FROM base) WITH CHECK OPTION;
		CREATE TABLE head (id int PRIMARY KEY, name text); CREATE TABLE tail (id int PRIMARY KEY REFERENCES head ON DELETE CASCADE, n int); INSERT INTO head VALUES (1, 'x'); INSERT INTO tail VALUES (1, 5);
		CREATE VIEW joined AS SELECT h.id AS no, h.name, t.n, t.n * 2 AS twice FROM head h JOIN tail t USING (id);
		CREATE FUNCTION joined() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF TG_OP = 'DELETE' THEN DELETE FROM head WHERE id = OLD.no; RETURN OLD; END IF;
			IF TG_OP = 'INSERT' THEN INSERT INTO head VALUES (NEW.no, NEW.name); INSERT INTO tail VALUES (NEW.no, NEW.n);
			ELSE UPDATE head SET name = NEW.name WHERE id = OLD.no; UPDATE tail SET n = NEW.n WHERE id = OLD.no; END IF;
			NEW.twice := NEW.n * 2; RETURN NEW; END $$;
		CREATE TRIGGER t INSTEAD OF INSERT OR UPDATE OR DELETE ON joined FOR EACH ROW EXECUTE FUNCTION joined()`)
	wantCode(t, g.Protect(ctx, "plain", "all"), fence.CodeInvalidRequest)
	for view, key := range map[string]string{"plain": "account", "checked": "id", "joined": "no"} {
		if err := g.ProtectView(ctx, view, "all", []string{key}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name    string
		op      fence.Op
		table   string
		key     string
		body    string
		columns string
		says    string
		code    fence.Code
	}{
		{"Patch", fence.OpPatch, "plain", "1", `{"balance":1.250}`, "balance", `{"balance":1.250,"account":1,"Own er":"a"} false`, fence.CodeAccepted},
		{"PatchAbsent", fence.OpPatch, "plain", "9", `{"balance":1}`, "balance", "", fence.CodeNotFound},
		{"PatchKey", fence.OpPatch, "plain", "1", `{"account":5}`, "account", "", fence.CodeInvalidRequest},
		{"PatchHidden", fence.OpPatch, "plain", "1", `{"secret":"x"}`, "secret", "", fence.CodeInvalidRequest},
		{"PutReplaces", fence.OpPut, "plain", "1", `{"Own er":"z"}`, "Own er", `{"balance":7,"account":1,"Own er":"z"} false`, fence.CodeAccepted},
		{"PutInserts", fence.OpPut, "plain", "4", `{"balance":4}`, "balance", `{"balance":4,"account":4,"Own er":"nobody"} true`, fence.CodeAccepted},
		{"Delete", fence.OpDelete, "plain", "4", "", "", " false", fence.CodeAccepted},
		{"DeleteAbsent", fence.OpDelete, "plain", "4", "", "", "", fence.CodeNotFound},
		{"CheckedPatch", fence.OpPatch, "checked", "2", `{"balance":99}`, "balance", `{"id":2,"owner":"b","balance":99} false`, fence.CodeAccepted},
		{"JoinedPatch", fence.OpPatch, "joined", "1", `{"n":6}`, "n", `{"no":1,"name":"x","n":6,"twice":12} false`, fence.CodeAccepted},
		{"JoinedPut", fence.OpPut, "joined", "2", `{"name":"y","n":1}`, "name n", `{"no":2,"name":"y","n":1,"twice":2} true`, fence.CodeAccepted},
		{"JoinedReplaces", fence.OpPut, "joined", "2", `{"name":"w","n":3}`, "name n", `{"no":2,"name":"w","n":3,"twice":6} false`, fence.CodeAccepted},
		{"JoinedDelete", fence.OpDelete, "joined", "2", "", "", " false", fence.CodeAccepted},
	} {
		t.Run(c.name, func(t *testing.T) {
			columns := strings.Fields(c.columns)
			if c.columns == "Own er" {
				columns = []string{c.columns}
			}
			got, err := g.write(c.op, c.table, []string{c.key}, c.body, columns...)
			if fence.CodeOf(err) != c.code || err == nil && got != c.says {
				t.Errorf("%s (%v), want %s (%s)", got, err, c.says, c.code)
			}
		})
	}
	// What the view does not show does not exist, and cannot be written; the base keeps what it had.
	if _, err := g.write(fence.OpPatch, "checked", []string{"3"}, `{"balance":100}`, "balance"); err == nil {
		t.Error("the check option let a row out of the view")
	}
	g.exec("UPDATE base2 SET balance = 1000 WHERE id = 1")
	_, err := g.write(fence.OpPatch, "checked", []string{"1"}, `{"balance":5}`, "balance")
	wantCode(t, err, fence.CodeNotFound)
	if got := g.text("SELECT string_agg(id || ':' || balance, ' ' ORDER BY id) FROM base2"); got != "1:1000 2:99 3:3" {
		t.Error(got)
	}
	// Two rows of one name: neither is changed.
	g.exec(`CREATE TABLE twin (k int, v int); INSERT INTO twin VALUES (1, 0), (1, 0); CREATE VIEW twins AS SELECT * FROM twin; SELECT fence.protect_view('twins', 'all', '{k}')`)
	if _, err := g.write(fence.OpPatch, "twins", []string{"1"}, `{"v":1}`, "v"); err == nil || g.text("SELECT sum(v)::text FROM twin") != "0" {
		t.Errorf("two rows were changed: %v", err)
	}
	// A column that the view gets is there at once, and its template changes like a table's.
	g.exec("CREATE OR REPLACE VIEW plain AS SELECT balance, id AS account, owner AS \"Own er\", secret FROM base")
	if got, err := g.write(fence.OpPatch, "plain", []string{"1"}, `{"secret":"new"}`, "secret"); err != nil || !strings.Contains(got, `"secret":"new"`) {
		t.Errorf("%s %v", got, err)
	}
	if err := g.Protect(ctx, "plain", "other"); err != nil {
		t.Error(err)
	}
	// Now it reads what is protected under another name.
	g.exec("CREATE OR REPLACE VIEW plain AS SELECT v::numeric AS balance, id::bigint AS account, NULL::text AS \"Own er\", NULL::text AS secret FROM acct")
	_, err = g.Row(ctx, fence.RowRead{Row: fence.RowName{Table: "plain", Key: []string{"1"}}})
	wantCode(t, err, fence.CodeNotFound)
	if _, err = g.write(fence.OpPatch, "plain", []string{"1"}, `{"balance":5}`, "balance"); err == nil || g.text("SELECT v::text FROM acct WHERE id = 1") != "0" {
		t.Errorf("a row was written under a second name: %v", err)
	}
}

func TestProtectRefusesAView(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	g.exec(`CREATE TABLE b (id int PRIMARY KEY, f float, v int); CREATE TABLE other (id int PRIMARY KEY);
		CREATE VIEW v AS SELECT * FROM b; CREATE VIEW vv AS SELECT * FROM v WHERE id > 0; CREATE VIEW beside AS SELECT id, v FROM b WHERE id IN (SELECT id FROM acct);
		CREATE VIEW grouped AS SELECT v AS id, count(*) FROM b GROUP BY v; CREATE VIEW read AS SELECT b.id FROM b JOIN acct a USING (id);
		CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
		CREATE TRIGGER t INSTEAD OF INSERT OR UPDATE OR DELETE ON read FOR EACH ROW EXECUTE FUNCTION no();
		CREATE TRIGGER t INSTEAD OF UPDATE ON grouped FOR EACH ROW EXECUTE FUNCTION no();
		CREATE MATERIALIZED VIEW m AS SELECT * FROM b; CREATE VIEW of_m AS SELECT * FROM m;
		CREATE TABLE p (id int PRIMARY KEY) PARTITION BY LIST (id); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE VIEW vp AS SELECT * FROM p1; SELECT fence.protect('p', 'all')`)
	view := func(name, key string) string {
		return fmt.Sprintf("SELECT fence.protect_view('%s', 'all', '%s')", name, key)
	}
	for _, c := range []struct {
		name, says string
		sql        []string
	}{
		{"NoKey", "declare", []string{view("v", "{}")}},
		{"NullKey", "declare", []string{"SELECT fence.protect_view('v', 'all', NULL)"}},
		{"UnknownColumn", "has no column nope", []string{view("v", "{nope}")}},
		{"NullColumn", "has no column null", []string{view("v", "{NULL}")}},
		{"TwiceTheColumn", "twice", []string{view("v", "{id,id}")}},
		{"TwoDimensions", "twice", []string{view("v", "{{id},{v}}")}},
		{"Float", "equal values can differ", []string{view("v", "{f}")}},
		{"KeyOfATable", "is a table", []string{view("b", "{id}")}},
		{"NotUpdatable", "cannot be updated", []string{view("grouped", "{id}")}},
		{"Materialized", "not a table or view", []string{view("m", "{id}")}},
		{"OfAMaterialized", "cannot be updated", []string{view("of_m", "{id}")}},
		{"Template", "names {v}", []string{"SELECT fence.protect_view('v', 'l:{v}', '{id}')"}},
		{"BaseIsProtected", "protected as public.b", []string{"SELECT fence.protect('b', 'all')", view("v", "{id}")}},
		{"BaseOfBaseIsProtected", "protected as public.b", []string{"SELECT fence.protect('b', 'all')", view("vv", "{id}")}},
		{"ViewIsProtected", "protected as public.v", []string{view("v", "{id}"), "SELECT fence.protect('b', 'all')"}},
		{"ViewOfViewIsProtected", "protected as public.vv", []string{view("vv", "{id}"), "SELECT fence.protect('b', 'all')"}},
		{"ViewBelow", "protected as public.v", []string{view("v", "{id}"), view("vv", "{id}")}},
		{"ViewAbove", "protected as public.vv", []string{view("vv", "{id}"), view("v", "{id}")}},
		{"ViewBeside", "protected as public.beside", []string{view("beside", "{id}"), view("v", "{id}")}},
		{"WhateverATriggerWrites", "protected as public.acct", []string{view("read", "{id}")}},
		{"Partition", "protected as public.p", []string{view("vp", "{id}")}},
		{"PartitionsParent", "protected as public.vp", []string{"SELECT fence.unprotect('p')", view("vp", "{id}"), "SELECT fence.protect('p', 'all')"}},
		{"GuardOfAView", "is a view", []string{view("v", "{id}"), "SELECT fence.guard('v')"}},
		{"GuardOfATableBelow", "not protected", []string{view("v", "{id}"), "SELECT fence.guard('b')"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := try(t, g.db, c.sql...); err == nil || !strings.HasPrefix(err.Code, "FG00") || !strings.Contains(err.Message, c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
	// A table that a view only looks into is none of its rows'.
	wantState(t, g.db, "", view("beside", "{id}"), "SELECT fence.protect('other', 'all')", "SELECT fence.protect('acct', 'all')")
	wantState(t, g.db, "", "SELECT fence.protect('b', 'all')", "SELECT fence.unprotect('b')", view("v", "{id}"))
	for _, sql := range []string{"DROP VIEW v CASCADE; CREATE TABLE v (id int PRIMARY KEY)", "DROP VIEW v CASCADE; CREATE VIEW v AS SELECT id::text FROM b", "ALTER VIEW v RENAME id TO k"} {
		wantState(t, g.db, "FG007", view("v", "{id}"), sql, "SELECT fence.admit('v', '1', 1)")
	}
}

// Without its protection a table is not there for gateways; with it, its rows go on from their marks.
func TestUnprotect(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	ctx := t.Context()
	if _, err := g.write(fence.OpPatch, "acct", []string{"1"}, `{"v":1}`, "v"); err != nil {
		t.Fatal(err)
	}
	if err := g.Unprotect(ctx, "acct"); err != nil {
		t.Fatal(err)
	}
	_, err := g.write(fence.OpPatch, "acct", []string{"1"}, `{"v":2}`, "v")
	wantCode(t, err, fence.CodeNotFound)
	wantCode(t, g.Unprotect(ctx, "acct"), fence.CodeNotFound)
	g.exec("UPDATE acct SET v = 3; TRUNCATE acct; INSERT INTO acct VALUES (1, 4)")
	if err := g.Protect(ctx, "acct", "all"); err != nil {
		t.Fatal(err)
	}
	g.next -= 2
	_, err = g.write(fence.OpPatch, "acct", []string{"1"}, `{"v":5}`, "v")
	wantCode(t, err, fence.CodeSpentToken)

	for _, prefix := range []string{"", "daily/"} {
		for range 2 {
			if err := g.ProtectBucket(ctx, "reports", prefix, "r:{key}"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := g.UnprotectBucket(ctx, "reports", "daily/"); err != nil {
		t.Error(err)
	}
	wantCode(t, g.UnprotectBucket(ctx, "reports", "daily/"), fence.CodeNotFound)
	if err := g.Guard(ctx, "acct"); err != nil {
		t.Fatal(err)
	}
	g.exec("CREATE TABLE x (id int PRIMARY KEY); SELECT fence.protect('x', 'x'); DROP TABLE x; ALTER TABLE wallets RENAME id TO k; ALTER TABLE acct DISABLE TRIGGER fence_guard_delete")
	list, err := g.Protections(ctx)
	var got []string
	for _, p := range list {
		got = append(got, fmt.Sprintf("%s %s %s %v %v %s", p.Kind, p.Name, p.Template, p.Key, p.Guarded, p.State))
	}
	want := "table public.acct all [id] true guard-gaps; table public.wallets wallet:{id} [id] false altered; table public.x x [id] false gone; bucket reports r:{key} [] false "
	if s := strings.Join(got, "; "); err != nil || s != want {
		t.Errorf("%s (%v), want %s", s, err, want)
	}
}

func TestDescribeTable(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	g.exec(`CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN amount AS numeric(10,2) DEFAULT 0 NOT NULL; CREATE DOMAIN deep AS mood; CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1';
		CREATE TABLE d (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, a amount, m deep, f int DEFAULT one(), g int GENERATED ALWAYS AS (1) STORED, i bigint GENERATED ALWAYS AS IDENTITY, t timestamptz NOT NULL DEFAULT now());
		COMMENT ON TABLE d IS 'all kinds'; COMMENT ON COLUMN d.m IS 'how it feels'; ALTER TABLE d ENABLE ROW LEVEL SECURITY; SELECT fence.protect('d', 'd:{id}');
		CREATE TABLE e (id int PRIMARY KEY, n int); CREATE VIEW ve AS SELECT id, n, n + 1 AS more FROM e; SELECT fence.protect_view('ve', 'e', '{id}')`)
	for sql, want := range map[string]string{
		"array_to_string(columns, ' ') || ' ' || array_to_string(settable, ' ')": "id a m f g i t t t t t f f t",
		"array_to_string(nullable, ' ')":                                         "f f t t t f f",
		"array_to_string(has_default, ' ')":                                      "t t f t f t t",
		"array_to_string(default_exprs, ' ', '-')":                               "nextval('public.d_id_seq'::regclass) 0 - public.one() - nextval('public.d_i_seq'::regclass) now()",
		"labels::text": `[null, null, ["sad", "glad"], null, null, null, null]`,
		"array_to_string(comments, ' ', '-') || ' / ' || comment":                                                                      "- - how it feels - - - - / all kinds",
		"concat_ws(' ', template, guarded, view, row_security, key_constraint)":                                                        "d:{id} f f t d_pkey",
		"(SELECT concat_ws(' ', array_to_string(settable, ' '), view, coalesce(key_constraint, '-')) FROM fence.describe_table('ve'))": "t t f t -",
	} {
		if got := g.text("SELECT " + sql + " FROM fence.describe_table('d')"); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}

// A gateway of the version before goes on describing its tables, with the rights that its role had.
func TestOlderProgramDescribesTables(t *testing.T) {
	t.Parallel()
	url := testenv.Database(t)
	migrateTo(t, url, 9)
	admin, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	if _, err := admin.Exec(t.Context(), "CREATE TABLE wallets (id bigint PRIMARY KEY, v int); SELECT fence.protect('wallets', 'wallet:{id}')"); err != nil {
		t.Fatal(err)
	}
	older := connectAs(t, url, `GRANT USAGE ON SCHEMA fence TO %[1]s; GRANT SELECT ON ALL TABLES IN SCHEMA fence TO %[1]s; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA fence TO %[1]s`)
	const describe = "SELECT concat_ws(' ', name, version, shape <> '', key_columns, key_types, key_constraint, columns, types, settable, base_types) FROM fence.describe_table('wallets') WHERE relation <> 0"
	for _, migrated := range []bool{false, true} {
		if migrated {
			if _, err := pgstore.Migrate(t.Context(), url); err != nil {
				t.Fatal(err)
			}
		}
		var got string
		err := older.QueryRow(t.Context(), describe).Scan(&got)
		if want := "public.wallets 1 t {id} {bigint} wallets_pkey {id,v} {bigint,integer} {t,t} {bigint,integer}"; err != nil || got != want {
			t.Errorf("migrated %v: %s (%v), want %s", migrated, got, err, want)
		}
	}
}
