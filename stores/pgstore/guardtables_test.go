package pgstore_test

import (
	"strings"
	"testing"
)

// Names under which a row is admitted and asked for are the same, whatever the session's settings.
func TestGuardOfEveryKeyType(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	g.exec(`CREATE TYPE mood AS ENUM ('so so', 'glad'); CREATE DOMAIN short AS varchar(8); CREATE DOMAIN money2 AS numeric(10,2);
		CREATE DOMAIN day AS date; CREATE SCHEMA "o.d"; CREATE TYPE "o.d"."M o" AS ENUM ('x,y')`)
	odd := []string{"SET LOCAL DateStyle = 'SQL, DMY'", "SET LOCAL TimeZone = 'Asia/Kolkata'", "SET LOCAL bytea_output = 'escape'",
		"SET LOCAL IntervalStyle = 'iso_8601'", "SET LOCAL search_path = pg_temp", "SET LOCAL quote_all_identifiers = on"}
	for _, c := range []struct{ typ, values string }{
		{"smallint", "-7"}, {"bigint", "9223372036854775807"}, {"oid", "4000000000"}, {"numeric", "1.500|NaN|-Infinity|0.0010|123456789012345678901234567890.10"},
		{"text", `a,b/é %|~x|"|\`}, {"varchar(10)", "x y"}, {"char(5)", "ab"}, {"name", "N"}, {"uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"}, {"boolean", "t"},
		{"date", "2026-02-01|infinity|0044-03-15 BC"}, {"timestamp", "2026-02-01 03:04:05.25|-infinity|0044-03-15 01:00:00 BC"},
		{"timestamptz", "2026-02-01 03:04:05+00|infinity|0044-03-15 01:00:00+00 BC|1890-01-01 00:00:00+00"}, {"time", "03:04:05.5"}, {"timetz", "03:04:05+05:30"},
		{"bytea", `\x00ff41`}, {"inet", "10.0.0.1|10.0.0.1/8|::1"}, {"cidr", "10.0.0.0/8|::1/128"}, {"macaddr", "08:00:2b:01:02:03"}, {"bit(3)", "101"}, {"bit varying", "10"},
		{"mood", "so so"}, {`"o.d"."M o"`, "x,y"}, {"short", "a%b"}, {"money2", "5"}, {"day", "2026-02-01"}, {"timestamptz(0)", "2026-02-01 03:04:05.4+00"},
	} {
		t.Run(c.typ, func(t *testing.T) {
			g.exec(`DROP TABLE IF EXISTS k; CREATE TABLE k (id ` + c.typ + ` PRIMARY KEY, v int); SELECT fence.protect('k', 'all'); SELECT fence.guard('k')`)
			for value := range strings.SplitSeq(c.values, "|") {
				insert := "INSERT INTO public.k VALUES ('" + value + "', 0)"
				key := g.text("SELECT fence.escape(fence.canonical(key_types[1], CAST($1::text AS "+c.typ+")::text)) FROM fence.protected WHERE name = 'public.k'", value)
				wantState(t, g.db, "FG016", "CREATE TEMP TABLE x ()", insert)
				change := append(odd[:len(odd):len(odd)], "UPDATE public.k SET v = 1", "DELETE FROM public.k")
				wantState(t, g.db, "", append([]string{g.admit("k", key), insert}, change...)...)
				err := wantState(t, g.db, "FG016", append([]string{"SET LOCAL session_replication_role = replica", insert, "SET LOCAL session_replication_role = origin"}, change...)...)
				if err != nil && !strings.Contains(err.Detail, "rows/public.k/"+key+`"`) {
					t.Errorf("%+v: the row should be called %s", err, key)
				}
			}
		})
	}
	g.exec(`CREATE TABLE c ("B b" text, a int, v int, PRIMARY KEY (a, "B b")); SELECT fence.protect('c', 'all'); SELECT fence.guard('c')`)
	wantState(t, g.db, "", g.admit("c", "1,x%2Cy"), `INSERT INTO c VALUES ('x,y', 1)`)
	wantState(t, g.db, "FG016", g.admit("c", "1,x"), `INSERT INTO c VALUES ('x,y', 1)`)
	wantState(t, g.db, "FG016", g.admit("c", "1,x"), `INSERT INTO c VALUES ('x', 1)`, `UPDATE c SET "B b" = 'y'`)
	if err := wantState(t, g.db, "FG016", g.admit("c", "1,x"), `INSERT INTO c VALUES ('', 1)`); err != nil && !strings.Contains(err.Message, "cannot be admitted") {
		t.Error(err)
	}
}

