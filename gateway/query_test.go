package gateway

import (
	"errors"
	"maps"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fencegate/fencegate/fence"
)

func TestReadQuery(t *testing.T) {
	for _, tc := range []struct {
		raw   string
		want  query
		field string // of the refusal; empty when there is none
	}{
		{"", query{}, ""},
		{"prefix=wallet:&limit=5", query{"prefix": "wallet:", "limit": "5"}, ""},
		{"prefix=a+b%2Bc%2F%26&after=", query{"prefix": "a b+c/&", "after": ""}, ""},
		{"pre%66ix=x=y", query{"prefix": "x=y"}, ""},
		{"prefix=a%2526b", query{"prefix": "a%26b"}, ""},
		{"Prefix=a", nil, "Prefix"},
		{"prefix=a&prefix=a", nil, "prefix"},
		{"prefix=a&pre%66ix=b", nil, "prefix"},
		{"limit", nil, "limit"},
		{"limit=1&", nil, "query"},
		{"=1", nil, "query"},
		{"prefix=%zz", nil, "prefix"},
		{"prefix=%ff", nil, "prefix"},
		{"prefix=%00", nil, "prefix"},
		{"%zz=1", nil, "query"},
		{"prefix=a;limit=1", query{"prefix": "a;limit=1"}, ""},
	} {
		got, err := readQuery(tc.raw, "prefix", "limit", "after")
		var e *fence.Error
		errors.As(err, &e)
		switch {
		case tc.field == "" && (err != nil || !maps.Equal(got, tc.want)):
			t.Errorf("%q: %v, %v", tc.raw, got, err)
		case tc.field != "" && (fence.CodeOf(err) != fence.CodeInvalidRequest || e.Field != tc.field):
			t.Errorf("%q: %v, %v", tc.raw, got, err)
		}
	}
}

func TestQueryNumber(t *testing.T) {
	for value, want := range map[string]int{"1": 1, "1000": 1000, "0": -1, "1001": -1, "-1": -1, "+1": -1, "": -1, "1.0": -1, "1e3": -1, " 1": -1, "99999999999999999999": -1} {
		n, err := query{"limit": value}.number("limit", 1, 1000)
		if (err != nil) != (want < 0) || err == nil && n != want {
			t.Errorf("%q: %d, %v", value, n, err)
		}
	}
	if n, err := (query{}).number("limit", 1, 1000); n != 0 || err != nil {
		t.Error(n, err)
	}
}

// What is read is what net/url reads, and nothing is left out silently.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"prefix=a+b&limit=5", "prefix=%2B%26", "prefix&limit", "a=1&&b=2", "prefix=%ff", "prefix=a;b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := readQuery(raw, "prefix", "limit")
		if err != nil {
			if fence.CodeOf(err) != fence.CodeInvalidRequest {
				t.Fatal(err)
			}
			return
		}
		if n := strings.Count(raw, "&"); raw != "" && len(q) != n+1 {
			t.Fatalf("%q has %d parameters, %v were read", raw, n+1, q)
		}
		for name, value := range q {
			if name != "prefix" && name != "limit" || !utf8.ValidString(value) || strings.IndexByte(value, 0) >= 0 {
				t.Fatalf("%q: %q is %q", raw, name, value)
			}
		}
		if theirs, err := url.ParseQuery(raw); err == nil {
			for name := range q {
				if theirs.Get(name) != q[name] {
					t.Fatalf("%q: %s is %q, net/url reads %q", raw, name, q[name], theirs.Get(name))
				}
			}
		}
	})
}
