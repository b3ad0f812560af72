package fence

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// A table that is read from a name has that name again, in one spelling that PostgreSQL folds and cuts no further.
func FuzzTableName(f *testing.F) {
	for _, s := range []string{"wallets", "Sales.ORDERS", `"a.b"."Reply"`, `"a""b"`, `""`, `a.b.c`, `"a"b"`, "straße", "1a", strings.Repeat("a", 64), `"`, "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := ParseTableName(s)
		if err != nil {
			if name != (TableName{}) || CodeOf(err) != CodeInvalidRequest || len(err.Error()) > 400 {
				t.Fatalf("%q: %+v beside %d bytes of %v", s, name, len(err.Error()), err)
			}
			return
		}
		again, err := ParseTableName(name.String())
		if err != nil || again != name {
			t.Fatalf("%q is %+v, whose name %s is %+v, %v", s, name, name, again, err)
		}
		for _, part := range []string{name.Schema, name.Name} {
			if part == "" || len(part) > 63 || strings.Contains(part, "\x00") {
				t.Fatalf("%q has a part %q", s, part)
			}
		}
		// Without quotes nothing but the case of ASCII letters may change.
		if !strings.Contains(s, `"`) && !strings.EqualFold(strings.TrimPrefix(name.Schema+"."+name.Name, "public."), strings.TrimPrefix(strings.ToLower(s), "public.")) {
			t.Fatalf("%q is %+v", s, name)
		}
	})
}

// Names that pass can be logged, put into JSON and sent to PostgreSQL and Redis as they are.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"wallet:42", "", "a/b", "a\x00", "a\nb", "a\u0085", "\xff", strings.Repeat("a", 2049), "\u202e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		control := strings.ContainsFunc(s, unicode.IsControl)
		for _, c := range []struct {
			what      string
			err       error
			most      int
			forbidden bool
		}{
			{"lease name", CheckLeaseName(s), MaxLeaseName, control},
			{"holder", CheckHolder(s), MaxHolder, control},
			{"object key", CheckObjectKey(s), MaxObjectKey, strings.Contains(s, "\x00")},
		} {
			bad := s == "" || len(s) > c.most || !utf8.ValidString(s) || c.forbidden
			if bad != (c.err != nil) {
				t.Errorf("%q as %s: %v", s, c.what, c.err)
			}
			if c.err != nil && (CodeOf(c.err) != CodeInvalidRequest || len(c.err.Error()) > 200) {
				t.Errorf("%.50q as %s: %v", s, c.what, c.err)
			}
		}
	})
}
