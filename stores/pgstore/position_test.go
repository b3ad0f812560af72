package pgstore

import (
	"slices"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// FuzzPosition: whatever is read is written alike, and nothing else is an invalid request.
func FuzzPosition(f *testing.F) {
	for _, s := range []string{
		"", "0a1b2c3d-1-2", position{epoch: "e", seen: eventID{1 << 40, 7}}.String(),
		position{epoch: "e", seen: eventID{9, 1}, open: []eventID{{3, 0}, {5, 2}}}.String(), "e-9-1-5-0-3-0", "e-9-1-9-0", "e-1-zzzzzzzzzzzzzz", "e-+1-1", "e-1-1-1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePosition(s)
		if err != nil {
			if fence.CodeOf(err) != fence.CodeInvalidRequest {
				t.Fatal(err)
			}
			return
		}
		again, err := parsePosition(p.String())
		if err != nil || again.epoch != p.epoch || again.seen != p.seen || !slices.Equal(again.open, p.open) {
			t.Fatalf("%q is %+v, written %q is %+v: %v", s, p, p.String(), again, err)
		}
	})
}
