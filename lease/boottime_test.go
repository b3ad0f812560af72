package lease

import (
	"testing"
	"time"
)

func TestClocksRun(t *testing.T) {
	for name, now := range map[string]func() time.Duration{"TheSystems": newClock(), "TheWalls": wallClock()} {
		t.Run(name, func(t *testing.T) {
			before, began := now(), time.Now()
			<-time.After(20 * time.Millisecond)
			if passed := now() - before; passed < 20*time.Millisecond || passed > time.Since(began)+time.Second {
				t.Errorf("%v passed", passed)
			}
		})
	}
}

// Where only the wall clock tells how long the machine slept, a hold is never longer for it.
func TestAheadNeverTurnsBack(t *testing.T) {
	var awake, wall time.Duration
	now := ahead(func() time.Duration { return awake }, func() time.Duration { return wall })
	for _, s := range []struct {
		name               string
		awake, wall, shown time.Duration
	}{
		{"Awake", time.Second, time.Second, time.Second},
		{"SleptOrSetForward", 2 * time.Second, time.Hour, time.Hour},
		{"Awake", 3 * time.Second, time.Hour + time.Second, time.Hour + time.Second},
		{"SetBack", 4 * time.Second, 0, time.Hour + 2*time.Second},
		{"SetBackAndSlept", 5 * time.Second, time.Minute, time.Hour + 3*time.Second},
		{"SleptForLonger", 6 * time.Second, 2 * time.Hour, 2 * time.Hour},
	} {
		awake, wall = s.awake, s.wall
		if got := now(); got != s.shown {
			t.Errorf("%s: the clock shows %v, want %v", s.name, got, s.shown)
		}
	}
}
