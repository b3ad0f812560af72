package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/gatewaytest"
)

// asked keeps the query that it was asked, and answers with its page.
type asked struct {
	*gatewaytest.Memory
	query *fence.RowQuery
	page  *fence.RowPage
}

func (a asked) ListRows(_ context.Context, q fence.RowQuery) (fence.RowPage, error) {
	*a.query = q
	return *a.page, nil
}

func TestListOfRows(t *testing.T) {
	var got fence.RowQuery
	count := int64(9007199254740993)
	page := fence.RowPage{Rows: []json.RawMessage{[]byte(`{"a":  1.50,"b":"<&>"}`), []byte(`{}`)}, Next: "AQ-_", Count: &count}
	a := serve(t, func(c *gateway.Config) {
		c.Rows = asked{gatewaytest.New(), &got, &page}
		c.Authenticate = func(*http.Request) (gateway.Caller, error) {
			return caller{name: "ann", as: fence.Identity{Role: "reader"}, columns: func(a gateway.Action) []string {
				return []string{string(a.Verb), a.Schema, a.Table}
			}}, nil
		}
	})
	answer := a.want(200, "GET", `/v1/rows/%22a.b%22.%22Reply%22?select=%22User%20Id%22&t=eq.1&order=t.desc&limit=2&after=x`, "", "Prefer: numbers=string, count=exact")
	if answer.text != `{"rows":[{"a":  1.50,"b":"<&>"},{}],"next":"AQ-_","count":9007199254740993}`+"\n" || answer.Header.Get("Preference-Applied") != "numbers=string, count=exact" {
		t.Errorf("%s %v", answer.text, answer.Header)
	}
	for _, name := range []string{"ETag", "X-Fence-Token", "X-Fence-Lease"} {
		if answer.Header.Get(name) != "" {
			t.Errorf("a list has no %s", name)
		}
	}
	if answer.Header.Get("Cache-Control") != "no-store" || answer.Header.Get("Content-Type") != "application/json" {
		t.Error(answer.Header)
	}
	want := fence.RowQuery{
		Table: `"a.b"."Reply"`, Access: fence.Access{Principal: "ann", As: fence.Identity{Role: "reader"}}, Filters: []fence.Filter{{Column: "t", Op: "eq", Values: []string{"1"}}},
		Columns: []string{"User Id"}, Shown: []string{"read", "a.b", "Reply"}, Order: []fence.OrderBy{{Column: "t", Descending: true}}, Limit: 2, After: "x", Count: true, NumbersAsText: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("asked for %+v\nwant %+v", got, want)
	}
	page = fence.RowPage{}
	answer = a.want(200, "GET", "/v1/rows/t", "")
	if answer.text != `{"rows":[]}`+"\n" || answer.Header.Get("Preference-Applied") != "" || got.Limit != 100 || got.Count || got.NumbersAsText {
		t.Errorf("%s %v %+v", answer.text, answer.Header, got)
	}
	if answer = a.want(200, "HEAD", "/v1/rows/t?limit=1", "", "Prefer: count=exact"); answer.text != "" || answer.Header.Get("Preference-Applied") != "count=exact" || answer.ContentLength < 10 {
		t.Errorf("%q %v", answer.text, answer.Header)
	}
}

func TestListOfRowsRefuses(t *testing.T) {
	a := serve(t, nil)
	for _, c := range []struct{ query, header, field string }{
		{"", "X-Fence-Token: 1000", "X-Fence-Token"}, {"", `If-Match: "1"`, "If-Match"}, {"", "Prefer: count=planned", "Prefer"}, {"", "Prefer: count=EXACT", "Prefer"},
		{"?owner", "", "owner"}, {"?limit=0", "", "limit"}, {"?owner=" + strings.Repeat("x", 50<<10), "", "query"},
	} {
		if c.header == "" {
			c.header = "X-Nothing: 1"
		}
		if p := a.refused(400, "invalid-request", "GET", "/v1/rows/t"+c.query, "", c.header); p.Field != c.field {
			t.Errorf("%s %s: field %q", c.query, c.header, p.Field)
		}
	}
	a.refused(400, "invalid-token", "GET", "/v1/rows/t", "", "X-Fence-Token: x")
	a.refused(400, "invalid-request", "GET", "/v1/rows/a.b.c", "")
	a.refused(400, "invalid-request", "GET", "/v1/rows/%ff", "")
}

// One token fences one row: a write of all that pass a filter is refused, however it is asked for, and told how it is done.
func TestFilteredWritesAreRefused(t *testing.T) {
	a := serve(t, nil)
	token, _ := a.acquire("t:1")
	a.want(201, "PUT", "/v1/rows/t/1", `{"n":1}`, token)
	for _, method := range []string{"PATCH", "PUT", "DELETE"} {
		for _, path := range []string{"/v1/rows/t", "/v1/rows/t?n=eq.1", "/v1/rows/t?nonsense"} {
			p := a.refused(400, "invalid-request", method, path, `{"n":2}`, "X-Fence-Token: 1001")
			if !strings.Contains(p.Detail, method+" /v1/rows/{table}/{key}") || !strings.Contains(p.Detail, "POST /v1/commit") {
				t.Errorf("%s %s: %s", method, path, p.Detail)
			}
		}
		// On a row a filter is refused too, whatever it says.
		a.refused(400, "invalid-request", method, "/v1/rows/t/1?n=eq.1", `{"n":2}`, "X-Fence-Token: 1001")
	}
	if got := a.want(200, "GET", "/v1/rows/t/1", ""); got.text != `{"n":1}`+"\n" || got.Header.Get("X-Fence-Token") != "1000" {
		t.Errorf("%s %v", got.text, got.Header)
	}
	allow := a.want(405, "BREW", "/v1/rows/t", "").Header.Get("Allow")
	if !strings.HasPrefix(allow, "GET, HEAD") || strings.Contains(allow, "PATCH") || strings.Contains(allow, "DELETE") {
		t.Errorf("Allow %q", allow)
	}
}
