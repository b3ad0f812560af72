package lease

import (
	"sync/atomic"
	"time"
)

// wallClock is a clock for systems that tell the time asleep by the wall clock only.
func wallClock() func() time.Duration {
	start := time.Now()
	return ahead(
		func() time.Duration { return time.Since(start) },
		func() time.Duration { return time.Now().Round(0).Sub(start.Round(0)) })
}

// ahead is a clock that runs as awake does, and jumps forward whenever wall has. A wall clock that is set forward shortens
// a hold; one that is set back does nothing.
func ahead(awake, wall func() time.Duration) func() time.Duration {
	var most atomic.Int64
	return func() time.Duration {
		now := awake()
		jump := int64(wall() - now)
		for {
			known := most.Load()
			if jump <= known {
				return now + time.Duration(known)
			}
			if most.CompareAndSwap(known, jump) {
				return now + time.Duration(jump)
			}
		}
	}
}
