package gateway

import "sync/atomic"

// Stats is what a gateway has met so far. Its maps are indexed by class.
type Stats struct {
	// Streams is how many streams of events there are at the moment.
	Streams int
	// RefusalsNoted is how many refused writes were recorded among the events, RefusalsDropped how many were not: too many came
	// at once, or the ledger did not take them.
	RefusalsNoted, RefusalsDropped uint64
	// OverRate is how many requests were refused because their principal had made too many, Uncounted how many the Limiter could
	// not count.
	OverRate, Uncounted map[string]uint64
}

// Stats asks nobody; it is cheap.
func (g *Gateway) Stats() Stats {
	return Stats{
		Streams: g.places.taken(), RefusalsNoted: g.refusals.noted.Load(), RefusalsDropped: g.refusals.dropped.Load(),
		OverRate: loaded(g.limits.over), Uncounted: loaded(g.limits.uncounted),
	}
}

func loaded(counters map[string]*atomic.Uint64) map[string]uint64 {
	values := make(map[string]uint64, len(counters))
	for class, n := range counters {
		values[class] = n.Load()
	}
	return values
}
