package gateway

import (
	"strings"
	"testing"
)

func TestClip(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		most     int
		want     string
	}{
		{"Short", "abc", 3, "abc"},
		{"Long", "abcd", 3, "abc…"},
		{"WholeCharacters", "aää", 2, "a…"},
		{"FirstCharacterTooLong", "ä", 1, "…"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := clip(tc.in, tc.most); got != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestRefusalsAreShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	_, err := scanObject([]byte(`{"`+long+`":1,"`+long+`":2}`), 8)
	p := newProblem(refusalOf(err), "")
	if len(p.Detail) > 1100 || len(p.Field) > 300 {
		t.Errorf("detail of %d bytes, field of %d", len(p.Detail), len(p.Field))
	}
}
