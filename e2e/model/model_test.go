package model

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

var long = flag.Bool("model.long", false, "search the larger bounds too, and every must-fail case without its switches")

// limit bounds one search, on a machine that is busy with others.
const (
	limit     = 3 * time.Minute
	longLimit = 20 * time.Minute
)

func TestHolds(t *testing.T) {
	needSpin(t)
	for _, c := range cases(t, "pass.txt") {
		if c.long && !*long {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mustHold(t, c.bounds)
		})
	}
}

func TestFalls(t *testing.T) {
	needSpin(t)
	for _, c := range cases(t, "fail.txt") {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if n := len(properties(c.bounds)); n != 1 {
				t.Fatalf("the case names %d properties, so that nobody knows which one falls", n)
			}
			// Few states: what takes the time is compiling.
			o := explore(t, "-O0", limit, slices.Concat(c.bounds, c.switches)...)
			if o.violated == "" {
				t.Fatalf("no assertion fell:\n%s", o.output)
			}
		})
	}
}

// A case that falls without its switches says nothing about them.
func TestHoldsWithoutSwitches(t *testing.T) {
	needSpin(t)
	done := map[string]bool{}
	for _, c := range cases(t, "fail.txt") {
		key := strings.Join(c.bounds, " ")
		if !*long || len(c.switches) == 0 || done[key] {
			continue
		}
		done[key] = true
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mustHold(t, c.bounds)
		})
	}
}

func mustHold(t *testing.T, flags []string) {
	t.Helper()
	if len(properties(flags)) == 0 {
		t.Fatal("the case names no property, so that nothing can fall")
	}
	optimise, d := "-O1", limit
	if *long {
		optimise, d = "-O2", longLimit
	}
	o := explore(t, optimise, d, flags...)
	switch {
	case o.violated != "":
		t.Fatalf("%s falls; README.md says how to read the counter-example of %s", o.violated, strings.Join(flags, " "))
	case !o.complete:
		t.Fatalf("the search was not complete:\n%s", o.output)
	}
}

func properties(flags []string) []string {
	return slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return !strings.HasPrefix(f, "-DP_") })
}