func TestGuardOfPartitions(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	g.exec(`CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
		CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10); CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
		CREATE TABLE p21 (v int, id int NOT NULL); ALTER TABLE p2 ATTACH PARTITION p21 FOR VALUES FROM (10) TO (20);
		INSERT INTO p VALUES (1, 0), (11, 0); SELECT fence.protect('p', 'all'); SELECT fence.guard('p')`)
	for _, sql := range []string{"UPDATE p SET v = 1", "UPDATE p1 SET v = 1", "DELETE FROM p21", "INSERT INTO p1 VALUES (2)", "UPDATE p SET id = 12 WHERE id = 1", "COPY p21: 1\t12\n"} {
		wantState(t, g.db, "FG016", sql)
		wantState(t, g.db, "FG016", g.admit("p", "5"), sql)
	}
	for _, table := range []string{"p", "p1", "p2", "p21"} {
		wantState(t, g.db, "FG017", g.admit("p", "1", "11"), "TRUNCATE "+table)
	}
	const move = "UPDATE p SET id = 12 WHERE id = 1"
	wantState(t, g.db, "FG016", g.admit("p", "1"), move)
	wantState(t, g.db, "FG016", g.admit("p", "12"), move)
	wantState(t, g.db, "", g.admit("p", "1", "12"), move, "UPDATE p21 SET v = 1 WHERE id = 12")

	// Those that come later are guarded: rows by PostgreSQL itself, statements once the guard is refreshed, here by the event trigger.
	g.exec(`CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30); CREATE TABLE p4 (id int NOT NULL, v int); ALTER TABLE p ATTACH PARTITION p4 FOR VALUES FROM (30) TO (40)`)
	for _, table := range []string{"p3", "p4"} {
		wantState(t, g.db, "FG016", "CREATE TEMP TABLE x ()", "INSERT INTO "+table+" VALUES (CASE '"+table+"' WHEN 'p3' THEN 20 ELSE 30 END)")
		wantState(t, g.db, "FG017", "TRUNCATE "+table)
	}
	g.exec(`ALTER EVENT TRIGGER fencegate_guard DISABLE; CREATE TABLE p5 PARTITION OF p FOR VALUES FROM (40) TO (50)`)
	wantState(t, g.db, "FG016", "INSERT INTO p5 VALUES (40)")
	if state := g.text("SELECT state FROM fence.protections() WHERE name = 'public.p'"); state != "guard-gaps" {
		t.Errorf("its state is %q", state)
	}
	if made := g.text("SELECT fence.refresh_guards()::text || fence.refresh_guards()"); made != "10" {
		t.Errorf("guards were refreshed: %s", made)
	}
	wantState(t, g.db, "FG017", "TRUNCATE p5")

	// A partition that leaves is guarded no more.
	g.exec("ALTER TABLE p DETACH PARTITION p1; UPDATE p1 SET v = 7; TRUNCATE p1")
	g.exec("SELECT fence.unguard('p1')")
	wantState(t, g.db, "", "UPDATE p1 SET v = 7", "TRUNCATE p1")

	// Tables that inherit have no clones of triggers.
	g.exec(`CREATE TABLE par (id int PRIMARY KEY, v int); CREATE TABLE child (w int) INHERITS (par); INSERT INTO child VALUES (1, 0, 0);
		SELECT fence.protect('par', 'all'); SELECT fence.guard('par')`)
	wantState(t, g.db, "FG016", g.admit("par", "2"), "UPDATE par SET v = 1")
	wantState(t, g.db, "FG016", g.admit("par", "2"), "DELETE FROM child")
	wantState(t, g.db, "FG017", "TRUNCATE child")
	wantState(t, g.db, "", g.admit("par", "1"), "UPDATE par SET v = 1", "UPDATE child SET w = 1")
	g.exec("SELECT fence.unguard('par'); TRUNCATE par; SELECT fence.unguard('p'); TRUNCATE p")
}

