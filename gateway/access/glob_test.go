package access

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/fence"
)

// slowMatch says what a pattern means, one character at a time.
func slowMatch(pattern, s string) bool {
	switch {
	case pattern == "":
		return s == ""
	case pattern[0] == '*':
		return slowMatch(pattern[1:], s) || s != "" && slowMatch(pattern, s[1:])
	}
	return s != "" && s[0] == pattern[0] && slowMatch(pattern[1:], s[1:])
}

func TestGlobMatchesLikeTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.RuneFrom([]rune("aab/***é")), 0, 8, -1).Draw(t, "pattern")
		text := rapid.StringOfN(rapid.RuneFrom([]rune("aab/é")), 0, 4, -1)
		s := text.Draw(t, "s")
		if rapid.Bool().Draw(t, "matches") {
			// Texts that match are rare unless they are made of the pattern.
			s = ""
			for i, piece := range strings.Split(pattern, "*") {
				if i > 0 {
					s += text.Draw(t, "star")
				}
				s += piece
			}
		}
		if got, want := newGlob(pattern).match(s), slowMatch(pattern, s); got != want {
			t.Fatalf("%q on %q: %v, the reference says %v", pattern, s, got, want)
		}
	})
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"wallet:*", "wallet:42", true},
		{"wallet:*", "wallet:", true},
		{"wallet:*", "wallet", false},
		{"*", "", true},
		{"*", "a/b/c", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a**b", "ab", true},
		{"*a*b", "xaxbxb", true},
		{"*a*b*", "aba", true},
		{"*ab*ba*", "aba", false},
		{"a.c", "abc", false},
		{"[ab]?", "a", false},
		{"[ab]?", "[ab]?", true},
		{"A", "a", false},
	} {
		if got := newGlob(c.pattern).match(c.s); got != c.want {
			t.Errorf("%q on %q: %v", c.pattern, c.s, got)
		}
	}
}

// A matcher that goes back would take years for this one.
func TestGlobDoesNotGoBack(t *testing.T) {
	g := newGlob(strings.Repeat("a*", maxPattern/2) + "b")
	began := time.Now()
	if g.match(strings.Repeat("a", 2048)) {
		t.Error("it matches")
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %s", took)
	}
}

// A pattern without stars names the table that the API reads under the same name, or neither reads it.
func TestTablePatternReadsAsTheAPI(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOfN(rapid.RuneFrom([]rune(`aB1_$."é -`)), 1, 12, -1).Draw(t, "table")
		name, bad := fence.ParseTableName(s)
		p, err := newTablePattern(s)
		if (bad == nil) != (err == nil) {
			t.Fatalf("%q: the API says %v, the pattern %v", s, bad, err)
		}
		if err == nil && !p.match(name.Schema, name.Name) {
			t.Fatalf("%q does not match %+v", s, name)
		}
	})
}
