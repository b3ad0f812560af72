package history

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Failure is a lease whose operations cannot have happened one after the other.
type Failure struct {
	Lease string
	// TimedOut says that porcupine did not finish. It is a failure too: nothing was shown.
	TimedOut bool
	steps    []timed
}

// CheckLeases asks porcupine about each lease, two at a time, and returns those that fail. Each lease gets the limit.
func (r *Run) CheckLeases(limit time.Duration) []Failure {
	b := r.Audit.open()
	var (
		mu     sync.Mutex
		failed []Failure // guarded by mu
		group  sync.WaitGroup
	)
	slots := make(chan struct{}, 2)
	for _, lease := range r.leases() {
		steps := r.steps(lease, b)
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			result := check(steps, limit)
			if result == porcupine.Ok {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, Failure{Lease: lease, TimedOut: result == porcupine.Unknown, steps: steps})
		})
	}
	group.Wait()
	slices.SortFunc(failed, func(a, b Failure) int { return cmp.Compare(a.Lease, b.Lease) })
	return failed
}

func check(steps []timed, limit time.Duration) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(newModel(), operations(steps), limit)
}

func (r *Run) leases() []string {
	seen := map[string]bool{}
	var names []string
	for _, op := range r.Ops {
		if !seen[op.Lease] {
			seen[op.Lease] = true
			names = append(names, op.Lease)
		}
	}
	slices.Sort(names)
	return names
}
