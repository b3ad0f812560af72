package model

import (
	"flag"
	"slices"
	"strings"
	"testing"
)

var long = flag.Bool("model.long", false, "search the larger bounds too, all broken variants, and each of them mended")

func TestHolds(t *testing.T) {
	needSpin(t)
	for _, c := range cases(t, "pass.txt") {
		if c.long && !*long {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mustHold(t, c)
		})
	}
}

func TestFalls(t *testing.T) {
	needSpin(t)
	for _, c := range cases(t, "fail.txt") {
		if c.long && !*long {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if n := len(properties(c.bounds)); n != 1 {
				t.Fatalf("the case names %d properties, so that nobody knows which one falls", n)
			}
			o := explore(t, c, slices.Concat(c.bounds, c.switches)...)
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
		key := c.model + strings.Join(c.bounds, " ")
		if !*long || len(c.switches) == 0 || done[key] {
			continue
		}
		done[key] = true
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mustHold(t, c)
		})
	}
}

func mustHold(t *testing.T, c search) {
	t.Helper()
	if len(properties(c.bounds)) == 0 {
		t.Fatal("the case names no property, so that nothing can fall")
	}
	o := explore(t, c, c.bounds...)
	switch {
	case o.violated != "":
		t.Fatalf("%s falls; README.md says how to read the counter-example of %s", o.violated, strings.Join(c.bounds, " "))
	case !o.complete:
		t.Fatalf("the search was not complete:\n%s", o.output)
	}
}

func properties(flags []string) []string {
	return slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return !strings.HasPrefix(f, "-DP_") })
}
