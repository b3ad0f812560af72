package pgstore

import (
	"fmt"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// Digests are kept: what stood in them for no condition must not change.
func TestConditionText(t *testing.T) {
	for want, c := range map[string]fence.Condition{
		"match=[] none=[] exists=false absent=false":    {},
		"match=[0 7] none=[] exists=false absent=false": {Match: []fence.Token{0, 7}},
		"match=[] none=[3] exists=true absent=false":    {NoneMatch: []fence.Token{3}, Exists: true},
	} {
		if got := conditionText(c); got != want || got != fmt.Sprintf("match=%v none=%v exists=%t absent=%t", c.Match, c.NoneMatch, c.Exists, c.Absent) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
