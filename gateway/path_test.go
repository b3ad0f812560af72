package gateway

import (
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

func TestLeasePath(t *testing.T) {
	for _, tc := range []struct {
		rest, name, call string
		code             fence.Code
	}{
		{"wallet:42", "wallet:42", "", fence.CodeAccepted},
		{"report%3A2026%2Fa.csv", "report:2026/a.csv", "", fence.CodeAccepted},
		{"a%2Fverify", "a/verify", "", fence.CodeAccepted},
		{"a%2Fverify/verify", "a/verify", "verify", fence.CodeAccepted},
		{"verify", "verify", "", fence.CodeAccepted},
		{"a/tokens", "a", "tokens", fence.CodeAccepted},
		{"a+b%20c", "a+b c", "", fence.CodeAccepted},
		{"a%252Fb", "a%2Fb", "", fence.CodeAccepted},
		{"a/b", "", "", fence.CodeInvalidRequest},
		{"a/b/tokens", "", "", fence.CodeInvalidRequest},
		{"", "", "", fence.CodeInvalidRequest},
		{"/tokens", "", "", fence.CodeInvalidRequest},
		{"a%0Ab", "", "", fence.CodeInvalidRequest},
		{"a%zz", "", "", fence.CodeInvalidRequest},
		{"a%ff", "", "", fence.CodeInvalidRequest},
		{strings.Repeat("x", 2049), "", "", fence.CodeInvalidRequest},
	} {
		name, call, err := leasePath(tc.rest)
		if fence.CodeOf(err) != tc.code || err == nil && (name != tc.name || call != tc.call) {
			t.Errorf("%.40q: got %q, %q, %v", tc.rest, name, call, err)
		}
	}
}

func TestRowPath(t *testing.T) {
	for _, tc := range []struct {
		rest string
		want fence.RowName
		code fence.Code
	}{
		{"wallets/42", fence.RowName{Table: "public.wallets", Key: []string{"42"}}, fence.CodeAccepted},
		{"%22a.b%22.%22Re%2Fply%22/7,x%2Cy", fence.RowName{Table: `"a.b"."Re/ply"`, Key: []string{"7", "x,y"}}, fence.CodeAccepted},
		{"t/a+b%20c%2Fd", fence.RowName{Table: "public.t", Key: []string{"a+b c/d"}}, fence.CodeAccepted},
		{"t/", fence.RowName{Table: "public.t", Key: []string{""}}, fence.CodeAccepted},
		{"t/1,,2", fence.RowName{Table: "public.t", Key: []string{"1", "", "2"}}, fence.CodeAccepted},
		{"t/..", fence.RowName{Table: "public.t", Key: []string{".."}}, fence.CodeAccepted},
		{"t", fence.RowName{}, fence.CodeNotFound},
		{"/42", fence.RowName{}, fence.CodeInvalidRequest},
		{"t/a/b", fence.RowName{}, fence.CodeInvalidRequest},
		{"t/%00", fence.RowName{}, fence.CodeInvalidRequest},
		{"t/%ff", fence.RowName{}, fence.CodeInvalidRequest},
		{"t%f/1", fence.RowName{}, fence.CodeInvalidRequest},
	} {
		got, _, err := rowPath(tc.rest)
		if fence.CodeOf(err) != tc.code || err == nil && !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%q: got %+v, %v", tc.rest, got, err)
		}
	}
}

func TestObjectPath(t *testing.T) {
	for _, tc := range []struct {
		rest, bucket, key string
		code              fence.Code
	}{
		{"reports/2026/a.csv", "reports", "2026/a.csv", fence.CodeAccepted},
		{"b/a//b", "b", "a//b", fence.CodeAccepted},
		{"b//a", "b", "/a", fence.CodeAccepted},
		{"b/a/", "b", "a/", fence.CodeAccepted},
		{"b/../x/./y", "b", "../x/./y", fence.CodeAccepted},
		{"b/a%2Fb", "b", "a/b", fence.CodeAccepted},
		{"b/a%252Fb", "b", "a%2Fb", fence.CodeAccepted},
		{"b/a+b%2Bc%20d", "b", "a+b+c d", fence.CodeAccepted},
		{"b/%E2%82%AC", "b", "€", fence.CodeAccepted},
		{"b", "", "", fence.CodeNotFound},
		{"b/", "", "", fence.CodeInvalidRequest},
		{"/k", "", "", fence.CodeInvalidRequest},
		{"b/%00", "", "", fence.CodeInvalidRequest},
		{"b/%c3", "", "", fence.CodeInvalidRequest},
		{"b/" + strings.Repeat("k", 1025), "", "", fence.CodeInvalidRequest},
	} {
		got, err := objectPath(tc.rest)
		if fence.CodeOf(err) != tc.code || err == nil && (got.Bucket != tc.bucket || got.Key != tc.key) {
			t.Errorf("%.40q: got %+v, %v", tc.rest, got, err)
		}
	}
}

// A byte that should have been escaped makes URL.EscapedPath escape the decoded path anew, which turns %2F into a
// separator.
func TestWirePathKeepsEscapedSlash(t *testing.T) {
	r := httptest.NewRequest("GET", `/v1/leases/"a"%2Fb`, nil)
	if got := wirePath(r.URL); got != `/v1/leases/"a"%2Fb` {
		t.Fatalf("got %s", got)
	}
	if r.URL.EscapedPath() == wirePath(r.URL) {
		t.Fatal("EscapedPath would do: simplify wirePath")
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"b/a//b", "b/%2F%25/..", "t/1,%2C", "a%2Fverify/verify", "b/%ff", `b/"x"%2F`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		if name, err := objectPath(rest); err == nil {
			again, err := objectPath(url.PathEscape(name.Bucket) + "/" + url.PathEscape(name.Key))
			if err != nil || again != name {
				t.Fatalf("%q: %+v does not round-trip: %+v, %v", rest, name, again, err)
			}
		}
		if name, _, err := rowPath(rest); err == nil {
			var parts []string
			for _, k := range name.Key {
				parts = append(parts, escapeName(k))
			}
			again, _, err := rowPath(escapeName(name.Table) + "/" + strings.Join(parts, ","))
			if err != nil || !reflect.DeepEqual(again, name) {
				t.Fatalf("%q: %+v does not round-trip: %+v, %v", rest, name, again, err)
			}
		}
		if name, call, err := leasePath(rest); err == nil {
			again, _, err := leasePath(escapeName(name))
			if err != nil || again != name || strings.Contains(call, "/") {
				t.Fatalf("%q: %q does not round-trip: %q, %v", rest, name, again, err)
			}
		}
	})
}
