package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/client"
)

func TestListOfRows(t *testing.T) {
	r := serve(t, nil)
	for i := range 7 {
		r.row(fmt.Sprint(i))
	}
	var got []string
	r.put(nil)
	for row, err := range r.Rows(t.Context(), "wallets", client.RowQuery{PageSize: 3}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(row))
	}
	if len(got) != 7 || got[0] != `{"balance":100}` || r.asked() != 3 {
		t.Errorf("%d rows in %d requests: %s", len(got), r.asked(), got)
	}
	r.put(nil)
	for range r.Rows(t.Context(), "wallets", client.RowQuery{PageSize: 3}) {
		break
	}
	if r.asked() != 1 {
		t.Errorf("%d requests for one row", r.asked())
	}
	page, err := r.ListRows(t.Context(), fence.RowQuery{Table: "public.wallets", Limit: 2, Count: true})
	if err != nil || len(page.Rows) != 2 || page.Next == "" || *page.Count != 7 {
		t.Errorf("%+v, %v", page, err)
	}
	var row struct{ Balance json.Number }
	if err := client.DecodeRow(fence.Row{JSON: page.Rows[0]}, &row); err != nil || row.Balance != "100" {
		t.Error(row, err)
	}
}

func TestListEndsWithAnError(t *testing.T) {
	r := serve(t, nil)
	for i := range 4 {
		r.row(fmt.Sprint(i))
	}
	r.put(func(w http.ResponseWriter, req *http.Request, n int, next http.Handler) {
		if n == 2 {
			refusing(n, 403, fence.CodeForbidden)(w, req, n, next)
			return
		}
		next.ServeHTTP(w, req)
	})
	told := 0
	var last error
	for row, err := range r.Rows(t.Context(), "wallets", client.RowQuery{PageSize: 2}) {
		if last = err; err == nil && row != nil {
			told++
		}
	}
	if wantCode(t, last, fence.CodeForbidden); told != 2 {
		t.Errorf("told %d rows", told)
	}
	// What passes is asked again, and tells each row once.
	r.put(refusing(1, 503, fence.CodeOverloaded, "Retry-After", "0"))
	told = 0
	for _, err := range r.Rows(t.Context(), "wallets", client.RowQuery{PageSize: 2}) {
		if told++; err != nil {
			t.Fatal(err)
		}
	}
	if told != 4 {
		t.Errorf("told %d rows", told)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range r.Rows(ctx, "wallets", client.RowQuery{PageSize: 2}) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Error(last)
	}
}

// What a query says arrives as it was meant, whatever its names and values are.
func TestListQuery(t *testing.T) {
	r := serve(t, nil)
	var target, prefer string
	r.put(func(w http.ResponseWriter, req *http.Request, _ int, next http.Handler) {
		target, prefer = req.RequestURI, req.Header.Get("Prefer")
		answering(100, 200, "application/json", `{"rows":[]}`)(w, req, 1, next)
	})
	for _, c := range []struct {
		q    fence.RowQuery
		want string
	}{
		{fence.RowQuery{Table: "wallets"}, "/v1/rows/wallets"},
		{fence.RowQuery{Table: `"a.b"."Re/ply"`, Limit: 5, After: "AQ-_"}, "/v1/rows/%22a.b%22.%22Re%2Fply%22?after=AQ-_&limit=5"},
		{fence.RowQuery{Table: "t", Filters: []fence.Filter{client.Where("select", fence.FilterEq, "a&b=c+d%25"), client.Where("User Id", fence.FilterGt, "1"), client.Where("User Id", fence.FilterLt, "9")}},
			"/v1/rows/t?%22User+Id%22=gt.1&%22User+Id%22=lt.9&%22select%22=eq.a%26b%3Dc%2Bd%2525"},
		{fence.RowQuery{Table: "t", Filters: []fence.Filter{client.Where("a", fence.FilterIn, `x`, `"\,`, "")}}, "/v1/rows/t?a=in.%28%22x%22%2C%22%5C%22%5C%5C%2C%22%2C%22%22%29"},
		{fence.RowQuery{Table: "t", Filters: []fence.Filter{client.Where("a", fence.FilterIn)}}, "/v1/rows/t?a=in.%28%29"},
		{fence.RowQuery{Table: "t", Columns: []string{"a", `B"c`, "order"}, Order: []fence.OrderBy{{Column: "a", Descending: true, Nulls: "last"}, {Column: "B"}}},
			"/v1/rows/t?order=a.desc.nullslast%2C%22B%22&select=a%2C%22B%22%22c%22%2Corder"},
	} {
		if _, err := r.ListRows(t.Context(), c.q); err != nil || target != c.want || prefer != "" {
			t.Errorf("%s, prefer %q, %v\nwant %s", target, prefer, err, c.want)
		}
	}
	if _, err := r.ListRows(t.Context(), fence.RowQuery{Table: "t", Count: true, NumbersAsText: true}); err != nil || prefer != "numbers=string, count=exact" {
		t.Errorf("prefer %q, %v", prefer, err)
	}
	for _, q := range []fence.RowQuery{{}, {Table: "t", Filters: []fence.Filter{client.Where("a", fence.FilterEq)}}, {Table: "t", Filters: []fence.Filter{client.Where("a", fence.FilterEq, "1", "2")}}} {
		_, err := r.ListRows(t.Context(), q)
		wantCode(t, err, fence.CodeInvalidRequest)
	}
}

// An answer that is no list is none, and one that would lead round in a circle ends.
func TestListOfSomethingElse(t *testing.T) {
	r := serve(t, func(c *client.Config) { c.MaxTries = 1 })
	for _, body := range []string{`{}`, `[]`, `{"rows":null}`, `{"rows":{}}`, "<html>"} {
		r.put(answering(9, 200, "application/json", body))
		_, err := r.ListRows(t.Context(), fence.RowQuery{Table: "t"})
		wantCode(t, err, fence.CodeUnavailable)
	}
	r.put(answering(99, 200, "application/json", `{"rows":[{}],"next":"AQ"}`))
	var told strings.Builder
	var last error
	for _, err := range r.Rows(t.Context(), "t", client.RowQuery{}) {
		told.WriteString("x")
		last = err
	}
	if wantCode(t, last, fence.CodeUnavailable); told.String() != "xx" {
		t.Error(told.String())
	}
}
