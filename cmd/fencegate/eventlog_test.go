package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A reload is told once the new rules are in force; one that fails is not.
func TestGuardTellsOfNewRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const principal = "principals:\n  - name: %s\n    secret_sha256: \"%064d\"\n"
	write(fmt.Sprintf(principal, "ann", 1))
	g, err := newGuard(accessFlags{AuthFile: file}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	g.reloaded = func(bool) {}
	g.reload() // nobody to tell yet
	var told []string
	g.changed(func() { told = append(told, "told") })
	g.reloaded = func(ok bool) { told = append(told, fmt.Sprint(ok)) }
	write(fmt.Sprintf(principal, "bob", 2))
	g.reload()
	write("principals: 1\n")
	g.reload()
	if want := []string{"told", "true", "false"}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}

// prunedEvents ends its context after a number of prunings.
type prunedEvents struct {
	left int
	stop context.CancelFunc
	err  error
	ages []time.Duration
}

func (p *prunedEvents) PruneEvents(_ context.Context, age time.Duration) (int64, error) {
	p.ages = append(p.ages, age)
	if p.left--; p.left == 0 {
		p.stop()
	}
	return 0, p.err
}

func TestEventsArePruned(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var log strings.Builder
	p := &prunedEvents{left: 3, stop: stop, err: errors.New("no ledger")}
	if err := pruneEvents(ctx, p, 10*time.Millisecond, slog.New(slog.NewTextHandler(&log, nil))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if len(p.ages) != 3 || p.ages[2] != 10*time.Millisecond || strings.Count(log.String(), "no ledger") != 2 {
		t.Errorf("%v %s", p.ages, &log)
	}
}

func TestEventFlags(t *testing.T) {
	good := eventFlags{EventRetention: time.Minute, MaxEventStreams: 1, MaxEventStreamsEach: 1}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*eventFlags){
		func(f *eventFlags) { f.EventRetention = time.Minute - 1 }, func(f *eventFlags) { f.EventRetention = 0 }, func(f *eventFlags) { f.MaxEventStreams = 0 }, func(f *eventFlags) { f.MaxEventStreamsEach = -1 },
	} {
		bad := good
		if change(&bad); bad.validate() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
