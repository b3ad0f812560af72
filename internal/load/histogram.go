package load

import (
	"math"
	"math/bits"
	"time"
)

// Buckets are as wide as a 64th of the power of two they begin from, so that a bucket's middle is within 0.8 % of what it holds.
// Below 64 ns they are exact; what takes longer than maxExponent allows, 73 minutes, is kept as that.
const (
	subBits     = 6
	subBuckets  = 1 << subBits
	maxExponent = 42
	bucketCount = (maxExponent - subBits + 1) * subBuckets
)

// Histogram keeps latencies in log-linear buckets, in constant memory (19 KiB). Quantiles are right within 1 %, the greatest and
// the least are exact. The zero value is empty. It is not safe for concurrent use.
type Histogram struct {
	counts   [bucketCount]int64
	n        int64
	sum      float64 // nanoseconds
	min, max time.Duration
}

// Bucket is a range of latencies that holds some.
type Bucket struct {
	From, To time.Duration // To is exclusive
	Count    int64
}

// Record adds one latency; one below zero counts as zero.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	if h.n == 0 || d < h.min {
		h.min = d
	}
	h.max = max(h.max, d)
	h.n++
	h.sum += float64(d)
	h.counts[bucketOf(d)]++
}

// Merge adds what the other one holds.
func (h *Histogram) Merge(other *Histogram) {
	if other.n == 0 {
		return
	}
	if h.n == 0 || other.min < h.min {
		h.min = other.min
	}
	h.max = max(h.max, other.max)
	h.n += other.n
	h.sum += other.sum
	for i, n := range other.counts {
		h.counts[i] += n
	}
}

// Count is how many latencies were recorded.
func (h *Histogram) Count() int64 { return h.n }

// Max is the greatest latency, 0 of none.
func (h *Histogram) Max() time.Duration { return h.max }

// Min is the least latency, 0 of none.
func (h *Histogram) Min() time.Duration { return h.min }

// Mean is the mean of all latencies, 0 of none.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(h.n))
}

// Quantile returns the latency that a share q (0 to 1) of all does not exceed, by nearest rank: 0 of none, Max for 1.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := min(max(int64(math.Ceil(q*float64(h.n))), 1), h.n)
	if rank == h.n {
		return h.max
	}
	for i, n := range h.counts {
		if rank -= n; rank <= 0 {
			from, to := bounds(i)
			return min(max(from+(to-from)/2, h.min), h.max)
		}
	}
	return h.max
}

// Buckets returns those that hold something, by latency.
func (h *Histogram) Buckets() []Bucket {
	var found []Bucket
	for i, n := range h.counts {
		if n > 0 {
			from, to := bounds(i)
			found = append(found, Bucket{from, to, n})
		}
	}
	return found
}

// bucketOf is where a latency belongs. The first two subBuckets of them are exact; after that each power of two has subBuckets.
func bucketOf(d time.Duration) int {
	v := min(uint64(d), 1<<maxExponent-1)
	shift := max(bits.Len64(v)-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

// bounds are where a bucket begins and where the next one does.
func bounds(i int) (from, to time.Duration) {
	shift := max(i>>subBits-1, 0)
	sub := i - shift<<subBits
	return time.Duration(sub) << shift, time.Duration(sub+1) << shift
}
