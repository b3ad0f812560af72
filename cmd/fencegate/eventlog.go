package main

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

const (
	// pruneInterval is the time between two prunings of events. Each gateway prunes; what another has pruned costs nothing.
	pruneInterval = time.Hour
	minRetention  = time.Minute
)

// eventFlags say how long events are kept, and how many may follow them.
type eventFlags struct {
	EventRetention      time.Duration `default:"24h" help:"How long events are kept for streams that were cut off. At least 1m."`
	MaxEventStreams     int           `default:"256" help:"Most streams of events that there may be at once in this gateway."`
	MaxEventStreamsEach int           `default:"16" help:"Most of them that one principal may have."`
}

func (f eventFlags) validate() error {
	if f.MaxEventStreams < 1 || f.MaxEventStreamsEach < 1 {
		return errors.New("--max-event-streams and --max-event-streams-each are positive")
	}
	return atLeast("--event-retention", f.EventRetention, minRetention)
}

// pruner is a ledger that forgets events.
type pruner interface {
	PruneEvents(ctx context.Context, age time.Duration) (int64, error)
}

// keepEvents makes a server forget events that are older than the retention.
func (s *server) keepEvents(retention time.Duration) {
	s.background["events"] = func(ctx context.Context) error { return pruneEvents(ctx, s.store, retention, s.log) }
}

// pruneEvents forgets events that are older than the retention, at once and then at intervals.
func pruneEvents(ctx context.Context, p pruner, retention time.Duration, log *slog.Logger) error {
	tick := time.NewTicker(min(pruneInterval, retention))
	defer tick.Stop()
	for {
		if _, err := p.PruneEvents(ctx, retention); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "events were not pruned", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
