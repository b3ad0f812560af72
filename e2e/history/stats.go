package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Stats counts what a run did, by names such as "granted", "accepted", "refused stale-token", "unknown", "replayed",
// "read" and "fault Redis flushed": a run that hit nothing shows nothing.
type Stats map[string]int

// Stats counts.
func (r *Run) Stats() Stats {
	s := Stats{}
	for _, op := range r.Ops {
		switch {
		case op.Accepted() && op.Kind == Acquire:
			s["granted"]++
		case op.Accepted() && op.Kind.Writes():
			s["accepted"]++
			s["accepted "+string(op.Kind)]++
		case op.Accepted() && op.Kind.Reads():
			s["read"]++
		case op.Accepted():
			s[string(op.Kind)+" done"]++
		case op.Unknown() && op.Kind.Writes():
			s["unknown"]++
		case op.Kind.Writes():
			s["refused "+op.Refused()]++
		case op.Kind.Reads():
			s["read failed"]++
		default:
			s[string(op.Kind)+" failed"]++
		}
		if last := op.Last(); last != nil && last.Replayed {
			s["replayed"]++
		}
	}
	for _, f := range r.Faults {
		kind, _, _ := strings.Cut(f.What, ":")
		s["fault "+kind]++
	}
	return s
}

// String shows all counts, by name.
func (s Stats) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, s[name]))
	}
	return strings.Join(parts, ", ")
}

// Below returns the names whose count is less than its minimum, with both.
func (s Stats) Below(least map[string]int) []string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(least)) {
		if s[name] < least[name] {
			parts = append(parts, fmt.Sprintf("%s: %d, want %d at least", name, s[name], least[name]))
		}
	}
	return parts
}

// Strange returns the answers whose code none of the allowed ones is, one example of each: a failure of the program that
// nobody would notice otherwise.
func (r *Run) Strange(allowed ...string) []string {
	seen := map[string]bool{}
	var found []string
	for _, op := range r.Ops {
		for _, a := range op.Attempts {
			if !a.Reply.settles() || a.Reply.Code == "" || slices.Contains(allowed, a.Reply.Code) || seen[a.Reply.Code] {
				continue
			}
			seen[a.Reply.Code] = true
			found = append(found, fmt.Sprintf("%s: %s of %s%s was answered %d %s", op.ID, op.Kind, op.Lease, op.Resource, a.Reply.Status, a.Reply.Code))
		}
	}
	return found
}
