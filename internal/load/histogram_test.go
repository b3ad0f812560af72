package load

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// close1 tells whether two latencies differ by at most 1 %.
func close1(a, b time.Duration) bool { return max(a-b, b-a)*100 <= max(a, b) }

func TestHistogramQuantiles(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	whole, parts := new(Histogram), [3]Histogram{}
	samples := make([]time.Duration, 20_000)
	for i := range samples {
		d := time.Duration(1 << random.IntN(41))
		samples[i] = d + time.Duration(random.Int64N(int64(d)))
		whole.Record(samples[i])
		parts[i%3].Record(samples[i])
	}
	slices.Sort(samples)
	merged := new(Histogram)
	for i := range parts {
		merged.Merge(&parts[i])
	}
	if *merged != *whole && merged.Mean()/time.Microsecond != whole.Mean()/time.Microsecond {
		t.Error("the parts merged are not the whole")
	}
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 1} {
		want := samples[min(max(int(q*float64(len(samples))), 1), len(samples))-1]
		if got := merged.Quantile(q); !close1(got, want) {
			t.Errorf("quantile %v is %v, want %v within 1 %%", q, got, want)
		}
	}
	if merged.Max() != samples[len(samples)-1] || merged.Min() != samples[0] || merged.Count() != int64(len(samples)) {
		t.Errorf("%v to %v of %d, want %v to %v", merged.Min(), merged.Max(), merged.Count(), samples[0], samples[len(samples)-1])
	}
}

// Every latency falls into the bucket whose bounds hold it, buckets follow each other, and none is wide.
func TestHistogramBuckets(t *testing.T) {
	previous := time.Duration(0)
	for i := range bucketCount {
		from, to := bounds(i)
		if from != previous || to <= from {
			t.Fatalf("bucket %d is [%d, %d) and follows %d", i, from, to, previous)
		}
		if width := to - from; from >= subBuckets && int64(width) > int64(from)/subBuckets {
			t.Fatalf("bucket %d of %v is %v wide", i, from, width)
		}
		if bucketOf(from) != i || bucketOf(to-1) != i {
			t.Fatalf("[%d, %d) falls into %d and %d, not %d", from, to, bucketOf(from), bucketOf(to-1), i)
		}
		previous = to
	}
}

func TestHistogramEdges(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Mean() != 0 || len(h.Buckets()) != 0 {
		t.Error("an empty histogram is not zero")
	}
	h.Record(-time.Second)
	h.Record(1000 * time.Hour)
	if h.Min() != 0 || h.Quantile(1) != 1000*time.Hour || h.Count() != 2 {
		t.Errorf("%v to %v of %d", h.Min(), h.Quantile(1), h.Count())
	}
	var one Histogram
	one.Record(777 * time.Microsecond)
	if one.Quantile(0.5) != 777*time.Microsecond {
		t.Errorf("the only latency is %v", one.Quantile(0.5))
	}
	if b := one.Buckets(); len(b) != 1 || b[0].Count != 1 || b[0].From > 777*time.Microsecond || b[0].To <= 777*time.Microsecond {
		t.Errorf("buckets %v", b)
	}
}
