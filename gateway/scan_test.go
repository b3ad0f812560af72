package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// many is an object with so many names.
func many(names int) string {
	members := make([]string, names)
	for i := range members {
		members[i] = fmt.Sprintf(`"c%d":%d`, i, i)
	}
	return "{" + strings.Join(members, ",") + "}"
}

func TestScanPlain(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		plain      bool // read without the general scan
	}{
		{"Small", `{"balance":42.50,"note":"top-up"}`, true},
		{"Spaces", " {\n\t\"a\" : 1 , \"b\" : [ ] , \"c\" : { } }\r\n", true},
		{"Values", `{"a":null,"b":true,"c":false,"d":-0.5e+10,"e":"ü\n\"\\/","f":[1,[2,{"x":1}],""],"g":{"a":{"a":1}}}`, true},
		{"Numbers", `{"a":[0,-0,10,1.0,0.1,1e5,1E-5,123456789012345678901234567890.10]}`, true},
		{"Nothing", `{}`, true},
		{"SameNameElsewhere", `{"a":{"b":1},"b":[{"b":1},{"b":2}]}`, true},
		{"AsManyNames", many(plainNames), true},
		{"MoreNames", many(plainNames + 1), false},
		{"AsDeep", `{"a":` + strings.Repeat("[", plainDepth-1) + strings.Repeat("]", plainDepth-1) + `}`, true},
		{"Deeper", `{"a":` + strings.Repeat("[", plainDepth) + strings.Repeat("]", plainDepth) + `}`, false},
		{"EscapedName", `{"\u0061":1}`, false},
		{"ShortEscapeInName", `{"a\/b":1}`, false},
		{"EscapedCharacter", `{"a":"\u00fc"}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, plain := scanPlain([]byte(tc.body), 64)
			want, err := scanAny([]byte(tc.body), 64)
			if err != nil || plain != tc.plain || plain && !slices.Equal(got, want) {
				t.Fatalf("%q, %t; the general scan: %q, %v", got, plain, want, err)
			}
		})
	}
}

// What is wrong is for the general scan to say.
func TestScanPlainLeavesWhatIsWrong(t *testing.T) {
	for _, body := range []string{
		``, ` `, `{`, `[1]`, `null`, `{}{}`, `{} x`, `{"a":1,}`, `{,}`, `{"a":1,,"b":2}`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":[1,]}`, `{"a":[1 2]}`, `{"a":[}`,
		`{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":1e+}`, `{"a":+1}`, `{"a":0x1}`, `{"a":nul}`, `{"a":truex}`, `{"a":NaN}`, `{"a":Infinity}`,
		`{"a":"\x"}`, `{"a":"\`, `{"a":"\u00"}`, `{"a":"` + "\n" + `"}`, `{"a":"b`, `{"a`, "{\"a\":\"\xff\"}", "{\"\xff\":1}", `{"a":"\u0000"}`, `{"a":"\ud800"}`,
		`{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, `{"x":[{"k":1,"k":2}]}`, `{"a":{"c":1},"b":1,"a":2}`, `{'a':1}`, `{"a":1}/**/`, "\ufeff{}",
	} {
		if got, ok := scanPlain([]byte(body), 64); ok {
			t.Errorf("%s was read as %q", body, got)
		}
	}
	if _, ok := scanPlain([]byte(`{"a":[[1]]}`), 2); ok {
		t.Error("deeper than the limit")
	}
}

// Both scans accept the same, as far as the plain one accepts.
func FuzzScanPlain(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":{"c":[1,2]}}`, `{"a":1,"a":2}`, `{"a":"\n\u0041"}`, `{"a":-1.5e3,"b":null}`, many(30), `{}x`, `{"a":[[],{}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, ok := scanPlain(body, 6)
		if !ok {
			return
		}
		want, err := scanAny(body, 6)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q was read as %q; the general scan: %q, %v", body, got, want, err)
		}
	})
}
