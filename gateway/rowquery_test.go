package gateway

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fencegate/fencegate/fence"
)

func TestReadRowQuery(t *testing.T) {
	filters := func(f ...fence.Filter) fence.RowQuery { return fence.RowQuery{Filters: f, Limit: defaultPage} }
	one := func(column string, op fence.FilterOp, values ...string) fence.RowQuery {
		return filters(fence.Filter{Column: column, Op: op, Values: values})
	}
	for raw, want := range map[string]fence.RowQuery{
		"":                           {Limit: defaultPage},
		"limit=1":                    {Limit: 1},
		"limit=1000&after=abc&after": {},
		"limit=7&after=":             {Limit: 7},
		"owner=eq.ann":               one("owner", "eq", "ann"),
		"Owner=eq.Ann":               one("owner", "eq", "Ann"),
		`%22Owner%22=eq.ann`:         one("Owner", "eq", "ann"),
		`"User+Id"=eq.1`:             one("User Id", "eq", "1"),
		`"a""b"=eq.1`:                one(`a"b`, "eq", "1"),
		`"select"=eq.1`:              one("select", "eq", "1"),
		`"LIMIT"=eq.1`:               one("LIMIT", "eq", "1"),
		`"a.b,c=d"=eq.1`:             {},
		`"a.b,c%3Dd"=eq.1`:           one("a.b,c=d", "eq", "1"),
		"v=eq.":                      one("v", "eq", ""),
		"v=eq.a.b,c%26d=e":           one("v", "eq", "a.b,c&d=e"),
		"v=eq.a+b%2Bc%2525":          one("v", "eq", "a b+c%25"),
		`v=eq."a"`:                   one("v", "eq", `"a"`),
		"v=like.a%25b_":              one("v", "like", "a%b_"),
		"v=gt.1&v=lte.9":             filters(fence.Filter{Column: "v", Op: "gt", Values: []string{"1"}}, fence.Filter{Column: "v", Op: "lte", Values: []string{"9"}}),
		"v=is.null":                  one("v", "is", "null"),
		"v=is.not_null":              one("v", "is", "not_null"),
		"v=in.()":                    one("v", "in"),
		"v=in.(a)":                   one("v", "in", "a"),
		`v=in.(a,"b,c",null)`:        one("v", "in", "a", "b,c", "null"),
		`v=in.("")`:                  one("v", "in", ""),
		`v=in.("\"","\\",".")`:       one("v", "in", `"`, `\`, "."),
		`v=in.(a b," c ","()")`:      one("v", "in", "a b", " c ", "()"),
		"v=in.(%00)":                 {},
		"select=a,b":                 {Columns: []string{"a", "b"}, Limit: defaultPage},
		`select=B,"B","a,""b"`:       {Columns: []string{"b", "B", `a,"b`}, Limit: defaultPage},
		"order=a":                    {Order: []fence.OrderBy{{Column: "a"}}, Limit: defaultPage},
		`order=a.desc.nullslast,"b,.c".asc,c.nullsfirst`: {Order: []fence.OrderBy{{Column: "a", Descending: true, Nulls: "last"}, {Column: "b,.c"}, {Column: "c", Nulls: "first"}}, Limit: defaultPage},
		"order=desc.desc": {Order: []fence.OrderBy{{Column: "desc", Descending: true}}, Limit: defaultPage},
	} {
		got, err := readRowQuery(raw)
		if want.Limit == 0 {
			if fence.CodeOf(err) != fence.CodeInvalidRequest {
				t.Errorf("%s: %+v, %v", raw, got, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v\nwant %+v", raw, got, err, want)
		}
	}
}

func TestReadRowQueryRefuses(t *testing.T) {
	many := func(n int, form string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, form, i)
		}
		return b.String()
	}
	for raw, field := range map[string]string{
		"owner":                                 "owner",
		"owner=ann":                             "owner",
		"owner=eq":                              "owner",
		"owner=EQ.ann":                          "owner",
		"owner=not.eq.ann":                      "owner",
		"owner=.ann":                            "owner",
		"=eq.1":                                 "query",
		"&":                                     "query",
		"limit=1&":                              "query",
		"User%20Id=eq.1":                        "User Id",
		"a.b=eq.1":                              "a.b",
		`"a=eq.1`:                               `"a`,
		`""=eq.1`:                               `""`,
		`"a"b=eq.1`:                             `"a"b`,
		"1a=eq.1":                               "1a",
		"a%2Cb=eq.1":                            "a,b",
		"a%27--=eq.1":                           "a'--",
		"%zz=eq.1":                              "query",
		"%ff=eq.1":                              "query",
		"%00=eq.1":                              "query",
		"a=eq.%zz":                              "a",
		"a=eq.%ff":                              "a",
		"a=eq.%00":                              "a",
		"Limit=5":                               "Limit",
		"SELECT=a":                              "SELECT",
		"limit=0":                               "limit",
		"limit=1001":                            "limit",
		"limit=-1":                              "limit",
		"limit=1e3":                             "limit",
		"limit=":                                "limit",
		"limit=1&limit=1":                       "limit",
		"limit=1&l%69mit=2":                     "limit",
		"select":                                "select",
		"select=":                               "select",
		"select=*":                              "select",
		"select=a,":                             "select",
		"select=,a":                             "select",
		"select=a,A":                            "select",
		"select=a.b":                            "select",
		`select="a"b`:                           "select",
		"select=a+,b":                           "select",
		"order=":                                "order",
		"order=a.down":                          "order",
		"order=a.desc.asc":                      "order",
		"order=a.nullslast.desc":                "order",
		"order=a.DESC":                          "order",
		"order=a,a.desc":                        "order",
		"order=a.":                              "order",
		"order=a,":                              "order",
		"v=is.NULL":                             "v",
		"v=is.":                                 "v",
		"v=is.not.null":                         "v",
		"v=in.":                                 "v",
		"v=in.a,b":                              "v",
		"v=in.(a":                               "v",
		"v=in.(a,)":                             "v",
		"v=in.(,a)":                             "v",
		"v=in.(a,+b)":                           "v",
		"v=in.(a+,b)":                           "v",
		"v=in.(a(b)":                            "v",
		`v=in.(a"b)`:                            "v",
		`v=in.("a"b)`:                           "v",
		`v=in.("a)`:                             "v",
		`v=in.("a\")`:                           "v",
		`v=in.("\a")`:                           "v",
		`v=in.(\)`:                              "v",
		"v=eq." + strings.Repeat("x", maxQuery): "query",
		strings.TrimPrefix(many(101, "&c%d=eq.1"), "&"):      "c100",
		"v=in.(1" + many(1000, ",%d") + ")":                  "v",
		"order=" + strings.TrimPrefix(many(17, ",c%d"), ","): "order",
	} {
		got, err := readRowQuery(raw)
		var e *fence.Error
		if !errors.As(err, &e) || e.Code != fence.CodeInvalidRequest || e.Field != field {
			t.Errorf("%.80s: %.200v, %v, want one in %q", raw, got, err, field)
		}
	}
	if _, err := readRowQuery(strings.TrimPrefix(many(100, "&c%d=eq.1"), "&") + "&order=" + strings.TrimPrefix(many(16, ",c%d"), ",")); err != nil {
		t.Error(err)
	}
	if q, err := readRowQuery("v=in.(1" + many(999, ",%d") + ")"); err != nil || len(q.Filters[0].Values) != 1000 {
		t.Error(err)
	}
}

// What is read can be written so that it is read again, and nothing that was sent is left out.
func FuzzRowQuery(f *testing.F) {
	for _, s := range []string{
		"a=eq.1&b=neq.x", `"User+Id"=in.(a,"b,c","\"\\")`, "select=a,%22b%22&order=a.desc.nullslast,b&limit=5&after=x", "a=is.null&a=like.%25_", "Limit=5", "a=in.()", "a=eq.%2525",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := readRowQuery(raw)
		if err != nil {
			if fence.CodeOf(err) != fence.CodeInvalidRequest {
				t.Fatal(err)
			}
			return
		}
		parameters := len(q.Filters)
		for _, given := range []bool{q.Columns != nil, q.Order != nil, strings.Contains(decoded(raw), "limit="), strings.Contains(decoded(raw), "after=")} {
			if given {
				parameters++
			}
		}
		if n := strings.Count(raw, "&") + 1; raw != "" && n > parameters || len(q.Filters) > n {
			t.Fatalf("%q has %d parameters, %+v was read", raw, n, q)
		}
		again, err := readRowQuery(written(q))
		if err != nil || !reflect.DeepEqual(again, q) {
			t.Fatalf("%q: %+v does not round-trip by %q: %+v, %v", raw, q, written(q), again, err)
		}
		for _, filter := range q.Filters {
			for _, v := range append(filter.Values, filter.Column) {
				if !utf8.ValidString(v) || strings.IndexByte(v, 0) >= 0 {
					t.Fatalf("%q: %q", raw, v)
				}
			}
		}
	})
}

