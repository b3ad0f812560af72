package history

import (
	"fmt"
	"strings"
	"testing"
)

// TestShrink: of many operations those remain that show the defect.
func TestShrink(t *testing.T) {
	s := &scene{}
	s.grant("a", 1000)
	for i := range int64(40) {
		s.put(row, 1000+i, fmt.Sprint("r", i))
		s.read(row, shows(1000+i, fmt.Sprint("r", i)))
		s.read(object, gone(0))
		s.write(row, 1000+i, "no", refused("spent-token"))
	}
	s.Faults = []Fault{{From: s.now, To: s.now + 5000, What: "gateway killed"}}
	s.grant("a", 2000)
	s.put(row, 1500, "stale")
	for i := range int64(40) {
		s.put(row, 2000+i, fmt.Sprint("s", i))
	}
	failed := s.CheckLeases(limit)
	if len(failed) != 1 {
		t.Fatalf("got %d failures", len(failed))
	}
	ops := failed[0].Shrink(limit)
	timeline := s.Timeline(ops)
	if !strings.Contains(timeline, "token 1500, value stale -> ok") || !strings.Contains(timeline, "granted 2000") || !strings.Contains(timeline, "*** gateway killed") {
		t.Errorf("the timeline does not show the defect:\n%s", timeline)
	}
	if len(ops) > 6 || strings.Contains(timeline, "spent-token") || strings.Contains(timeline, "get") || strings.Contains(timeline, "s1") {
		t.Errorf("%d operations remain:\n%s", len(ops), timeline)
	}
}

func TestSavedRunIsCheckedAgain(t *testing.T) {
	s := &scene{}
	s.grant("a", 1000)
	s.grant("a", 2000)
	s.put(row, 1000, "v1")
	dir := t.TempDir()
	if err := s.Save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if failed := again.CheckLeases(limit); len(failed) != 1 {
		t.Errorf("got %d failures", len(failed))
	}
	if violations, _ := again.CheckLedger(); len(violations) != 1 {
		t.Errorf("got %v", violations)
	}
}
