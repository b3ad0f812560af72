package gateway

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

func TestConditions(t *testing.T) {
	for _, tc := range []struct {
		name        string
		match, none []string
		want        fence.Condition
		code        fence.Code
	}{
		{"None", nil, nil, fence.Condition{}, fence.CodeAccepted},
		{"One", []string{`"7"`}, nil, fence.Condition{Match: []fence.Token{7}}, fence.CodeAccepted},
		{"NeverWritten", []string{`"0"`}, nil, fence.Condition{Match: []fence.Token{0}}, fence.CodeAccepted},
		{"List", []string{`"7" , "8",,"9"`}, nil, fence.Condition{Match: []fence.Token{7, 8, 9}}, fence.CodeAccepted},
		{"TwoLines", []string{`"7"`, `"8"`}, nil, fence.Condition{Match: []fence.Token{7, 8}}, fence.CodeAccepted},
		{"Star", []string{`*`}, nil, fence.Condition{Exists: true}, fence.CodeAccepted},
		{"WeakNeverMatches", []string{`W/"7"`}, nil, fence.Condition{Match: []fence.Token{}}, fence.CodeAccepted},
		{"ForeignNeverMatches", []string{`"abc,d"`}, nil, fence.Condition{Match: []fence.Token{}}, fence.CodeAccepted},
		{"Absent", nil, []string{` * `}, fence.Condition{Absent: true}, fence.CodeAccepted},
		{"NoneMatchIsWeak", nil, []string{`W/"7", "x"`}, fence.Condition{NoneMatch: []fence.Token{7}}, fence.CodeAccepted},
		{"Unquoted", []string{`7`}, nil, fence.Condition{}, fence.CodeInvalidRequest},
		{"Open", []string{`"7`}, nil, fence.Condition{}, fence.CodeInvalidRequest},
		{"NoComma", []string{`"7" "8"`}, nil, fence.Condition{}, fence.CodeInvalidRequest},
		{"StarInList", []string{`"7", *`}, nil, fence.Condition{}, fence.CodeInvalidRequest},
		{"TwoStars", []string{`*`, `*`}, nil, fence.Condition{}, fence.CodeInvalidRequest},
		{"Empty", []string{``}, nil, fence.Condition{}, fence.CodeInvalidRequest},
		{"Space", []string{`"7 8"`}, nil, fence.Condition{}, fence.CodeInvalidRequest},
		{"LowerW", nil, []string{`w/"7"`}, fence.Condition{}, fence.CodeInvalidRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := conditions(http.Header{"If-Match": tc.match, "If-None-Match": tc.none})
			if fence.CodeOf(err) != tc.code || !reflect.DeepEqual(got, tc.want) {
				t.Fatalf("got %+v, %v", got, err)
			}
		})
	}
}

func FuzzConditions(f *testing.F) {
	for _, s := range []string{`*`, `"7"`, `W/"7", "8"`, `"`, `,,`, `"a,b"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		tags, star, err := parseTags("If-Match", []string{line})
		if err == nil && star == (tags != nil) {
			t.Fatalf("%q is neither * nor a list", line)
		}
		for _, tag := range tags {
			if m, ok := tag.mark(); ok && m.String() != tag.value {
				t.Fatalf("%q: two spellings of %d", tag.value, m)
			}
		}
	})
}

func FuzzToken(f *testing.F) {
	for _, s := range []string{"7", "007", "+7", "1e3", "999999999999999", "1000000000000000", "7,8", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got, err := tokenOf(http.Header{headerToken: {line}})
		if err == nil && (got.String() != line || !got.Valid()) {
			t.Fatalf("%q was read as %d", line, got)
		}
		if err != nil && got != 0 {
			t.Fatalf("%q: a token beside an error", line)
		}
	})
}
