package pgstore

import "sync/atomic"

// Why a write that was to go with others went alone.
const (
	aloneBusy   = iota // a lock was not free at once
	aloneFailed        // the batch failed
	aloneReasons
)

// batchCounts counts batches, for Stats.
type batchCounts struct {
	sent, failed, writes atomic.Int64
	went                 [aloneReasons]atomic.Int64
}

// BatchStats counts batches since the store was opened, and tells how many writes wait to be in one.
type BatchStats struct {
	// Sent counts batches whose outcome is that of their writes, Writes the writes in them. Failed ones were made again in parts.
	Sent, Failed, Writes int64
	// Busy and FellBack count writes that left a batch and were made alone: a lock was not free at once, or the batch failed.
	Busy, FellBack int64
	Queued         int64
}

func (s *Store) batchStats() BatchStats {
	b := BatchStats{
		Sent: s.batches.sent.Load(), Failed: s.batches.failed.Load(), Writes: s.batches.writes.Load(),
		Busy: s.batches.went[aloneBusy].Load(), FellBack: s.batches.went[aloneFailed].Load(),
	}
	for _, l := range s.lanes {
		b.Queued += l.waiting()
	}
	return b
}

func (c *batchCounts) count(writes int, err error) {
	if err != nil {
		c.failed.Add(1)
		return
	}
	c.sent.Add(1)
	c.writes.Add(int64(writes))
}

func (c *batchCounts) alone(e *entry, why int) {
	c.went[why].Add(1)
	e.outcome.alone = true
}
