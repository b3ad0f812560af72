package main

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"
)

const short = 50 * time.Millisecond

// turnstile is a lock in memory that serves in the order in which it is asked, and counts its calls.
type turnstile struct {
	free  chan struct{}
	calls atomic.Int64
}

func newTurnstile() *turnstile {
	t := &turnstile{free: make(chan struct{}, 1)}
	t.free <- struct{}{}
	return t
}

func (t *turnstile) take(ctx context.Context, _ string) (func(context.Context) error, error) {
	t.calls.Add(1)
	select {
	case <-t.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return func(context.Context) error {
		t.calls.Add(1)
		t.free <- struct{}{}
		return nil
	}, nil
}

func (t *turnstile) count(context.Context) (int64, error) { return t.calls.Load(), nil }

func TestContend(t *testing.T) {
	lock := newTurnstile()
	lock.calls.Store(1e6) // of earlier slices
	got, err := contend(t.Context(), candidate{clients: []acquire{lock.take}, calls: lock.count}, short)
	if err != nil {
		t.Fatal(err)
	}
	if got[trips] != 2 {
		t.Errorf("%v round trips for each turn, want 2", got[trips])
	}
	// Each of the others has it for a hold before one has it again.
	if least := float64((waiters - 1) * hold); got[waitP99] < least {
		t.Errorf("wait p99 is %v, want at least %v", span(got[waitP99]), span(least))
	}
	if got[handoffP50] <= 0 || got[handoffP50] > got[handoffP99] || got[handoffP99] > float64(short) {
		t.Errorf("hand-off p50 is %v, p99 %v", span(got[handoffP50]), span(got[handoffP99]))
	}
}

func TestContendWithoutCounting(t *testing.T) {
	got, err := contend(t.Context(), candidate{clients: []acquire{newTurnstile().take}}, short)
	if err != nil || !math.IsNaN(got[trips]) {
		t.Errorf("got %v round trips, %v", got[trips], err)
	}
}

func TestContendFindsOverlap(t *testing.T) {
	nothing := func(context.Context, string) (func(context.Context) error, error) {
		return func(context.Context) error { return nil }, nil
	}
	if _, err := contend(t.Context(), candidate{clients: []acquire{nothing}}, short); !errors.Is(err, errOverlap) {
		t.Errorf("got %v, want errOverlap", err)
	}
}

func TestContendTellsWhoStarves(t *testing.T) {
	lock := newTurnstile()
	clients := make([]acquire, waiters)
	for i := range clients {
		clients[i] = lock.take
	}
	clients[3] = func(ctx context.Context, _ string) (func(context.Context) error, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	got, err := contend(t.Context(), candidate{clients: clients}, short)
	if err != nil {
		t.Fatal(err)
	}
	if !math.IsInf(got[wins], 1) || got[waitP99] < float64(short) {
		t.Errorf("most/least is %v, wait p99 %v", got[wins], span(got[waitP99]))
	}
}

func TestContendFails(t *testing.T) {
	broken := errors.New("broken")
	lock := newTurnstile()
	fails := func(context.Context, string) (func(context.Context) error, error) { return nil, broken }
	never := func(ctx context.Context, _ string) (func(context.Context) error, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	stuck := func(ctx context.Context, name string) (func(context.Context) error, error) {
		if _, err := lock.take(ctx, name); err != nil {
			return nil, err
		}
		return func(context.Context) error { return broken }, nil
	}
	for name, tt := range map[string]struct {
		take acquire
		want error
	}{"Acquire": {fails, broken}, "Release": {stuck, broken}, "Nobody": {never, errNobody}} {
		t.Run(name, func(t *testing.T) {
			if _, err := contend(t.Context(), candidate{clients: []acquire{tt.take}}, short); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestSummarise(t *testing.T) {
	all := make([]runner, 4)
	for i := range all {
		all[i] = runner{handoffs: []float64{float64(10 + i)}, waits: []float64{float64(100 * i)}, wins: 4 - i, turns: 5}
	}
	got, err := summarise(all)
	if err != nil {
		t.Fatal(err)
	}
	want := figures{handoffP50: 11, handoffP99: 13, waitP99: 300, trips: 1.0 / 20, wins: 4}
	for kind, value := range want {
		if got[kind] != value {
			t.Errorf("%s is %v, want %v", kind, got[kind], value)
		}
	}
}

func TestGoAlone(t *testing.T) {
	var turns atomic.Int64
	slow := func(context.Context, string) (func(context.Context) error, error) {
		return func(context.Context) error {
			time.Sleep(5 * time.Millisecond)
			turns.Add(1)
			return nil
		}, nil
	}
	got, err := goAlone(t.Context(), candidate{clients: []acquire{slow}}, 16, short)
	if err != nil {
		t.Fatal(err)
	}
	// The slice took at least as long as planned, and not many times as long.
	least, most := float64(turns.Load())/(8*short.Seconds()), float64(turns.Load())/short.Seconds()
	if r := got[rate(16)]; r < least || r > most {
		t.Errorf("%v in a second for %d turns", r, turns.Load())
	}
	broken := errors.New("broken")
	fails := func(context.Context, string) (func(context.Context) error, error) { return nil, broken }
	if _, err := goAlone(t.Context(), candidate{clients: []acquire{slow, fails}}, 2, short); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}
