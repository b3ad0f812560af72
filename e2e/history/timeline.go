package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Timeline shows operations and the faults around them, one line each, in the order of their beginnings. Times are in
// seconds since the run began.
func (r *Run) Timeline(ops []*Op) string {
	if len(ops) == 0 {
		return "(no operations)\n"
	}
	type line struct {
		at   int64
		text string
	}
	var lines []line
	from, to := ops[0].Called(), ops[0].Called()
	for _, op := range ops {
		from, to = min(from, op.Called()), max(to, op.Called())
		if op.Returned() != Forever {
			to = max(to, op.Returned())
		}
		lines = append(lines, line{op.Called(), r.describe(op)})
	}
	for _, f := range r.Faults {
		if f.To >= from && f.From <= to && !f.Small {
			lines = append(lines, line{f.From, fmt.Sprintf("%9.3f %9.3f  *** %s", r.seconds(f.From), r.seconds(f.To), f.What)})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	var out strings.Builder
	fmt.Fprintf(&out, "%9s %9s  %-8s %-8s\n", "called", "returned", "client", "call")
	for _, l := range lines {
		out.WriteString(l.text + "\n")
	}
	return out.String()
}

func (r *Run) describe(op *Op) string {
	about := op.Lease
	if op.Resource != "" {
		about = op.Resource
	}
	var with []string
	note := func(name string, value any, shown bool) {
		if shown {
			with = append(with, fmt.Sprintf("%s %v", name, value))
		}
	}
	note("token", op.Token, op.Token != 0)
	note("of grant", op.First, op.First != 0)
	note("value", op.Value, op.Value != "")
	note("attempts", len(op.Attempts), len(op.Attempts) > 1)
	return fmt.Sprintf("%9.3f %9.3f  %-8s %-8s %s %s -> %s", r.seconds(op.Called()), r.seconds(op.Returned()), op.Client, op.Kind, about,
		strings.Join(with, ", "), op.Outcome())
}
