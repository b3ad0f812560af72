package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// newClock returns a clock that goes on while the machine sleeps: Go's own monotonic clock stands still then, and
// CLOCK_BOOTTIME does not.
func newClock() func() time.Duration { return systemClock(unix.CLOCK_BOOTTIME) }
