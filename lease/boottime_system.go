//go:build linux || darwin

package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// systemClock reads a clock of the system, or tells the time asleep by the wall clock where that cannot be read.
func systemClock(id int32) func() time.Duration {
	read := func() (time.Duration, error) {
		var t unix.Timespec
		err := unix.ClockGettime(id, &t)
		return time.Duration(t.Nano()), err
	}
	if _, err := read(); err != nil {
		return wallClock()
	}
	return func() time.Duration {
		t, _ := read() // which clocks there are does not change
		return t
	}
}
