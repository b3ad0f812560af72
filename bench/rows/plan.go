package main

import "time"

// plan is how long there is measured, and how much there is to write to.
type plan struct {
	quick         bool
	rounds        int
	warmUp, slice time.Duration
	seed          uint64
	// rows of the table that all cases write to, each with a lease of its own.
	rows int64
	// casesEnd and growthEnd are when the last round of each has to have ended, counted from the start. One is run, always.
	casesEnd, growthEnd time.Duration
	// growth of the tables, from the first to the last.
	protected, leases []int64
}

func full() plan {
	return plan{
		rounds: 5, warmUp: 500 * time.Millisecond, slice: 2500 * time.Millisecond,
		casesEnd: 15 * time.Minute, growthEnd: 23 * time.Minute,
		rows: 100_000, protected: []int64{1, 1_000, 1_000_000}, leases: []int64{1, 1_000, 100_000},
	}
}

func quick() plan {
	return plan{
		quick: true, rounds: 2, warmUp: 200 * time.Millisecond, slice: 500 * time.Millisecond,
		casesEnd: 98 * time.Second, growthEnd: 150 * time.Second,
		rows: 10_000, protected: []int64{1, 1_000, 10_000}, leases: []int64{1, 100, 10_000},
	}
}

// clients are how many there are at once, each with one write under way.
func clients() []int { return []int{1, 16, 64, 256} }

const (
	// fewClients and manyClients are what the series of growth are measured with.
	fewClients  = 1
	manyClients = 64
)

// mostGateways is how many there are at once at most, and refusals are the shares of writes whose token is an old one.
const mostGateways = 4

func refusals() []float64 { return []float64{0, 0.1, 0.9} }

// limit bounds a whole run, half as long again as it is to take.
func (p plan) limit() time.Duration { return p.growthEnd + p.growthEnd/2 + time.Minute }