func decoded(raw string) string {
	plain, err := url.QueryUnescape(raw)
	if err != nil {
		return raw
	}
	return plain
}

// written writes a query as a client would.
func written(q fence.RowQuery) string {
	quote := func(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
	var parts []string
	add := func(name, value string) { parts = append(parts, url.QueryEscape(name)+"="+url.QueryEscape(value)) }
	for _, f := range q.Filters {
		value := strings.Join(f.Values, "")
		if f.Op == fence.FilterIn {
			var list []string
			for _, v := range f.Values {
				list = append(list, `"`+strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(v)+`"`)
			}
			value = "(" + strings.Join(list, ",") + ")"
		}
		add(quote(f.Column), string(f.Op)+"."+value)
	}
	var columns, order []string
	for _, c := range q.Columns {
		columns = append(columns, quote(c))
	}
	for _, o := range q.Order {
		by := quote(o.Column) + map[bool]string{false: ".asc", true: ".desc"}[o.Descending]
		if o.Nulls != "" {
			by += ".nulls" + o.Nulls
		}
		order = append(order, by)
	}
	if columns != nil {
		add("select", strings.Join(columns, ","))
	}
	if order != nil {
		add("order", strings.Join(order, ","))
	}
	add("limit", fmt.Sprint(q.Limit))
	if q.After != "" {
		add("after", q.After)
	}
	return strings.Join(parts, "&")
}
