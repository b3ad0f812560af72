package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fence"
)

const (
	// Refusals are recorded in batches of at most refusalBatch, one each refusalInterval: a worker that writes in vain as fast
	// as it can must not make the ledger record it as fast.
	refusalBatch    = 256
	refusalInterval = 500 * time.Millisecond
	refusalTimeout  = 5 * time.Second
)

// refusals are the writes that were refused and not recorded yet. A write never waits for them.
type refusals struct {
	to  recorder // nil records nothing
	log *slog.Logger
	// queue has room for one batch; what comes beyond is dropped.
	queue          chan fence.Event
	noted, dropped atomic.Uint64
}

// recorder is the part of Events that refusals need.
type recorder interface {
	NoteRefusals(ctx context.Context, refused []fence.Event) error
}

func newRefusals(to recorder, log *slog.Logger) *refusals {
	return &refusals{to: to, log: log, queue: make(chan fence.Event, refusalBatch)}
}

// note remembers a refused write of which somebody may want to know, that is one that was refused for its token.
func (q *refusals) note(principal string, err error) {
	if q.to == nil {
		return
	}
	e, coded := errors.AsType[*fence.Error](err)
	if !coded || !aboutToken(e.Code) {
		return
	}
	event := fence.Event{
		At: time.Now(), Kind: fence.EventRefused, Lease: e.Lease, Principal: principal, First: e.First, Token: e.Token, Code: e.Code,
	}
	if e.State != nil {
		event.Resource = e.State.Resource
		if event.Lease == "" {
			event.Lease = e.State.Lease
		}
	}
	if event.Lease == "" {
		return
	}
	select {
	case q.queue <- event:
	default:
		q.dropped.Add(1)
	}
}

func aboutToken(c fence.Code) bool {
	switch c {
	case fence.CodeStaleToken, fence.CodeSpentToken, fence.CodeGrantEnded, fence.CodeUnissuedToken, fence.CodeForeignToken:
		return true
	}
	return false
}

// run records what is noted until the context ends, and what is left then.
func (q *refusals) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			q.record(ctx)
			return
		case first := <-q.queue:
			pause.Reset(refusalInterval)
			select {
			case <-ctx.Done():
			case <-pause.C:
			}
			q.record(ctx, first)
		}
	}
}

// record writes what is in the queue. What cannot be written is lost: it must not pile up while the ledger is away.
func (q *refusals) record(ctx context.Context, batch ...fence.Event) {
	for len(batch) < refusalBatch && len(q.queue) > 0 {
		batch = append(batch, <-q.queue)
	}
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusalTimeout)
	defer cancel()
	if err := q.to.NoteRefusals(ctx, batch); err != nil {
		q.dropped.Add(uint64(len(batch)))
		q.log.WarnContext(ctx, "refusals are not among the events", "refusals", len(batch), "cause", err)
		return
	}
	q.noted.Add(uint64(len(batch)))
}
