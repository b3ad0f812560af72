package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// newClock returns a clock that goes on while the machine sleeps, which is what CLOCK_MONOTONIC does on this system and
// Go's own monotonic clock does not.
func newClock() func() time.Duration { return systemClock(unix.CLOCK_MONOTONIC) }
