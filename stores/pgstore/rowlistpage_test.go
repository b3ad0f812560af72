package pgstore_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// Pages put together are what one ordered read gives, whatever the order: over nulls, both directions, mixed ones, and rows that
// are equal in all but the key.
func TestPagesAreTheWhole(t *testing.T) {
	w := newWorld(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	w.exec(`CREATE EXTENSION citext; CREATE TABLE p (k1 int, k2 text, i bigint, n numeric, s text, c citext, ts timestamptz, f float8, a int[], j jsonb, b bytea, PRIMARY KEY (k1, k2));
		SELECT fence.protect('p', 'p')`)
	values := map[string][]string{
		"i": {"9007199254740993", "9007199254740992", "-1", ""}, "n": {"1234567890123456789012345678901234567890.1", "1.10", "NaN", "-Infinity", ""},
		"s": {"a,b", "ä", "A", "a", `"\`, " ", ""}, "c": {"x", "X", "y", ""}, "ts": {"2026-01-01 00:00:00.000001+00", "infinity", "0044-03-15 00:00:00+00 BC", ""},
		"f": {"0.1", "0.30000000000000004", "-0", "NaN", "1e-320", ""}, "a": {"{1,NULL}", "{1}", "{}", ""}, "j": {`{"a": 900719925474099312}`, "null", "[]", ""}, "b": {`\x00ff`, `\x`, ""},
	}
	names := []string{"i", "n", "s", "c", "ts", "f", "a", "j", "b"}
	for k := range 150 {
		row := []any{k / 20, fmt.Sprintf("k%d'\"", k%20)}
		sql := "INSERT INTO p VALUES ($1::int, $2"
		for i, name := range names {
			v := values[name][rnd.IntN(len(values[name]))]
			row = append(row, v)
			sql += fmt.Sprintf(", nullif($%d::text, '')::%s", i+3, map[string]string{"i": "bigint", "n": "numeric", "s": "text", "c": "citext", "ts": "timestamptz", "f": "float8", "a": "int[]", "j": "jsonb", "b": "bytea"}[name])
		}
		if _, err := w.db.Exec(t.Context(), sql+")", row...); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 30 {
		q := fence.RowQuery{Table: "p", Columns: []string{"k1", "k2"}, Limit: 1 + rnd.IntN(40)}
		by := slices.Clone(append(names, "k1", "k2"))
		rnd.Shuffle(len(by), func(i, j int) { by[i], by[j] = by[j], by[i] })
		var order []string
		by = by[:rnd.IntN(4)]
		if round < 4 { // of the key alone
			by = [][]string{{"k1", "k2"}, {"k2"}}[round%2]
		}
		for i, name := range by {
			o := fence.OrderBy{Column: name, Descending: rnd.IntN(2) == 0, Nulls: []string{"", "first", "last"}[rnd.IntN(3)]}
			if round < 4 {
				o.Descending = i == round/2
			}
			q.Order = append(q.Order, o)
			order = append(order, name+map[bool]string{true: " DESC", false: " ASC"}[o.Descending]+map[string]string{"": "", "first": " NULLS FIRST", "last": " NULLS LAST"}[o.Nulls])
		}
		down := ""
		if len(q.Order) > 0 && q.Order[len(q.Order)-1].Descending {
			down = " DESC"
		}
		order = append(order, "k1"+down, "k2"+down)
		if rnd.IntN(3) == 0 {
			q.Filters = []fence.Filter{where("k1", fence.FilterNeq, "3")}
		}
		sql := "SELECT row_to_json(q)::text FROM (SELECT k1, k2 FROM p WHERE k1 <> 3 OR " + fmt.Sprint(q.Filters == nil) + " ORDER BY " + strings.Join(order, ", ") + ") q"
		rows, err := w.db.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		want, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for pages := 0; pages == 0 || q.After != ""; pages++ {
			page, err := w.ListRows(t.Context(), q)
			if err != nil {
				t.Fatalf("round %d, %s: %v", round, order, err)
			}
			for _, r := range page.Rows {
				got = append(got, string(r))
			}
			if q.After = page.Next; len(got) > len(want) {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("round %d, pages of %d by %s:\n%d rows %s\nwant %d %s", round, q.Limit, order, len(got), got, len(want), want)
		}
	}
}

// A cursor is good for its own query and nothing else, and a forged one is at worst a page of it.
func TestCursors(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE c (id bigint PRIMARY KEY, v int, s text); INSERT INTO c SELECT i, i % 3, 's' || i FROM generate_series(1, 20) i; SELECT fence.protect('c', 'c');
		CREATE TABLE c2 (LIKE c INCLUDING ALL); SELECT fence.protect('c2', 'c')`)
	first := fence.RowQuery{Table: "c", Limit: 2, Order: []fence.OrderBy{{Column: "v"}}, Filters: []fence.Filter{where("id", "gt", "1"), where("s", "like", "s%")}}
	page, err := w.ListRows(t.Context(), first)
	if err != nil || page.Next == "" {
		t.Fatal(page, err)
	}
	next := func(change func(*fence.RowQuery)) error {
		q := first
		q.After = page.Next
		q.Filters = slices.Clone(q.Filters)
		change(&q)
		_, err := w.ListRows(t.Context(), q)
		return err
	}
	for name, change := range map[string]func(*fence.RowQuery){
		"Same": func(*fence.RowQuery) {}, "OtherLimit": func(q *fence.RowQuery) { q.Limit = 7 }, "OtherColumns": func(q *fence.RowQuery) { q.Columns = []string{"s"} },
		"FiltersInAnotherOrder": func(q *fence.RowQuery) { slices.Reverse(q.Filters) }, "NullsWhereTheyAre": func(q *fence.RowQuery) { q.Order = []fence.OrderBy{{Column: "v", Nulls: "last"}} },
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, next(change), fence.CodeAccepted) })
	}
	raw, err := base64.RawURLEncoding.DecodeString(page.Next)
	if err != nil {
		t.Fatal(err)
	}
	forged := func(tail string) func(*fence.RowQuery) {
		return func(q *fence.RowQuery) {
			q.After = base64.RawURLEncoding.EncodeToString(append(slices.Clone(raw[:9]), tail...))
		}
	}
	for name, change := range map[string]func(*fence.RowQuery){
		"OtherOrder":     func(q *fence.RowQuery) { q.Order = []fence.OrderBy{{Column: "v", Descending: true}} },
		"OtherNulls":     func(q *fence.RowQuery) { q.Order = []fence.OrderBy{{Column: "v", Nulls: "first"}} },
		"OtherColumn":    func(q *fence.RowQuery) { q.Order = []fence.OrderBy{{Column: "s"}} },
		"OtherFilter":    func(q *fence.RowQuery) { q.Filters[0].Values = []string{"2"} },
		"OtherOp":        func(q *fence.RowQuery) { q.Filters[0].Op = "gte" },
		"OtherTable":     func(q *fence.RowQuery) { q.Table = "c2" },
		"Garbage":        func(q *fence.RowQuery) { q.After = "garbage" },
		"NotBase64":      func(q *fence.RowQuery) { q.After = "?" },
		"Padded":         func(q *fence.RowQuery) { q.After += "=" },
		"Short":          func(q *fence.RowQuery) { q.After = q.After[:8] },
		"WithLineBreak":  func(q *fence.RowQuery) { q.After += "\n" },
		"Long":           func(q *fence.RowQuery) { q.After = strings.Repeat("A", 20000) },
		"OtherVersion":   func(q *fence.RowQuery) { q.After = "Ag" + q.After[2:] },
		"NoValues":       forged(""),
		"TooManyValues":  forged("\x021\x021\x021"),
		"LengthBeyond":   forged("\x021\xff\xff\x01"),
		"EndlessLength":  forged("\x021\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
		"LongestLength":  forged("\x021\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
		"WrongValue":     forged("\x021\x02x"),
		"ValueWithNUL":   forged("\x021\x02\x00"),
		"ValueNotUTF8":   forged("\x021\x02\xff"),
		"ValueOutOfType": forged("\x0b9999999999\x021"),
	} {
		t.Run(name, func(t *testing.T) {
			if e := wantCode(t, next(change), fence.CodeInvalidRequest); e.Field != "after" {
				t.Errorf("%v in %q", e, e.Field)
			}
		})
	}
	t.Run("ForgedNull", func(t *testing.T) { wantCode(t, next(forged("\x00\x00")), fence.CodeAccepted) })
	t.Run("ProtectedAnew", func(t *testing.T) {
		w.exec("SELECT fence.protect('c', 'other')")
		_, err := w.Row(t.Context(), fence.RowRead{Row: fence.RowName{Table: "c", Key: []string{"1"}}}) // finds the new binding
		wantCode(t, err, fence.CodeAccepted)
		wantCode(t, next(func(*fence.RowQuery) {}), fence.CodeInvalidRequest)
		if page, err = w.ListRows(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		// Whichever description was cached, the cursor of the newest is good.
		wantCode(t, next(func(*fence.RowQuery) {}), fence.CodeAccepted)
	})
}

// What is sorted by the key alone, or by what has an index with it, begins where the page does.
func TestPagesUseTheIndex(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE big (a int, b text, v int, at timestamptz NOT NULL, maybe int, PRIMARY KEY (a, b)); INSERT INTO big SELECT i / 100, i::text, i, now() - i * interval '1 s', i FROM generate_series(1, 20000) i;
		CREATE INDEX big_at ON big (at, a, b); CREATE INDEX big_maybe ON big (maybe, a, b); ANALYZE big; SELECT fence.protect('big', 'b')`)
	for _, c := range []struct {
		order []fence.OrderBy
		want  []string
	}{
		{nil, []string{"using big_pkey", "Index Cond: (ROW(a, b) > ROW("}},
		{[]fence.OrderBy{{Column: "a", Descending: true}}, []string{"Backward using big_pkey", "Index Cond: (ROW(a, b) < ROW("}},
		{[]fence.OrderBy{{Column: "a", Descending: true}, {Column: "b"}}, []string{"Presorted Key: t.a", "Backward using big_pkey", "Index Cond: (a <= "}},
		{[]fence.OrderBy{{Column: "at", Descending: true}}, []string{"Backward using big_at", "Index Cond: (at <= "}},
		{[]fence.OrderBy{{Column: "at"}}, []string{"using big_at", "Index Cond: (ROW(at, a, b) > ROW("}},
		{[]fence.OrderBy{{Column: "maybe"}}, []string{"using big_maybe"}},
	} {
		q := fence.RowQuery{Table: "big", Limit: 10, Order: c.order}
		page, err := w.ListRows(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		q.After = page.Next
		sql, args, err := w.PageSQL(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := w.db.Query(t.Context(), "EXPLAIN "+sql, args...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		for _, want := range c.want {
			if !strings.Contains(plan, want) || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "->  Sort") {
				t.Errorf("%v: no %q in\n%s\n%s", c.order, want, plan, sql)
			}
		}
	}
}

// The key of a view is declared only: it can be null, and such rows are shown although they have no name.
func testListOfAView(t *testing.T, w *world) {
	w.exec(`CREATE TABLE base (k int PRIMARY KEY, ref int, other text); INSERT INTO base VALUES (1, 30, 'c'), (2, 10, 'b'), (3, NULL, 'a'), (4, 20, 'b');
		CREATE VIEW v AS SELECT ref AS id, other FROM base WHERE k < 100; SELECT fence.protect_view('v', 'v:{id}', ARRAY['id'])`)
	for _, c := range []struct {
		order []fence.OrderBy
		want  string
	}{
		{nil, "10 20 30 null"}, {[]fence.OrderBy{{Column: "id", Descending: true}}, "null 30 20 10"},
		{[]fence.OrderBy{{Column: "id", Nulls: "first"}}, "null 10 20 30"}, {[]fence.OrderBy{{Column: "other"}}, "null 10 20 30"},
	} {
		for limit := 1; limit < 5; limit++ {
			if got := w.ids(fence.RowQuery{Table: "v", Limit: limit, Order: c.order}); got != c.want {
				t.Errorf("%v, pages of %d: %s, want %s", c.order, limit, got, c.want)
			}
		}
	}
	w.exec("CREATE OR REPLACE VIEW v AS SELECT ref AS id, other, k FROM base")
	if got := w.ids(fence.RowQuery{Table: "v", Filters: []fence.Filter{where("k", "lte", "2")}}); got != "10 30" {
		t.Errorf("by a new column: %s", got)
	}
}
