package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

func TestScanObject(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		columns    []string
		want       string // part of the message; empty when accepted
	}{
		{"OK", `{"b":1.10,"a":{"x":[1,{"y":2}]},"c":"d"}`, []string{"b", "a", "c"}, ""},
		{"Empty", ` {} `, nil, ""},
		{"NestedSameNames", `{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}`, []string{"a", "b"}, ""},
		{"StringValuesAreNoNames", `{"a":"b","b":"a"}`, []string{"a", "b"}, ""},
		{"HugeNumber", `{"n":123456789012345678901234567890.10}`, []string{"n"}, ""},
		{"SurrogatePair", `{"s":"\ud83d\ude00"}`, []string{"s"}, ""},
		{"EscapedBackslash", `{"s":"\\u0000 \\ud800"}`, []string{"s"}, ""},
		{"EscapedName", `{"\u0061":1}`, []string{"a"}, ""},
		{"Duplicate", `{"a":1,"a":2}`, nil, `"a" is given twice`},
		{"DuplicateEscaped", `{"a":1,"\u0061":2}`, nil, `"a" is given twice`},
		{"DuplicateNested", `{"x":[{"k":1,"k":2}]}`, nil, `"k" is given twice`},
		{"TooDeep", `{"a":[[[[1]]]]}`, nil, "deeper than 4"},
		{"Trailing", `{"a":1} x`, nil, "after top-level value"},
		{"TwoObjects", `{}{}`, nil, "after top-level value"},
		{"TrailingComma", `{"a":1,}`, nil, "not one JSON object"},
		{"Array", `[1]`, nil, "must be a JSON object"},
		{"Null", `null`, nil, "must be a JSON object"},
		{"Nothing", ``, nil, "not one JSON object"},
		{"NotUTF8", "{\"a\":\"\xff\"}", nil, "UTF-8"},
		{"NUL", `{"a":"x\u0000"}`, nil, "NUL"},
		{"NULInName", `{"\u0000":1}`, nil, "NUL"},
		{"LoneHigh", `{"a":"\ud800x"}`, nil, "surrogate"},
		{"LoneLow", `{"a":"\udc00"}`, nil, "surrogate"},
		{"HighHigh", `{"a":"\ud800\ud800"}`, nil, "surrogate"},
		{"HighAtEnd", `{"a":"\ud800"}`, nil, "surrogate"},
		{"NaN", `{"a":NaN}`, nil, "not one JSON object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := scanObject([]byte(tc.body), 4)
			if tc.want == "" {
				if err != nil || !slices.Equal(got, tc.columns) {
					t.Fatalf("got %q, %v", got, err)
				}
				return
			}
			if fence.CodeOf(err) != fence.CodeInvalidRequest || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %q, %v", got, err)
			}
		})
	}
}

func TestRequireJSON(t *testing.T) {
	for value, ok := range map[string]bool{
		"application/json":                   true,
		"application/json; charset=utf-8":    true,
		"Application/JSON;charset=UTF-8":     true,
		"application/json; charset=latin-1":  false,
		"application/x-www-form-urlencoded":  false,
		"text/plain":                         false,
		"application/merge-patch+json":       false,
		"":                                   false,
		"application/json, application/json": false,
	} {
		err := requireJSON(http.Header{"Content-Type": {value}})
		if ok != (err == nil) {
			t.Errorf("%q: %v", value, err)
		}
		if err != nil && !strings.Contains(err.Error(), "--json") {
			t.Errorf("%q: curl users are not told: %v", value, err)
		}
	}
	if err := requireJSON(http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}); err == nil {
		t.Error("a compressed body was accepted")
	}
}

func FuzzBody(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":{"c":[1,2]}}`, `{"a":1,"a":2}`, `{"a":"\ud800"}`, `{"a":"\\u0000"}`, `[`, `{}x`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		names, err := scanObject(body, 8)
		if err != nil {
			return
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatalf("accepted, but not an object: %v", err)
		}
		if len(m) != len(names) {
			t.Fatalf("%d names in an object of %d", len(names), len(m))
		}
		for _, n := range names {
			if _, ok := m[n]; !ok || strings.ContainsAny(n, "\x00\uFFFD") && !strings.Contains(string(body), "\uFFFD") && !strings.Contains(strings.ToLower(string(body)), `\ufffd`) {
				t.Fatalf("name %q means different things to different readers", n)
			}
		}
	})
}
