// Package stats summarises measurements that were made in rounds: each candidate has one figure of a kind for each round. What
// slows a machine down for a while slows down all candidates of that round, so candidates are compared within rounds.
package stats

import (
	"cmp"
	"math"
	"slices"
)

// Percentile returns the smallest of the samples that at least a share p of them (0 to 1) does not exceed. It sorts them. Of no
// samples it is the zero value.
func Percentile[T cmp.Ordered](samples []T, p float64) T {
	if len(samples) == 0 {
		var none T
		return none
	}
	slices.Sort(samples)
	rank := int(math.Ceil(p * float64(len(samples))))
	return samples[min(max(rank, 1), len(samples))-1]
}

// Median returns the middle one of the figures, or the mean of the middle two. Those that are no number are left out; of none it
// is NaN.
func Median(figures []float64) float64 {
	sorted := slices.DeleteFunc(slices.Clone(figures), math.IsNaN)
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	slices.Sort(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	low, high := sorted[n/2-1], sorted[n/2]
	if low == high {
		return low // also where both are infinite
	}
	return (low + high) / 2
}

// Ratio returns the median of a's figures over b's of the same round. Rounds that one of them has not, or in which b's is 0,
// are left out.
func Ratio(a, b []float64) float64 {
	n := min(len(a), len(b))
	ratios := make([]float64, 0, n)
	for i := range n {
		if b[i] != 0 {
			ratios = append(ratios, a[i]/b[i])
		}
	}
	return Median(ratios)
}