// Rows that a foreign key changes must be admitted as others must.
func TestGuardAndCascades(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	g.exec(`CREATE TABLE owners (id int PRIMARY KEY); INSERT INTO owners VALUES (1), (2), (3), (4);
		CREATE TABLE owned (id int PRIMARY KEY, a int REFERENCES owners ON DELETE CASCADE ON UPDATE CASCADE, b int REFERENCES owners ON DELETE SET NULL);
		INSERT INTO owned VALUES (10, 1, NULL), (11, 1, NULL), (20, NULL, 2); SELECT fence.protect('owned', 'all'); SELECT fence.guard('owned')`)
	for _, c := range []struct {
		sql   string
		needs []string
	}{
		{"DELETE FROM owners WHERE id = 1", []string{"10", "11"}},
		{"DELETE FROM owners WHERE id = 2", []string{"20"}},
		{"UPDATE owners SET id = 9 WHERE id = 1", []string{"10", "11"}},
	} {
		wantState(t, g.db, "FG016", c.sql)
		wantState(t, g.db, "FG016", g.admit("owned", c.needs[1:]...), c.sql)
		wantState(t, g.db, "", g.admit("owned", c.needs...), c.sql)
	}
	wantState(t, g.db, "", "DELETE FROM owners WHERE id = 4")
	wantState(t, g.db, "FG017", "TRUNCATE owners CASCADE")
}

// Whatever is changed in a guarded table leaves it closed, or opens it in plain words.
func TestGuardOutlivesChanges(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	const change = "UPDATE acct SET v = 1 WHERE id = 1"
	altered := func(want string, sql ...string) {
		t.Helper()
		if err := wantState(t, g.db, "FG016", append([]string{"CREATE TEMP TABLE x ()"}, sql...)...); err != nil && !strings.Contains(err.Message, want) {
			t.Error(err)
		}
	}
	admit := g.admit("acct", "1")
	rename := "ALTER TABLE acct RENAME TO gone"
	altered("renamed", rename, "UPDATE gone SET v = 1 WHERE id = 1")
	wantState(t, g.db, "FG007", rename, admit)
	// Another table takes the name, and its rows are admitted.
	replace := "CREATE TABLE acct (LIKE gone INCLUDING ALL)"
	altered("renamed", rename, replace, admit, "UPDATE gone SET v = 1 WHERE id = 1")
	wantState(t, g.db, "FG016", rename, replace, "SELECT fence.protect('acct', 'all')", "INSERT INTO acct VALUES (1)")
	wantState(t, g.db, "", rename, replace, "SELECT fence.protect('acct', 'all')", admit, "INSERT INTO acct VALUES (1)", "SELECT fence.unguard('gone')", "UPDATE gone SET v = 1")
	altered("its key altered", "ALTER TABLE acct RENAME id TO key", "UPDATE acct SET v = 1")
	wantState(t, g.db, "0A000", "ALTER TABLE acct ALTER id TYPE bigint")

	other := "ALTER TABLE acct ADD k int GENERATED BY DEFAULT AS IDENTITY; ALTER TABLE acct DROP CONSTRAINT acct_pkey, ADD PRIMARY KEY (k)"
	altered("its key altered", other, "UPDATE acct SET v = 1")
	again := "SELECT fence.protect('acct', 'all:{k}')"
	wantState(t, g.db, "FG016", other, again, "UPDATE acct SET v = 1")
	wantState(t, g.db, "", other, again, "SELECT fence.protect('acct', 'all')", g.admit("acct", "1", "2", "3"), "UPDATE acct SET v = 1, id = id + 100")

	// The version stays when nothing changes; the guard is made whole again.
	if got := g.text("SELECT (fence.protect('acct', 'all') = fence.protect('acct', 'all') AND fence.protect('acct', 'b') < fence.protect('acct', 'all'))::text"); got != "true" {
		t.Error("protect")
	}
	for _, gap := range []string{"ALTER TABLE acct DISABLE TRIGGER fence_guard_update", "DROP TRIGGER fence_guard_update ON acct", "ALTER TABLE acct DISABLE TRIGGER USER"} {
		wantState(t, g.db, "", "CREATE TEMP TABLE x ()", gap, change)
		wantState(t, g.db, "FG016", gap, again[:len(again)-6]+"')", change)
		wantState(t, g.db, "FG016", gap, "SELECT fence.guard('acct')", change)
	}
	// What goes round it, and is documented.
	wantState(t, g.db, "", "SET LOCAL session_replication_role = replica", change)
	wantState(t, g.db, "", "SELECT fence.unguard('acct')", change, "TRUNCATE acct")
	wantState(t, g.db, "", "SELECT fence.unprotect('acct')", change)
	wantState(t, g.db, "FG007", "SELECT fence.guard('nowhere')")
	wantState(t, g.db, "FG007", "CREATE TABLE bare (id int PRIMARY KEY)", "SELECT fence.guard('bare')")
	wantState(t, g.db, "FG007", "SELECT fence.unguard('nowhere')")
	wantState(t, g.db, "FG014", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT fence.guard('acct')")
}
