package pgstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// where is a filter with one value.
func where(column string, op fence.FilterOp, values ...string) fence.Filter {
	return fence.Filter{Column: column, Op: op, Values: values}
}

func joined(rows []json.RawMessage) string {
	var b strings.Builder
	for _, r := range rows {
		b.Write(r)
	}
	return b.String()
}

// ids lists the column id of the rows that a query finds, all pages of them.
func (w *world) ids(q fence.RowQuery) string {
	w.t.Helper()
	q.Columns = []string{"id"}
	if q.Limit == 0 {
		q.Limit = fence.MaxRows
	}
	var found []string
	for {
		page, err := w.ListRows(context.Background(), q)
		if err != nil {
			w.t.Fatalf("%+v: %v", q.Filters, err)
		}
		for _, row := range page.Rows {
			found = append(found, strings.TrimSuffix(strings.TrimPrefix(string(row), `{"id":`), "}"))
		}
		if page.Next == "" {
			return strings.Join(found, " ")
		}
		q.After = page.Next
	}
}

func TestListRows(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for name, test := range map[string]func(*testing.T, *world){
		"ColumnsThatMayBeRead": testColumnsThatMayBeRead, "OddNames": testListOfOddNames, "LongRows": testPageOfLongRows, "View": testListOfAView,
	} {
		t.Run(name, func(t *testing.T) { test(t, w) })
	}
	w.exec(`INSERT INTO wallets VALUES (9007199254740993, 'bob', 1234567890123456789012345678901234567890.5), (7, 'ann', 0)`)
	list := func(q fence.RowQuery) fence.RowPage {
		t.Helper()
		q.Table = "public.wallets"
		page, err := w.ListRows(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	page := list(fence.RowQuery{Limit: 10, Count: true})
	const all = `{"id":7,"owner":"ann","balance":0}{"id":42,"owner":"alice","balance":100}` +
		`{"id":9007199254740993,"owner":"bob","balance":1234567890123456789012345678901234567890.5}`
	if joined(page.Rows) != all || page.Next != "" || *page.Count != 3 {
		t.Errorf("%s, next %q, count %d", page.Rows, page.Next, *page.Count)
	}
	page = list(fence.RowQuery{Limit: 10, Columns: []string{"balance", "id"}, NumbersAsText: true, Filters: []fence.Filter{where("id", fence.FilterGt, "9007199254740992")}})
	if joined(page.Rows) != `{"balance":"1234567890123456789012345678901234567890.5","id":"9007199254740993"}` || page.Count != nil {
		t.Errorf("%s", page.Rows)
	}
	// The count is of all that pass, not of the page.
	page = list(fence.RowQuery{Limit: 1, Count: true, Filters: []fence.Filter{where("balance", fence.FilterGte, "100")}})
	if joined(page.Rows) != `{"id":42,"owner":"alice","balance":100}` || page.Next == "" || *page.Count != 2 {
		t.Errorf("%s, next %q, count %d", page.Rows, page.Next, *page.Count)
	}
	page = list(fence.RowQuery{Limit: 1, After: page.Next, Count: true, Columns: []string{"owner"}, Filters: []fence.Filter{where("balance", fence.FilterGte, "100")}})
	if joined(page.Rows) != `{"owner":"bob"}` || page.Next != "" || *page.Count != 2 {
		t.Errorf("%s, next %q, count %d", page.Rows, page.Next, *page.Count)
	}
	page = list(fence.RowQuery{Limit: 1, Filters: []fence.Filter{where("id", fence.FilterEq, "1")}})
	if page.Rows == nil || len(page.Rows) != 0 {
		t.Errorf("%v", page.Rows)
	}
}

// Every operator, on the types that tables have. The row n of a table holds the n-th value; the last is a null.
func TestFilters(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE EXTENSION citext; CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy'); CREATE DOMAIN code AS varchar(3) CHECK (VALUE <> 'no');
		CREATE TYPE pair AS (a int, b text); CREATE SCHEMA odd; CREATE DOMAIN odd.big AS bigint; CREATE TYPE odd.span AS RANGE (subtype = numeric)`)
	for i, c := range []struct {
		typ    string
		values []string
		want   map[string]string // op.value to the ids found; in's values are separated by |
	}{
		{"bigint", []string{"9007199254740993", "9007199254740992", "-5"}, map[string]string{
			"eq.9007199254740993": "1", "neq.9007199254740993": "2 3", "lt.0": "3", "lte.9007199254740992": "2 3", "gt.9007199254740992": "1", "gte.-5": "1 2 3",
			"in.-5|9007199254740992": "2 3", "in.": "", "is.null": "4", "is.not_null": "1 2 3", "eq.+042": "",
		}},
		{"numeric(60,10)", []string{"1234567890123456789012345678901234567890.0000000001", "NaN", "1.5"}, map[string]string{
			"eq.1234567890123456789012345678901234567890.0000000001": "1", "gt.1234567890123456789012345678901234567890": "1 2", "eq.NaN": "2", "eq.1.50": "3",
			"lt.Infinity": "1 3", "eq.1.50000000001": "",
		}},
		{"text", []string{"a,b", `q"\'.(x)`, "50%", "", "a_c"}, map[string]string{
			"eq.a,b": "1", `eq.q"\'.(x)`: "2", "eq.50%": "3", "eq.": "4", "like.%": "1 2 3 4 5", "like.a_b": "1", `like.%\%`: "3", `like.a\_c`: "5", "like.A%": "",
			"in.|a,b|50%": "1 3 4", "neq.": "1 2 3 5", "gte.a": "1 2 5", "eq.null": "",
		}},
		{"varchar(5)", []string{"abcde", "b"}, map[string]string{"eq.abcdef": "", "eq.b": "2", "in.b|abcde|abcdef": "1 2", "like.abc%": "1"}},
		{"char(4)", []string{"ab", "cd"}, map[string]string{"eq.ab": "1", "eq.ab  ": "1", "in.ab|cd": "1 2", "like.ab%": "1"}},
		{"citext", []string{"Ann", "bob"}, map[string]string{"eq.ANN": "1", "in.BOB|x": "2", "like.an%": "1", "lt.B": "1", "neq.ann": "2"}},
		{"mood", []string{"sad", "ok", "happy"}, map[string]string{"eq.ok": "2", "gt.sad": "2 3", "in.sad|happy": "1 3"}},
		{"code", []string{"abc", "x"}, map[string]string{"eq.x": "2", "eq.no": "", "in.no|abc": "1", "like.a%": "1", "eq.abcd": ""}},
		{"odd.big", []string{"1", "9007199254740993"}, map[string]string{"eq.9007199254740993": "2", "in.1": "1"}},
		{"boolean", []string{"true", "false"}, map[string]string{"is.true": "1", "is.false": "2", "is.unknown": "3", "eq.yes": "1", "in.t|f": "1 2"}},
		{"bigint[]", []string{"{1,9007199254740993}", "{}", "{NULL}"}, map[string]string{
			"eq.{1,9007199254740993}": "1", "in.{}|{NULL}": "2 3", "gt.{1}": "1 3", "is.null": "4",
		}},
		{"text[]", []string{`{"a,b",""}`, "{x}"}, map[string]string{`eq.{"a,b",""}`: "1", "in.{x}|{y}": "2"}},
		{"code[]", []string{"{abc}", "{x}"}, map[string]string{"eq.{x}": "2"}},
		{"int4range", []string{"[1,5)", "empty"}, map[string]string{"eq.[1,4]": "1", "in.empty|[1,5)": "1 2"}},
		{"odd.span", []string{"[1,5)", "empty"}, map[string]string{"eq.[1,5)": "1"}},
		{"int8multirange", []string{"{[1,5),[7,9)}", "{}"}, map[string]string{"eq.{[7,9),[1,5)}": "1"}},
		{"pair", []string{"(1,x)", "(,)"}, map[string]string{"eq.(1,x)": "1", "is.null": "3", "is.not_null": "1 2", "eq.(,)": "2", "in.(,)|(1,y)": "2"}},
		{"jsonb", []string{`{"a": 900719925474099312}`, "null"}, map[string]string{`eq.{"a":900719925474099312}`: "1", "eq.null": "2", "is.null": "3"}},
		{"bytea", []string{`\xab00`, `\x`}, map[string]string{`eq.\xAB00`: "1", `in.\x|\x01`: "2", `gt.\x`: "1"}},
		{"date", []string{"2026-11-29", "infinity"}, map[string]string{"eq.20261129": "1", "gt.2026-11-29": "2", "eq.Nov 29 2026": "1"}},
		{"timestamp", []string{"2026-11-29 10:00:00.123456", "-infinity"}, map[string]string{"eq.2026-11-29T10:00:00.123456": "1", "lt.2026-01-01": "2"}},
		{"timestamptz", []string{"2026-11-29 10:00:00+00", "2026-01-01 00:00:00+00"}, map[string]string{"eq.2026-11-29T12:00:00+02": "1", "lt.2026-01-01 00:00:01": "2"}},
		{"interval", []string{"1 day", "24:00:00"}, map[string]string{"eq.24 hours": "1 2"}},
		{"uuid", []string{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}, map[string]string{"eq.A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11": "1"}},
		{"inet", []string{"10.0.0.1", "10.0.0.1/8"}, map[string]string{"eq.10.0.0.1/32": "1", "eq.10.0.0.1/8": "2"}},
		{"real", []string{"0.1", "NaN"}, map[string]string{"eq.0.1": "1", "eq.NaN": "2"}},
		{"bit(3)", []string{"101"}, map[string]string{"eq.101": "1", "eq.1": ""}},
		{`"char"`, []string{"x"}, map[string]string{"eq.x": "1"}},
		{"name", []string{"x"}, map[string]string{"eq.x": "1", "like.x%": "1"}},
		{"tsvector", []string{"'a' 'b'"}, map[string]string{"eq.'b' 'a'": "1"}},
		{"money", []string{"10.50"}, map[string]string{"eq.10.50": "1"}},
		{"json", []string{"1"}, map[string]string{"is.null": "2", "is.not_null": "1"}},
		{"point", []string{"(1,2)"}, map[string]string{"is.null": "2"}},
	} {
		t.Run(c.typ, func(t *testing.T) {
			table := fmt.Sprintf("f%d", i)
			w.exec("CREATE TABLE " + table + " (id int PRIMARY KEY, v " + c.typ + "); SELECT fence.protect('" + table + "', 'f')")
			for n, v := range append(c.values, "<null>") {
				if _, err := w.db.Exec(t.Context(), "INSERT INTO "+table+" SELECT $1::int, nullif($2::text, '<null>')::"+c.typ, n+1, v); err != nil {
					t.Fatal(err)
				}
			}
			for filter, want := range c.want {
				op, value, _ := strings.Cut(filter, ".")
				f := where("v", fence.FilterOp(op), value)
				if f.Op == fence.FilterIn {
					f.Values = strings.Split(value, "|")
					if value == "" {
						f.Values = nil
					}
				}
				if got := w.ids(fence.RowQuery{Table: table, Filters: []fence.Filter{f}}); got != want {
					t.Errorf("%s: %s, want %s", filter, got, want)
				}
			}
		})
	}
}

