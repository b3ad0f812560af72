package s3store

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// budget is the memory of all uploads, in bytes. Its counts are for Memory.
type budget struct {
	sem            *semaphore.Weighted
	size           int64
	inUse, waiting atomic.Int64
}

func newBudget(size int64) *budget { return &budget{sem: semaphore.NewWeighted(size), size: size} }

func (b *budget) tryAcquire(n int64) bool {
	ok := b.sem.TryAcquire(n)
	if ok {
		b.inUse.Add(n)
	}
	return ok
}

func (b *budget) acquire(ctx context.Context, n int64) error {
	if b.tryAcquire(n) {
		return nil
	}
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	if err := b.sem.Acquire(ctx, n); err != nil {
		return err
	}
	b.inUse.Add(n)
	return nil
}

func (b *budget) release(n int64) {
	b.inUse.Add(-n)
	b.sem.Release(n)
}

// Memory is the buffers of all uploads: the bytes there may be and are, and how many uploads wait for some.
type Memory struct{ Size, InUse, Waiting int64 }

// Memory asks nobody; it is cheap.
func (s *Store) Memory() Memory {
	return Memory{Size: s.memory.size, InUse: s.memory.inUse.Load(), Waiting: s.memory.waiting.Load()}
}
