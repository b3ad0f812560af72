package gateway

import "time"

// StreamTimes are the times of streams that tests hurry, and the size of their window.
type StreamTimes struct {
	Heartbeat, Recheck, Stall, Poll, Pause time.Duration
	Window                                 int
}

// HurryStreams changes those that are set. It is called before the first stream.
func (g *Gateway) HurryStreams(s StreamTimes) {
	for from, to := range map[*time.Duration]*time.Duration{
		&s.Heartbeat: &g.times.heartbeat, &s.Recheck: &g.times.recheck, &s.Stall: &g.times.stall, &s.Poll: &g.feed.poll, &s.Pause: &g.feed.pause,
	} {
		if *from != 0 {
			*to = *from
		}
	}
	if s.Window != 0 {
		g.feed.size = s.Window
	}
}
