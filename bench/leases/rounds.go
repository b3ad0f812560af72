package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/bench/stats"
)

// plan is how long there is measured. A part whose slices have no length is left out.
type plan struct {
	rounds                   int
	contended, alone, warmUp time.Duration
	seed                     uint64
}

func full() plan {
	return plan{rounds: 5, contended: time.Second, alone: 350 * time.Millisecond, warmUp: 300 * time.Millisecond}
}

func quick() plan {
	return plan{rounds: 2, contended: 500 * time.Millisecond, alone: 120 * time.Millisecond, warmUp: 100 * time.Millisecond}
}

// limit bounds a whole run: half as long again as its slices, and the time that it takes to start.
func (p plan) limit(all []slice) time.Duration {
	total := time.Duration(len(all)) * p.warmUp
	for _, s := range all {
		total += s.length * time.Duration(p.rounds)
	}
	return total + total/2 + 2*patience
}

// figure is a kind of figure; figures are those of one slice. Times are in ns, rates in leases per second.
type (
	figure  string
	figures map[figure]float64
)

const (
	handoffP50 figure = "hand-off p50"
	handoffP99 figure = "hand-off p99"
	waitP99    figure = "wait p99"
	trips      figure = "round trips"
	wins       figure = "most/least"
	latency    figure = "latency"
)

// rate is the figure of n workers that share no lease.
func rate(n int) figure { return figure(strconv.Itoa(n) + " at once") }

type runSlice func(ctx context.Context, length time.Duration) (figures, error)

// slice is what one candidate does in a round.
type slice struct {
	candidate string
	length    time.Duration
	run       runSlice
}

// results are the figures of each candidate by round. A round that a candidate has not is NaN.
type results struct {
	rounds   int
	series   map[string]map[figure][]float64
	failures []failure
}

// failure is a slice that came to nothing.
type failure struct {
	candidate string
	err       error
}

func newResults(rounds int) *results {
	return &results{rounds: rounds, series: map[string]map[figure][]float64{}}
}

func (r *results) add(candidate string, round int, all figures) {
	of := r.series[candidate]
	if of == nil {
		of = map[figure][]float64{}
		r.series[candidate] = of
	}
	for kind, value := range all {
		if of[kind] == nil {
			of[kind] = make([]float64, r.rounds)
			for i := range of[kind] {
				of[kind][i] = math.NaN()
			}
		}
		of[kind][round] = value
	}
}

// failure is nil unless a candidate of ours has failed. Of others it is only told.
func (r *results) failure() error {
	var all error
	for _, f := range r.failures {
		if strings.HasPrefix(f.candidate, ours) {
			all = errors.Join(all, fmt.Errorf("%s: %w", f.candidate, f.err))
		}
	}
	return all
}

// median is NaN where nothing was measured.
func (r *results) median(candidate string, kind figure) float64 {
	return stats.Median(r.series[candidate][kind])
}

// ratio compares within rounds.
func (r *results) ratio(a, b string, kind figure) float64 {
	return stats.Ratio(r.series[a][kind], r.series[b][kind])
}

// measure runs every slice once in each round, each time in another order, after a first round that counts for nothing.
func measure(ctx context.Context, all []slice, p plan, progress io.Writer) *results {
	r := newResults(p.rounds)
	order := rand.New(rand.NewPCG(p.seed, 0))
	for round := -1; round < p.rounds; round++ {
		order.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, s := range all {
			length := s.length
			if round < 0 {
				length = min(length, p.warmUp)
			}
			got, err := s.run(ctx, length)
			switch {
			case ctx.Err() != nil:
				return r
			case round < 0 && errors.Is(err, errNobody):
				// It has only connected so far.
			case err != nil:
				r.failures = append(r.failures, failure{s.candidate, err})
			case round >= 0:
				r.add(s.candidate, round, got)
			}
		}
		if round >= 0 {
			fmt.Fprintf(progress, "round %d of %d\n", round+1, p.rounds)
		}
	}
	return r
}
