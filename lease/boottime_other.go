//go:build !linux && !darwin

package lease

import "time"

// newClock returns a clock that counts the time asleep as well as the wall clock tells it.
func newClock() func() time.Duration { return wallClock() }
