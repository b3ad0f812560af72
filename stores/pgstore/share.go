package pgstore

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// share is how many connections one kind of transaction may hold at once. Its counts are for Stats.
type share struct {
	sem            *semaphore.Weighted
	size           int64
	inUse, waiting atomic.Int64
}

func newShare(size int64) *share { return &share{sem: semaphore.NewWeighted(size), size: size} }

func (s *share) acquire(ctx context.Context) error {
	if !s.sem.TryAcquire(1) {
		s.waiting.Add(1)
		defer s.waiting.Add(-1)
		if err := s.sem.Acquire(ctx, 1); err != nil {
			return err
		}
	}
	s.inUse.Add(1)
	return nil
}

func (s *share) release() {
	s.inUse.Add(-1)
	s.sem.Release(1)
}

// ShareStats is one share of the connections: how many transactions it admits at once, and how many are in it and
// wait for it.
type ShareStats struct{ Size, InUse, Waiting int64 }

func (s *share) stats() ShareStats {
	return ShareStats{Size: s.size, InUse: s.inUse.Load(), Waiting: s.waiting.Load()}
}
