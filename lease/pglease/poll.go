package pglease

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// pollInterval is how often a locker that cannot listen looks into its mailbox. A lease is reserved for it that much longer.
const pollInterval = 100 * time.Millisecond

// poll is Listen without a session that listens. It asks nothing while nothing can happen that concerns this locker, save
// for sweeping now and then.
func (l *Locker) poll(ctx context.Context, f func(lease.Signal)) {
	lost := true // until the first answer
	swept := time.Now()
	for failures := 0; ; {
		if lost || l.entries.any(time.Now()) {
			mail, err := l.fetch(ctx)
			if err != nil {
				lost, failures = true, failures+1
				if !pause(ctx, failures) {
					return
				}
				continue
			}
			failures = 0
			if lost {
				lost = false
				f(lease.Signal{Kind: lease.Resync})
			}
			for _, s := range mail {
				f(s)
			}
		}
		if time.Since(swept) >= l.sweep {
			// What fails is left to the next time.
			_ = sweepAll(func(n *int64) error { return l.call(ctx, "SELECT fence.sweep_leases($1::int)", []any{sweepLimit}, n) })
			swept = time.Now()
		}
		if !l.entries.await(ctx, l.sweep) || !sleep(ctx, pollInterval) {
			return
		}
	}
}

// fetch empties the mailbox. When its answer is lost, so is the mail.
func (l *Locker) fetch(ctx context.Context) ([]lease.Signal, error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.CallTimeout)
	defer cancel()
	var mail []lease.Signal
	_, err := l.try(ctx, "SELECT kind, name, value FROM fence.poll_signals($1::uuid)", []any{l.gateway}, func(rows pgx.Rows) error {
		for rows.Next() {
			var kind, name string
			var value []byte
			if err := rows.Scan(&kind, &name, &value); err != nil {
				return err
			}
			if s, ok := signal(kind, name, digest(value)); ok {
				mail = append(mail, s)
			}
		}
		return rows.Err()
	})
	return mail, err
}

// grace is how long the mailbox is emptied beyond the last entry: what was sent to it may be on its way.
const grace = time.Second

// entries are the values that wait for a lease or hold one, as far as a locker knows, and until when at most.
type entries struct {
	mu    sync.Mutex
	until map[fence.Digest]time.Time // guarded by mu
	// some has one when the first came.
	some chan struct{}
}

func newEntries() *entries {
	return &entries{until: make(map[fence.Digest]time.Time), some: make(chan struct{}, 1)}
}

func (e *entries) keep(value fence.Digest, until time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until[value] = until
	select {
	case e.some <- struct{}{}:
	default:
	}
}

func (e *entries) forget(value fence.Digest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.until[value]; ok {
		e.until[value] = time.Now().Add(grace)
	}
}

// any reports whether there are any, and forgets those whose time has passed.
func (e *entries) any(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for value, until := range e.until {
		if until.Before(now) {
			delete(e.until, value)
		}
	}
	return len(e.until) > 0
}

// await returns when there are any, or after d, and reports whether ctx is not over.
func (e *entries) await(ctx context.Context, d time.Duration) bool {
	if e.any(time.Now()) {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-e.some:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