func TestListRefuses(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false); CREATE DOMAIN code AS varchar(3) CHECK (VALUE <> 'no');
		CREATE TYPE deep AS (a int, j json); CREATE TYPE mood AS ENUM ('sad');
		CREATE TABLE l (id int PRIMARY KEY, i int, t text, ts timestamp, b bytea, j json, p point, n text COLLATE nocase, d deep, m mood, c code[], ok boolean, long text);
		INSERT INTO l VALUES (1, 1, 'a', now(), '', '1', '(1,2)', 'a', '(1,1)', 'sad', '{abc}', true, repeat('x', 20000)), (2, 1, 'a', now(), '', '1', '(1,2)', 'a', '(1,2)', 'sad', '{abc}', true, 'y');
		SELECT fence.protect('l', 'l')`)
	for _, c := range []struct {
		q     fence.RowQuery
		code  fence.Code
		field string
	}{
		{fence.RowQuery{Filters: []fence.Filter{where("nope", "eq", "1")}}, fence.CodeInvalidRequest, "nope"},
		{fence.RowQuery{Filters: []fence.Filter{where("ID", "eq", "1")}}, fence.CodeInvalidRequest, "ID"},
		{fence.RowQuery{Columns: []string{"id", "nope"}}, fence.CodeInvalidRequest, "nope"},
		{fence.RowQuery{Columns: []string{"id", "id"}}, fence.CodeInvalidRequest, "select"},
		{fence.RowQuery{Columns: []string{}}, fence.CodeInvalidRequest, "select"},
		{fence.RowQuery{Columns: []string{"ctid"}}, fence.CodeInvalidRequest, "ctid"},
		{fence.RowQuery{Order: []fence.OrderBy{{Column: "nope"}}}, fence.CodeInvalidRequest, "nope"},
		{fence.RowQuery{Order: []fence.OrderBy{{Column: "i"}, {Column: "i"}}}, fence.CodeInvalidRequest, "order"},
		{fence.RowQuery{Order: []fence.OrderBy{{Column: "i", Nulls: "middle"}}}, fence.CodeInvalidRequest, "order"},
		{fence.RowQuery{Order: []fence.OrderBy{{Column: "j"}}}, fence.CodeInvalidRequest, "j"},
		{fence.RowQuery{Order: []fence.OrderBy{{Column: "p"}}}, fence.CodeInvalidRequest, "p"},
		{fence.RowQuery{Order: []fence.OrderBy{{Column: "d"}}}, fence.CodeInvalidRequest, ""},
		{fence.RowQuery{Order: []fence.OrderBy{{Column: "long"}}, Limit: 1}, fence.CodeInvalidRequest, "order"},
		{fence.RowQuery{Filters: []fence.Filter{where("i", "eq", "x")}}, fence.CodeInvalidRequest, "i"},
		{fence.RowQuery{Filters: []fence.Filter{where("t", "eq", "x"), where("i", "eq", "99999999999999999999")}}, fence.CodeInvalidRequest, "i"},
		{fence.RowQuery{Filters: []fence.Filter{where("i", "in", "1", "", "2")}}, fence.CodeInvalidRequest, "i"},
		{fence.RowQuery{Filters: []fence.Filter{where("i", "eq")}}, fence.CodeInvalidRequest, "i"},
		{fence.RowQuery{Filters: []fence.Filter{where("i", "eq", "1", "2")}}, fence.CodeInvalidRequest, "i"},
		{fence.RowQuery{Filters: []fence.Filter{where("i", "between", "1")}}, fence.CodeInvalidRequest, "i"},
		{fence.RowQuery{Filters: []fence.Filter{where("i", "like", "1%")}}, fence.CodeInvalidRequest, "i"},
		{fence.RowQuery{Filters: []fence.Filter{where("t", "like", `a\`)}}, fence.CodeInvalidRequest, "t"},
		{fence.RowQuery{Filters: []fence.Filter{where("t", "eq", "a\x00b")}}, fence.CodeInvalidRequest, "t"},
		{fence.RowQuery{Filters: []fence.Filter{where("t", "eq", "\xff")}}, fence.CodeInvalidRequest, "t"},
		{fence.RowQuery{Filters: []fence.Filter{where("ts", "eq", "2026-01-01T00:00:00Z")}}, fence.CodeInvalidRequest, "ts"},
		{fence.RowQuery{Filters: []fence.Filter{where("ts", "eq", "2026-13-01")}}, fence.CodeInvalidRequest, "ts"},
		{fence.RowQuery{Filters: []fence.Filter{where("b", "eq", "abc")}}, fence.CodeInvalidRequest, "b"},
		{fence.RowQuery{Filters: []fence.Filter{where("b", "eq", `\xzz`)}}, fence.CodeInvalidRequest, "b"},
		{fence.RowQuery{Filters: []fence.Filter{where("j", "eq", "1")}}, fence.CodeInvalidRequest, "j"},
		{fence.RowQuery{Filters: []fence.Filter{where("p", "in", "(1,2)")}}, fence.CodeInvalidRequest, "p"},
		{fence.RowQuery{Filters: []fence.Filter{where("n", "like", "a%")}}, fence.CodeInvalidRequest, ""},
		{fence.RowQuery{Filters: []fence.Filter{where("d", "eq", "(1,1)")}}, fence.CodeInvalidRequest, ""},
		{fence.RowQuery{Filters: []fence.Filter{where("m", "eq", "glad")}}, fence.CodeInvalidRequest, "m"},
		{fence.RowQuery{Filters: []fence.Filter{where("c", "eq", "{no}")}}, fence.CodeInvalidRequest, "c"},
		{fence.RowQuery{Filters: []fence.Filter{where("i", "is", "true")}}, fence.CodeInvalidRequest, "i"},
		{fence.RowQuery{Filters: []fence.Filter{where("ok", "is", "maybe")}}, fence.CodeInvalidRequest, "ok"},
		{fence.RowQuery{Limit: -1}, fence.CodeInvalidRequest, "limit"},
		{fence.RowQuery{Limit: fence.MaxRows + 1}, fence.CodeInvalidRequest, "limit"},
		{fence.RowQuery{Table: "free"}, fence.CodeNotFound, ""},
		{fence.RowQuery{Table: "fence.marks"}, fence.CodeNotFound, ""},
	} {
		c.q.Limit = max(c.q.Limit, -1)
		if c.q.Limit == 0 {
			c.q.Limit = 10
		}
		if c.q.Table == "" {
			c.q.Table = "l"
		}
		_, err := w.ListRows(t.Context(), c.q)
		var e *fence.Error
		if !errors.As(err, &e) || e.Code != c.code || e.Field != c.field {
			t.Errorf("%+v: %v, want %s in %q", c.q, err, c.code, c.field)
		}
	}
	if got := w.ids(fence.RowQuery{Table: "l", Filters: []fence.Filter{where("n", "eq", "A")}}); got != "1 2" {
		t.Errorf("in a collation that ignores case: %s", got)
	}
}

// A column that may not be read is refused wherever it is used, whether it exists or not. Those of the key may be.
func testColumnsThatMayBeRead(t *testing.T, w *world) {
	q := fence.RowQuery{Table: "wallets", Limit: 10, Shown: []string{"owner", "gone"}}
	page, err := w.ListRows(t.Context(), q)
	if err != nil || joined(page.Rows) != `{"id":42,"owner":"alice"}` {
		t.Errorf("%s, %v", page.Rows, err)
	}
	q.Columns, q.Order, q.Filters = []string{"owner"}, []fence.OrderBy{{Column: "id"}}, []fence.Filter{where("id", "eq", "42")}
	page, err = w.ListRows(t.Context(), q)
	if err != nil || joined(page.Rows) != `{"owner":"alice"}` {
		t.Errorf("%s, %v", page.Rows, err)
	}
	for _, name := range []string{"balance", "nope"} {
		for _, x := range []fence.RowQuery{{Columns: []string{name}}, {Filters: []fence.Filter{where(name, "eq", "1")}}, {Order: []fence.OrderBy{{Column: name}}}} {
			x.Table, x.Limit, x.Shown = "wallets", 10, []string{"owner"}
			_, err := w.ListRows(t.Context(), x)
			if e := wantCode(t, err, fence.CodeForbidden); e.Field != name {
				t.Errorf("field %q", e.Field)
			}
		}
	}
	x := fence.RowQuery{Table: "wallets", Limit: 10, Shown: []string{"gone"}, Columns: []string{"gone"}}
	_, err = w.ListRows(t.Context(), x)
	wantCode(t, err, fence.CodeInvalidRequest)
}

func testListOfOddNames(t *testing.T, w *world) {
	w.exec(`CREATE SCHEMA "a.b"; CREATE TABLE "a.b"."Reply" ("User Id" int PRIMARY KEY, "select" text, t text, q text, v text, "x""y" text);
		INSERT INTO "a.b"."Reply" VALUES (1, 'a', 'b', 'c', 'd', 'e'), (2, 'f', 'g', 'h', 'i', 'j'); SELECT fence.protect('"a.b"."Reply"', 'r')`)
	q := fence.RowQuery{
		Table: `"a.b"."Reply"`, Limit: 1, Count: true, Order: []fence.OrderBy{{Column: "select", Descending: true}, {Column: `x"y`}},
		Filters: []fence.Filter{where("t", "in", "b", "g"), where("q", "gte", "c"), where("v", "like", "_"), where("User Id", "gt", "0")},
	}
	page, err := w.ListRows(t.Context(), q)
	if err != nil || joined(page.Rows) != `{"User Id":2,"select":"f","t":"g","q":"h","v":"i","x\"y":"j"}` || *page.Count != 2 {
		t.Fatalf("%s, %v", page.Rows, err)
	}
	q.After = page.Next
	if page, err = w.ListRows(t.Context(), q); err != nil || joined(page.Rows) != `{"User Id":1,"select":"a","t":"b","q":"c","v":"d","x\"y":"e"}` || page.Next != "" {
		t.Errorf("%s, %v", page.Rows, err)
	}
}

// A page ends early where its rows are long, and says that more follow.
func testPageOfLongRows(t *testing.T, w *world) {
	w.exec(`CREATE TABLE longs (id int PRIMARY KEY, v text); INSERT INTO longs SELECT i, repeat('x', 5 << 20) FROM generate_series(1, 3) i; SELECT fence.protect('longs', 'l')`)
	page, err := w.ListRows(t.Context(), fence.RowQuery{Table: "longs", Limit: 100})
	if err != nil || len(page.Rows) != 2 || page.Next == "" {
		t.Fatalf("%d rows, next %q, %v", len(page.Rows), page.Next, err)
	}
	page, err = w.ListRows(t.Context(), fence.RowQuery{Table: "longs", Limit: 100, After: page.Next})
	if err != nil || len(page.Rows) != 1 || page.Next != "" || !strings.HasPrefix(string(page.Rows[0]), `{"id":3,`) {
		t.Fatalf("%d rows, next %q, %v", len(page.Rows), page.Next, err)
	}
}
