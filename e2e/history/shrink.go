package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// shrinkCheck bounds one check while shrinking. One that takes longer counts as passed, so that what is kept fails.
const shrinkCheck = 2 * time.Second

// Shrink returns fewer steps of the failure that still fail, as operations for people: the shortest prefix by the time
// of the returns, without the reads, refusals and unknown writes, and without the resource, that it does not need. It
// stops at the limit with what it has.
func (f Failure) Shrink(limit time.Duration) []*Op {
	over := time.Now().Add(limit)
	fails := func(steps []timed) bool { return check(steps, shrinkCheck) == porcupine.Illegal }
	steps := f.steps
	if !f.TimedOut {
		steps = prefix(steps, fails)
		steps = suffix(steps, over, fails)
		steps = without(steps, over, fails)
		steps = oldGrants(steps, fails)
	}
	var ops []*Op
	seen := map[*Op]bool{}
	for _, s := range steps {
		if !seen[s.op] {
			seen[s.op] = true
			ops = append(ops, s.op)
		}
	}
	slices.SortFunc(ops, func(a, b *Op) int { return cmp.Compare(a.Called(), b.Called()) })
	return ops
}

// prefix finds, by halving, the first return with which the history fails. A prefix of what is possible is possible.
func prefix(steps []timed, fails func([]timed) bool) []timed {
	var rets []int64
	for _, s := range steps {
		rets = append(rets, s.ret)
	}
	slices.Sort(rets)
	n, _ := slices.BinarySearchFunc(rets, true, func(ret int64, _ bool) int {
		if fails(until(steps, ret)) {
			return 0
		}
		return -1
	})
	if n == len(rets) {
		return steps
	}
	return until(steps, rets[n])
}

// until is what was known at a time: what had not returned by then may have happened or not, or is yet to come.
func until(steps []timed, at int64) []timed {
	var known []timed
	for _, s := range steps {
		switch {
		case s.ret <= at:
			known = append(known, s)
		case s.call <= at && s.what == writes && s.code == "":
			open := *s.step
			open.unknown = true
			s.step, s.ret = &open, Forever
			known = append(known, s)
		case s.call <= at && (s.what == grants || s.what == ends):
			s.ret = Forever
			known = append(known, s)
		}
	}
	return known
}

// suffix leaves out what came before the last write of each resource with which the history still fails.
func suffix(steps []timed, over time.Time, fails func([]timed) bool) []timed {
	for _, c := range []int{0, 1} {
		var pivots []timed
		for _, s := range steps {
			if s.cell == c && s.what == writes && s.code == "" && !s.unknown && s.value != "" {
				pivots = append(pivots, s)
			}
		}
		for back := 1; back <= len(pivots) && time.Now().Before(over); back *= 2 {
			if rest := after(steps, pivots[len(pivots)-back]); fails(rest) {
				steps = rest
				break
			}
		}
	}
	return steps
}

// after leaves out of a resource what cannot matter after an accepted write: reads and refusals called before it
// returned, and writes that returned before it. The write itself and those that were under way may find anything.
func after(steps []timed, pivot timed) []timed {
	var rest []timed
	for _, s := range steps {
		early := s.onResource() && s.cell == pivot.cell && s.call < pivot.ret
		if early && s.step != pivot.step && (s.what != writes || s.code != "" || s.ret < pivot.ret) {
			continue
		}
		if early {
			free := *s.step
			free.anyAge, free.found = true, true
			s.step = &free
		}
		rest = append(rest, s)
	}
	return rest
}

// oldGrants leaves out the grants before the one that was the newest when the rest began.
func oldGrants(steps []timed, fails func([]timed) bool) []timed {
	var begin int64 = Forever
	for _, s := range steps {
		if s.what != grants && s.what != ends {
			begin = min(begin, s.call)
		}
	}
	var newest *timed
	for i, s := range steps {
		if s.what == grants && s.ret < begin && (newest == nil || s.first > newest.first) {
			newest = &steps[i]
		}
	}
	if newest == nil {
		return steps
	}
	rest := slices.DeleteFunc(slices.Clone(steps), func(s timed) bool {
		return (s.what == grants || s.what == ends && s.first != 0) && s.first < newest.first
	})
	if fails(rest) {
		return rest
	}
	return steps
}

// without leaves out what the failure does not need, in growing detail: half of what may go, then a quarter, at last
// step by step.
func without(steps []timed, over time.Time, fails func([]timed) bool) []timed {
	for _, c := range []int{0, 1} {
		rest := slices.DeleteFunc(slices.Clone(steps), func(s timed) bool { return s.cell == c && s.onResource() })
		if len(rest) < len(steps) && fails(rest) {
			steps = rest
		}
	}
	for size := len(steps) / 2; size > 0; size /= 2 {
		for i := 0; i < len(steps) && time.Now().Before(over); {
			rest := make([]timed, 0, len(steps))
			for j, s := range steps {
				if j < i || j >= i+size || !s.optional() {
					rest = append(rest, s)
				}
			}
			if len(rest) < len(steps) && fails(rest) {
				steps = rest
				continue
			}
			i += size
		}
	}
	return steps
}

func (p *step) onResource() bool { return p.what == writes || p.what == reads || p.what == readMark }

// optional tells whether the rest would be possible without the step, if the whole is: it changes nothing, or need not
// have happened.
func (p *step) optional() bool {
	return p.what != writes && p.what != grants && p.what != ends || p.what == writes && (p.code != "" || p.unknown)
}
