package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// batches keeps the batches of refusals that it is given.
type batches struct {
	mu   sync.Mutex
	all  [][]fence.Event // guarded by mu
	err  error
	hold chan struct{} // closed when recording may go on; nil when it need not wait
}

func (r *batches) NoteRefusals(ctx context.Context, refused []fence.Event) error {
	if r.hold != nil {
		<-r.hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, refused)
	return r.err
}

func refusal(code fence.Code) *fence.Error {
	e := fence.Errorf(code, "no")
	e.Token, e.First, e.State = 1001, 2000, &fence.State{Resource: "rows/public.t/1", Lease: "t:1"}
	return e
}

func TestRefusalsAreRecorded(t *testing.T) {
	r := &batches{}
	q := newRefusals(r, slog.New(slog.DiscardHandler))
	before := time.Now()
	for _, c := range codes(t) {
		q.note("ann", settled(fmt.Errorf("write: %w", refusal(c))))
	}
	q.note("ann", errors.New("no code"))
	unnamed := refusal(fence.CodeStaleToken)
	unnamed.State = nil
	q.note("ann", unnamed)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q.run(ctx) // what is left when it ends
	if len(r.all) != 1 {
		t.Fatalf("%d batches", len(r.all))
	}
	var got []fence.Code
	for _, e := range r.all[0] {
		got = append(got, e.Code)
		if e.At.Before(before) || e.At.After(time.Now()) {
			t.Error(e.At)
		}
		e.At, e.Code = time.Time{}, ""
		want := fence.Event{Kind: fence.EventRefused, Lease: "t:1", Principal: "ann", First: 2000, Token: 1001, Resource: "rows/public.t/1"}
		if !reflect.DeepEqual(e, want) {
			t.Errorf("%+v", e)
		}
	}
	if want := []fence.Code{"stale-token", "spent-token", "grant-ended", "unissued-token", "foreign-token"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	if q.noted.Load() != 5 || q.dropped.Load() != 0 {
		t.Error(q.noted.Load(), q.dropped.Load())
	}
}

// A ledger that does not answer delays nobody: what does not fit is dropped, and counted.
func TestRefusalsNeverWait(t *testing.T) {
	r := &batches{hold: make(chan struct{})}
	q := newRefusals(r, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { q.run(ctx) })
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		for range 10 * refusalBatch {
			q.note("ann", refusal(fence.CodeStaleToken))
		}
	}()
	select {
	case <-noted:
	case <-time.After(10 * time.Second):
		t.Fatal("a write waits for the ledger")
	}
	cancel()
	close(r.hold)
	running.Wait()
	if noted, dropped := q.noted.Load(), q.dropped.Load(); noted+dropped != 10*refusalBatch || dropped < 8*refusalBatch || noted < refusalBatch {
		t.Errorf("%d are noted, %d dropped", noted, dropped)
	}
	for _, b := range r.all {
		if len(b) > refusalBatch {
			t.Errorf("a batch of %d", len(b))
		}
	}
}

func TestRefusalsThatTheLedgerDoesNotTake(t *testing.T) {
	var log strings.Builder
	r := &batches{err: errors.New("disk full")}
	q := newRefusals(r, slog.New(slog.NewTextHandler(&log, nil)))
	q.note("ann", refusal(fence.CodeStaleToken))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q.run(ctx)
	if q.noted.Load() != 0 || q.dropped.Load() != 1 || !strings.Contains(log.String(), "disk full") {
		t.Errorf("%d, %d, %s", q.noted.Load(), q.dropped.Load(), &log)
	}
}

// Which of the two it sees first, that it is over or that there is something, is chance.
func TestRefusalsAreRecordedAtTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		q := newRefusals(&batches{}, slog.New(slog.DiscardHandler))
		q.note("ann", refusal(fence.CodeStaleToken))
		q.run(ctx)
		if q.noted.Load() != 1 {
			t.Fatal("the refusal is lost")
		}
	}
}

func TestRefusalsWithoutEvents(t *testing.T) {
	q := newRefusals(nil, slog.New(slog.DiscardHandler))
	q.note("ann", refusal(fence.CodeStaleToken))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q.run(ctx)
	if q.noted.Load()+q.dropped.Load() != 0 {
		t.Error("something was recorded")
	}
}

func TestResourceAction(t *testing.T) {
	for name, want := range map[string]Action{
		"rows/public.wallets/42":         {Verb: VerbRead, Schema: "public", Table: "wallets"},
		`rows/"a.b"."Re/ply"/7,x%2Fy`:    {Verb: VerbRead, Schema: "a.b", Table: "Re/ply"},
		"rows/public.wallets":            {Verb: VerbRead, Schema: "public", Table: "wallets"},
		"objects/reports/2026/a.csv":     {Verb: VerbRead, Bucket: "reports", Key: "2026/a.csv"},
		"objects/reports//x":             {Verb: VerbRead, Bucket: "reports", Key: "/x"},
		"":                               {},
		"rows/":                          {},
		"rows/a.b.c/1":                   {},
		"blobs/x":                        {},
		"objects/":                       {},
		`rows/public.wallets"; --/1`:     {},
		"rows/public.wallets/1/2":        {},
		"objectsreports/2026/a.csv":      {},
		"ROWS/public.wallets/42":         {},
		"rows/ public.wallets/42":        {},
		"rows/public.wallets/42/objects": {},
	} {
		got, ok := resourceAction(name)
		if ok != (want != Action{}) || ok && got != want {
			t.Errorf("%q: %+v, %t", name, got, ok)
		}
	}
}
