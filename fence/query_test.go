package fence_test

import (
	"testing"

	"github.com/fencegate/fencegate/fence"
)

func TestCutColumn(t *testing.T) {
	for s, want := range map[string][2]string{
		"owner": {"owner", ""}, "Owner.desc": {"owner", ".desc"}, "a,b": {"a", ",b"}, `"User Id"`: {"User Id", ""}, `"a""b".asc,c`: {`a"b`, ".asc,c"},
		`"a,.b"x`: {"a,.b", "x"}, "_1$": {"_1$", ""}, "ü,Ü": {"ü", ",Ü"}, "Ü": {"Ü", ""},
	} {
		if name, rest, ok := fence.CutColumn(s); !ok || name != want[0] || rest != want[1] {
			t.Errorf("%s: %q, %q, %t", s, name, rest, ok)
		}
	}
	for _, s := range []string{"", ".", ",a", `"`, `""`, `"a`, "1a", "$a", "a b", "a-b", "a\x00", "\"a\x00\"", `a"b"`} {
		if name, rest, ok := fence.CutColumn(s); ok {
			t.Errorf("%q: %q, %q", s, name, rest)
		}
	}
}

func FuzzQuoteColumn(f *testing.F) {
	for _, s := range []string{"owner", "Owner", `a"b`, "a,b.c", "1", "ü"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, rest, ok := fence.CutColumn(fence.QuoteColumn(name) + ".desc")
		if ok && (got != name || rest != ".desc") {
			t.Fatalf("%q is written %s, which is read as %q and %q", name, fence.QuoteColumn(name), got, rest)
		}
	})
}
