package lease

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// keepTest runs a test in a bubble whose time passes at once.
func keepTest(t *testing.T, name string, f func(t *testing.T, fake *keepFake)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { f(t, newKeepFake(t)) })
	})
}

func TestKeepRenews(t *testing.T) {
	keepTest(t, "AtAThirdOfTheTTL", func(t *testing.T, f *keepFake) {
		k := f.kept()
		time.Sleep(95 * time.Second)
		if k.Err() != nil || k.Token() != 1000 || k.Grant().ID != "secret" {
			t.Errorf("after 95 s: %v, %+v", k.Err(), k.Grant())
		}
		if err := k.Close(); err != nil || !errors.Is(context.Cause(k.Context()), ErrReleased) || k.Close() != nil {
			t.Errorf("closed: %v, %v", err, context.Cause(k.Context()))
		}
		time.Sleep(10 * keepTTL)
		want := []time.Duration{10, 20, 30, 40, 50, 60, 70, 80, 90}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(f.renewals(), want) || f.releases() != 1 || len(f.lost) != 0 {
			t.Errorf("renewed at %v, %d releases, lost %v", f.renewals(), f.releases(), f.lost)
		}
	})
	keepTest(t, "AgainAfterFailures", func(t *testing.T, f *keepFake) {
		f.renew = func(ctx context.Context, n int) (*Held, error) {
			if f.at() < 25*time.Second {
				return keepAway(ctx, n)
			}
			return nil, nil
		}
		k := f.kept()
		defer k.Close()
		time.Sleep(10 * keepTTL)
		if k.Err() != nil {
			t.Errorf("an outage of 15 s within the ttl: %v", k.Err())
		}
	})
	keepTest(t, "AgainWhenTheServiceHangs", func(t *testing.T, f *keepFake) {
		f.renew = func(ctx context.Context, n int) (*Held, error) {
			if n > 2 {
				return nil, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		k := f.kept()
		defer k.Close()
		time.Sleep(10 * keepTTL)
		if k.Err() != nil {
			t.Errorf("two renewals that hung: %v", k.Err())
		}
	})
	keepTest(t, "BeforeAnythingWhenTheAcquireWaited", func(t *testing.T, f *keepFake) {
		f.acquire = func(context.Context) (*Held, error) {
			time.Sleep(10 * time.Minute)
			return f.grant(), nil
		}
		k := f.kept()
		defer k.Close()
		if len(f.renewals()) != 1 || k.Remaining() < 28*time.Second {
			t.Errorf("renewed at %v, remaining %v", f.renewals(), k.Remaining())
		}
	})
	keepTest(t, "BeforeAnythingWhenTheLeaseIsOld", func(t *testing.T, f *keepFake) {
		f.acquire = func(context.Context) (*Held, error) { // found again by its acquire id
			h := f.grant()
			h.Remaining = 5 * time.Second
			return h, nil
		}
		k := f.kept()
		defer k.Close()
		if len(f.renewals()) != 1 || k.Remaining() < 28*time.Second {
			t.Errorf("renewed at %v, remaining %v", f.renewals(), k.Remaining())
		}
	})
	keepTest(t, "WhatAnotherHasAcquired", func(t *testing.T, f *keepFake) {
		h := &Held{Grant: fence.Grant{Lease: "job", ID: "secret"}}
		k, err := f.keeper().Adopt(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if len(f.renewals()) != 1 || k.Token() != 1000 || k.Grant().ID != "secret" {
			t.Errorf("renewed at %v, grant %+v", f.renewals(), k.Grant())
		}
	})
	keepTest(t, "NoMoreOnceTheCallerHasGone", func(t *testing.T, f *keepFake) {
		ctx, cancel := context.WithCancel(t.Context())
		k := f.keep(ctx, f.keeper())
		time.Sleep(15 * time.Second)
		cancel()
		time.Sleep(10 * keepTTL)
		if len(f.renewals()) != 1 || f.releases() != 0 || !errors.Is(k.Err(), context.Canceled) || len(f.lost) != 0 {
			t.Errorf("renewed at %v, %v", f.renewals(), k.Err())
		}
		if err := k.Close(); err != nil || f.releases() != 1 {
			t.Errorf("closed: %v, %d releases", err, f.releases())
		}
	})
}

func TestKeepFails(t *testing.T) {
	keepTest(t, "NotAcquired", func(t *testing.T, f *keepFake) {
		held := fence.Errorf(fence.CodeLeaseHeld, "somebody else")
		f.acquire = func(context.Context) (*Held, error) { return nil, held }
		if _, err := f.keeper().Keep(t.Context(), "job"); !errors.Is(err, held) {
			t.Errorf("got %v", err)
		}
	})
	keepTest(t, "LostWhileItWaited", func(t *testing.T, f *keepFake) {
		f.acquire = func(context.Context) (*Held, error) {
			time.Sleep(time.Minute)
			return f.grant(), nil
		}
		f.renew = func(context.Context, int) (*Held, error) {
			return nil, &fence.Error{Code: fence.CodeLeaseLost, First: 7000, Holder: "bob"}
		}
		_, err := f.keeper().Keep(t.Context(), "job")
		if lost := lossOf(err); lost == nil || lost.Loss != LossTaken || lost.Holder != "bob" || f.releases() != 0 {
			t.Errorf("got %v, %d releases", err, f.releases())
		}
	})
	keepTest(t, "NotProvenInTime", func(t *testing.T, f *keepFake) {
		f.renew = keepAway
		_, err := f.keeper().Adopt(t.Context(), f.grant())
		if lost := lossOf(err); lost == nil || lost.Loss != LossUnknown || f.releases() != 1 || f.at() > keepTTL+time.Second {
			t.Errorf("got %v, %d releases, at %v", err, f.releases(), f.at())
		}
	})
	keepTest(t, "CancelledWhileItIsProven", func(t *testing.T, f *keepFake) {
		f.renew = keepAway
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := f.keeper().Adopt(ctx, f.grant())
		if !errors.Is(err, context.DeadlineExceeded) || f.releases() != 1 || f.at() > 4*time.Second {
			t.Errorf("got %v, %d releases, at %v", err, f.releases(), f.at())
		}
	})
	keepTest(t, "CancelledWhenItIsAcquired", func(t *testing.T, f *keepFake) {
		ctx, cancel := context.WithCancel(t.Context())
		f.acquire = func(context.Context) (*Held, error) { cancel(); return f.grant(), nil }
		_, err := f.keeper().Keep(ctx, "job")
		if !errors.Is(err, context.Canceled) || f.releases() != 1 {
			t.Errorf("got %v, %d releases", err, f.releases())
		}
	})
	t.Run("NoLeases", func(t *testing.T) {
		for _, k := range []Keeper{{}, {Leases: &keepFake{}, MaxHold: -1}, {Leases: &keepFake{}, StallAfter: -1}} {
			if _, err := k.Keep(t.Context(), "job"); err == nil {
				t.Errorf("%+v is accepted", k)
			}
		}
	})
}

func TestKeepEndsTheContext(t *testing.T) {
	keepTest(t, "Unknown", func(t *testing.T, f *keepFake) {
		f.renew = keepAway
		k := f.kept()
		defer k.Close()
		lost := f.wantLoss(k, LossUnknown)
		if f.at() >= keepTTL || f.at() < keepTTL*9/10 {
			t.Errorf("the context ended after %v", f.at())
		}
		if n := len(f.renewals()); n < 4 {
			t.Errorf("%d tries", n)
		}
		if !strings.Contains(lost.Error(), "nobody there") {
			t.Errorf("the cause is %v", lost)
		}
		tries := len(f.renewals())
		time.Sleep(10 * keepTTL)
		if len(f.renewals()) != tries {
			t.Error("it was renewed after it was lost")
		}
	})
	keepTest(t, "UnknownWhenARenewalNeverReturns", func(t *testing.T, f *keepFake) {
		hung := make(chan struct{})
		f.renew = func(context.Context, int) (*Held, error) { <-hung; return keepAway(t.Context(), 0) }
		k := f.kept()
		<-k.Context().Done()
		if f.at() >= keepTTL {
			t.Errorf("the context ended after %v", f.at())
		}
		close(hung)
		k.Close()
	})
	keepTest(t, "Taken", func(t *testing.T, f *keepFake) {
		f.renew = func(context.Context, int) (*Held, error) {
			return nil, &fence.Error{Code: fence.CodeLeaseLost, First: 7000, Holder: "bob", Ended: fence.EndReleased}
		}
		k := f.kept()
		if lost := f.wantLoss(k, LossTaken); lost.Holder != "bob" || f.at() != 10*time.Second {
			t.Errorf("%+v after %v", lost, f.at())
		}
		if err := k.Close(); err != nil || f.releases() != 0 {
			t.Errorf("closed: %v, %d releases of what is another's", err, f.releases())
		}
	})
	keepTest(t, "Ended", func(t *testing.T, f *keepFake) {
		f.renew = func(context.Context, int) (*Held, error) {
			return nil, &fence.Error{Code: fence.CodeLeaseLost, First: 1000, Holder: "alice", Ended: "broken: stuck", EndedBy: "root"}
		}
		k := f.kept()
		defer k.Close()
		if lost := f.wantLoss(k, LossEnded); lost.Why != "broken: stuck" || lost.By != "root" || lost.Error() != "lease job has ended: broken: stuck (by root)" {
			t.Errorf("%+v", lost)
		}
	})
	keepTest(t, "Expired", func(t *testing.T, f *keepFake) {
		f.renew = func(context.Context, int) (*Held, error) {
			return nil, &fence.Error{Code: fence.CodeLeaseLost, First: 1000, Holder: "alice"}
		}
		k := f.kept()
		f.wantLoss(k, LossExpired)
		f.renew = nil
		time.Sleep(10 * keepTTL)
		if len(f.renewals()) != 1 {
			t.Errorf("it was renewed at %v, after it was lost", f.renewals())
		}
		k.Close()
	})
	keepTest(t, "MaxHold", func(t *testing.T, f *keepFake) {
		keeper := f.keeper()
		keeper.MaxHold = 45 * time.Second
		k := f.keep(t.Context(), keeper)
		f.wantLoss(k, LossMaxHold)
		time.Sleep(10 * keepTTL)
		if len(f.renewals()) != 4 {
			t.Errorf("renewed at %v", f.renewals())
		}
		if k.Close(); f.releases() != 1 {
			t.Errorf("%d releases", f.releases())
		}
	})
	keepTest(t, "Stalled", func(t *testing.T, f *keepFake) {
		keeper := f.keeper()
		keeper.StallAfter = 20 * time.Second
		k := f.keep(t.Context(), keeper)
		defer k.Close()
		for range 5 {
			time.Sleep(15 * time.Second)
			k.Beat()
		}
		if k.Err() != nil {
			t.Fatalf("while it makes progress: %v", k.Err())
		}
		f.wantLoss(k, LossStalled)
		if f.at() != 95*time.Second {
			t.Errorf("stalled after %v", f.at())
		}
	})
}

// The deadline is counted from before the request: what the request took is lost, and the answer may be older still.
func TestKeepAnchorsBeforeTheRequest(t *testing.T) {
	keepTest(t, "Acquire", func(t *testing.T, f *keepFake) {
		f.acquire = func(context.Context) (*Held, error) {
			h := f.grant() // extended now, answered later
			time.Sleep(8 * time.Second)
			return h, nil
		}
		f.renew = keepAway
		k := f.kept()
		defer k.Close()
		f.wantLoss(k, LossUnknown)
		if f.at() >= keepTTL {
			t.Errorf("the context ended after %v, the lease after %v", f.at(), keepTTL)
		}
	})
	keepTest(t, "Renew", func(t *testing.T, f *keepFake) {
		f.renew = func(ctx context.Context, n int) (*Held, error) {
			if n > 1 {
				return keepAway(ctx, n)
			}
			time.Sleep(5 * time.Second)
			return f.grant(), nil
		}
		k := f.kept()
		defer k.Close()
		f.wantLoss(k, LossUnknown)
		if end := 10*time.Second + keepTTL; f.at() >= end || f.at() < end-3*time.Second {
			t.Errorf("the context ended after %v, the lease after %v", f.at(), end)
		}
	})
	keepTest(t, "RemainingIsLess", func(t *testing.T, f *keepFake) {
		f.renew = func(ctx context.Context, n int) (*Held, error) {
			if n > 1 {
				return keepAway(ctx, n)
			}
			h := f.grant()
			h.Remaining = 20 * time.Second
			return h, nil
		}
		k := f.kept()
		defer k.Close()
		f.wantLoss(k, LossUnknown)
		if f.at() >= 30*time.Second {
			t.Errorf("the context ended after %v", f.at())
		}
	})
}

// Go's clock and timers stand still while the machine sleeps. A worker that wakes up must find its context over at once.
func TestKeepCountsTimeAsleep(t *testing.T) {
	looks := map[string]func(*Kept) error{
		"ContextErr":   func(k *Kept) error { return k.Context().Err() },
		"ContextCause": func(k *Kept) error { return context.Cause(k.Context()) },
		"ContextDone": func(k *Kept) error {
			select {
			case <-k.Context().Done():
				return k.Err()
			default:
				return nil
			}
		},
		"Err": (*Kept).Err,
		"Tokens": func(k *Kept) error {
			_, err := k.Tokens().Next(k.Context())
			return err
		},
		"ADerivedContext": func(k *Kept) error {
			ctx, cancel := context.WithTimeout(k.Context(), time.Hour)
			defer cancel()
			return ctx.Err()
		},
	}
	for name, look := range looks {
		keepTest(t, name, func(t *testing.T, f *keepFake) {
			k := f.kept()
			defer k.Close()
			time.Sleep(5 * time.Second)
			f.sleepFor(20 * time.Second)
			if err := look(k); err != nil {
				t.Fatalf("with 5 s left: %v", err)
			}
			f.sleepFor(5 * time.Second)
			if err := look(k); err == nil || name == "ContextCause" && lossOf(err) == nil {
				t.Errorf("the first look after it slept finds %v", err)
			}
			f.wantLoss(k, LossExpired)
		})
	}
	keepTest(t, "NobodyLooks", func(t *testing.T, f *keepFake) {
		k := f.kept()
		defer k.Close()
		done := k.Context().Done()
		time.Sleep(2500 * time.Millisecond)
		f.sleepFor(time.Hour)
		<-done
		if f.at() > 4*time.Second {
			t.Errorf("the sleep was noticed after %v", f.at())
		}
	})
	keepTest(t, "MaxHold", func(t *testing.T, f *keepFake) {
		keeper := f.keeper()
		keeper.MaxHold = time.Minute
		k := f.keep(t.Context(), keeper)
		defer k.Close()
		for range 4 {
			time.Sleep(1500 * time.Millisecond)
			f.sleepFor(15 * time.Second)
		}
		f.wantLoss(k, LossMaxHold)
	})
}
