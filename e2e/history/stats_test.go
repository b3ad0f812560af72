package history

import (
	"slices"
	"strings"
	"testing"
)

func TestStats(t *testing.T) {
	s := &scene{}
	s.grant("a", 1000)
	s.put(row, 1000, "v1")
	s.write(row, 1001, "v2", lost())
	op := s.write(row, 1002, "v3", lost())
	s.again(op, &Reply{Status: 200, Replayed: true})
	s.write(row, 1000, "v4", refused("spent-token"))
	s.write(row, 1003, "v5", refused("internal"))
	s.Faults = []Fault{{What: "redis killed: "}}
	got := s.Stats()
	want := Stats{"granted": 1, "accepted": 2, "unknown": 1, "replayed": 1, "refused spent-token": 1, "fault redis killed": 1}
	for name, want := range want {
		if got[name] != want {
			t.Errorf("%s: got %d, want %d", name, got[name], want)
		}
	}
	if below := got.Below(map[string]int{"accepted": 3, "granted": 1}); len(below) != 1 || !strings.Contains(below[0], "accepted: 2, want 3") {
		t.Errorf("below: got %q", below)
	}
	if strange := s.Strange("spent-token"); len(strange) != 1 || !slices.ContainsFunc(strange, func(x string) bool { return strings.Contains(x, "internal") }) {
		t.Errorf("strange: got %q", strange)
	}
}
