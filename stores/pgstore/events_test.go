package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// eventsAfter returns the n events behind a position, page by page. Those of other tests' transactions hold them back for a while.
func (w *world) eventsAfter(after string, n int) []fence.Event {
	w.t.Helper()
	var all []fence.Event
	for end := time.Now().Add(10 * time.Second); len(all) < n; {
		page, gone, err := w.Events(context.Background(), after, n-len(all))
		if err != nil || gone {
			w.t.Fatalf("gone %v: %v", gone, err)
		}
		if len(page) > 0 {
			after = page[len(page)-1].Position
			all = append(all, page...)
		} else if time.Now().After(end) {
			w.t.Fatalf("%d events, want %d: %v", len(all), n, describe(all))
		}
	}
	return all
}

func describe(events []fence.Event) (all []string) {
	for _, e := range events {
		s := fmt.Sprint(e.Kind, " ", e.Principal)
		if e.Why != "" {
			s += " (" + e.Why + ")"
		}
		if e.By != "" {
			s += " by " + e.By
		}
		all = append(all, s)
	}
	return all
}

// What happens to a lease is told once, in its order.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	n := 0
	certify := func(who string, change ...func(*fence.Certificate)) *fence.Grant {
		t.Helper()
		n++
		c := fence.Certificate{Lease: "l", Principal: who, Holder: "h-" + who, Acquire: fence.AcquireDigest(who, fmt.Sprint(n)), Hold: fence.DigestOf("hold"), TTL: 30e9}
		if newest, err := w.Newest(ctx, "l"); err != nil {
			t.Fatal(err)
		} else if newest != nil {
			c.Floor = newest.First()
		}
		for _, f := range change {
			f(&c)
		}
		g, err := w.Certify(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := w.Certify(ctx, c); err != nil || again.ID != g.ID { // tells nothing
			t.Fatalf("%+v %v", again, err)
		}
		return g
	}
	end := func(e fence.Ending) {
		t.Helper()
		for range 2 {
			if _, err := w.End(ctx, "l", fence.GrantRef{Newest: true}, e); err != nil {
				t.Fatal(err)
			}
		}
	}
	noteExpiry := func(g *fence.Grant, want bool) {
		t.Helper()
		if noted, err := w.NoteExpiry(ctx, "l", g.First()); err != nil || noted != want {
			t.Fatalf("noted %v, %v; want %v", noted, err, want)
		}
	}
	handed := func(c *fence.Certificate) { c.Local, c.Handed = true, true }

	var want []string
	told := func(events ...string) { want = append(want, events...) }
	last, err := w.LastEvent(ctx)
	if err != nil || last != "" {
		t.Fatalf("last of none: %q %v", last, err)
	}
	first := certify("a")
	told("granted a")
	end(fence.Ending{Why: fence.EndReleased})
	told("released a (released)")
	noteExpiry(first, false)
	certify("b")
	told("granted b")
	noteExpiry(first, false)
	if _, err := w.More(ctx, "l", fence.GrantRef{Acquire: fence.AcquireDigest("b", "2")}); err != nil {
		t.Fatal(err)
	}
	_, err = w.Certify(ctx, fence.Certificate{Lease: "l", Principal: "x", Holder: "x", Acquire: fence.DigestOf("x"), TTL: 30e9})
	if !errors.Is(err, fence.ErrVoid) {
		t.Fatal(err)
	}
	end(fence.Ending{Why: fence.EndBroken + ": stuck", By: "admin"})
	told("broken b (broken: stuck) by admin")
	certify("c")
	end(fence.Ending{Why: fence.EndAbandoned})
	told("granted c", "abandoned c (abandoned)")
	certify("d")
	certify("e")
	told("granted d", "expired d", "granted e")
	g := certify("f", handed)
	told("released e (released)", "granted f")
	noteExpiry(g, true)
	noteExpiry(g, false)
	told("expired f")
	g = certify("g")
	told("granted g")
	noteExpiry(g, true)
	certify("h", handed)
	told("expired g", "released g (released)", "granted h")
	end(fence.Ending{Why: fence.EndReleased})
	certify("i", func(c *fence.Certificate) { c.Handed = true })
	told("released h (released)", "granted i")

	all := w.eventsAfter("", len(want))
	if got := describe(all); !slices.Equal(got, want) {
		t.Fatalf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if e := all[0]; e.Lease != "l" || e.Holder != "h-a" || e.First != first.First() || time.Since(e.At).Abs() > time.Minute || e.Kind != fence.EventGranted || e.Resource != "" || e.Token != 0 {
		t.Errorf("the first: %+v", e)
	}
	if more, gone, err := w.Events(ctx, all[len(all)-1].Position, 10); len(more) != 0 || gone || err != nil {
		t.Errorf("behind the last: %v %v %v", more, gone, err)
	}
	for i, e := range all {
		if rest := w.eventsAfter(e.Position, len(all)-1-i); !slices.Equal(describe(rest), want[i+1:]) {
			t.Errorf("behind event %d: %v", i, describe(rest))
		}
	}
	last, err = w.LastEvent(ctx)
	if err != nil {
		t.Fatal(err)
	}
	certify("z", handed)
	if next := w.eventsAfter(last, 2); !slices.Equal(describe(next), []string{"released i (released)", "granted z"}) {
		t.Errorf("behind the last of them: %v", describe(next))
	}
}

// The holder of a lease that has run out may write until there is a successor.
func TestNotedExpiryEndsNothing(t *testing.T) {
	w := newWorld(t)
	g := w.grant("wallet:42", "p", "1")
	if noted, err := w.NoteExpiry(t.Context(), "wallet:42", g.First()); err != nil || !noted {
		t.Fatal(noted, err)
	}
	_, err := w.WriteRow(t.Context(), patch("wallets", "42", `{"balance":1}`, g.First()))
	wantCode(t, err, fence.CodeAccepted)
	if held, err := w.Held(t.Context(), "wallet:42", fence.GrantRef{ID: g.ID, Principal: "p"}); err != nil || held.Ended != "" {
		t.Errorf("%+v %v", held, err)
	}
	// Beside a write under way there is nothing to note, and nobody waits.
	next := w.grant("wallet:42", "p", "2")
	w.exec("BEGIN; SELECT fence.admit('wallets', '42', " + next.First().String() + ")")
	if noted, err := w.NoteExpiry(t.Context(), "wallet:42", next.First()); err != nil || noted {
		t.Error(noted, err)
	}
	w.exec("COMMIT")
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	long := strings.Repeat("ü", 5000)
	refused := []fence.Event{
		{Lease: "wallet:42", Principal: "alice", Holder: "h", First: 2000, Resource: "rows/public.wallets/42", Token: 1001, Code: fence.CodeStaleToken, Kind: "no matter", At: time.Unix(0, 0)},
		{Lease: "\xff\x00'", Principal: long, Resource: "x\x00", Code: fence.CodeUnissuedToken},
	}
	if err := w.NoteRefusals(ctx, refused); err != nil {
		t.Fatal(err)
	}
	got := w.eventsAfter("", 2)
	e := got[0]
	if time.Since(e.At).Abs() > time.Minute || e.Position == "" {
		t.Errorf("%+v", e)
	}
	want := refused[0]
	want.Kind, want.At, want.Position = fence.EventRefused, e.At, e.Position
	if e != want {
		t.Errorf("%+v, want %+v", e, want)
	}
	if e := got[1]; e.Lease != "\uFFFD\uFFFD'" || e.Resource != "x\uFFFD" || e.Principal != long[:4096] {
		t.Errorf("%q %q %d bytes", e.Lease, e.Resource, len(e.Principal))
	}
	if err := w.NoteRefusals(ctx, nil); err != nil {
		t.Error(err)
	}
	if err := w.NoteRefusals(ctx, make([]fence.Event, 1500)); err != nil {
		t.Error(err)
	}
	if n := w.text("SELECT count(*)::text FROM fence.events"); n != "1002" {
		t.Errorf("%s events", n)
	}
}

func TestPositionsThatNobodyGave(t *testing.T) {
	w := newWorld(t)
	w.grant("l", "p", "1")
	epoch := w.text("SELECT epoch FROM fence.event_log")
	for _, after := range []string{"x", "0", epoch, epoch + "-1", epoch + "-1-2-3", epoch + "--1", epoch + "-1--1", epoch + "-1-2-1-0", epoch + "-9-0-3-0-2-0", "-1-2", epoch + "-1-'",
		epoch + "-zzzzzzzzzzzzzzzz-1", epoch + "-1-2\n", "toolongepoch-1-2", epoch + "-zzz-1" + strings.Repeat("-1-0", 101)} {
		_, _, err := w.Events(t.Context(), after, 1)
		if e := wantCode(t, err, fence.CodeInvalidRequest); e.Field != "after" {
			t.Errorf("%q: field %q", after, e.Field)
		}
	}
	_, _, err := w.Events(t.Context(), "", 0)
	if e := wantCode(t, err, fence.CodeInvalidRequest); e.Field != "limit" {
		t.Errorf("field %q", e.Field)
	}
}

func TestPruneEvents(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for i := range 6 {
		w.grant(fmt.Sprint("l", i), "p", "1")
	}
	all := w.eventsAfter("", 6)
	if n, err := w.PruneEvents(ctx, time.Hour); n != 0 || err != nil {
		t.Fatalf("pruned %d young ones: %v", n, err)
	}
	// Three old ones, one from the future among them, and one behind a young one.
	w.exec(`UPDATE fence.events SET at = at - interval '2 hours' WHERE lease IN ('l0', 'l2', 'l4'); UPDATE fence.events SET at = at + interval '1 year' WHERE lease = 'l1'`)
	w.exec("BEGIN; SELECT FROM fence.event_log FOR UPDATE")
	if n, err := w.PruneEvents(ctx, time.Hour); n != 0 || err != nil {
		t.Fatalf("pruned %d beside somebody else: %v", n, err)
	}
	w.exec("COMMIT")
	if n, err := w.PruneEvents(ctx, time.Hour); n != 3 || err != nil {
		t.Fatalf("pruned %d: %v", n, err)
	}
	for after, want := range map[string]bool{"": false, all[0].Position: true, all[1].Position: true, all[2].Position: false, all[3].Position: false} {
		found, gone, err := w.Events(ctx, after, 10)
		if err != nil || gone != want || len(found) == 0 || found[0].Lease != "l3" && after != all[3].Position {
			t.Errorf("after %q: %v, gone %v, want %v: %v", after, describe(found), gone, want, err)
		}
	}
	last, err := w.LastEvent(ctx)
	if err != nil || last != all[5].Position {
		t.Errorf("last %q, want %q: %v", last, all[5].Position, err)
	}
	w.exec("INSERT INTO fence.events (at, kind, lease, principal) SELECT now() - interval '1 day', 'granted', 'old', 'p' FROM generate_series(1, 11000); UPDATE fence.events SET at = now() - interval '1 day'")
	if n, err := w.PruneEvents(ctx, time.Hour); n != 11003 || err != nil {
		t.Errorf("pruned %d: %v", n, err)
	}
	if last, err := w.LastEvent(ctx); err != nil || last != "" {
		t.Errorf("last of none %q: %v", last, err)
	}
	if _, gone, err := w.Events(ctx, all[5].Position, 1); !gone || err != nil {
		t.Errorf("gone %v: %v", gone, err)
	}
}

// A ledger that was restored elsewhere counts its transactions anew: positions of before mean nothing, and say so.
func TestEventsOfAnotherEpoch(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.grant("l", "p", "1")
	before := w.eventsAfter("", 1)[0].Position
	if _, err := w.Advance(ctx, 1, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if found, gone, err := w.Events(ctx, before, 10); len(found) != 0 || !gone || err != nil {
		t.Fatalf("%v, gone %v: %v", describe(found), gone, err)
	}
	w.grant("l", "p", "2")
	after := w.eventsAfter("", 1)[0]
	if found, gone, err := w.Events(ctx, before, 10); len(found) != 1 || found[0] != after || !gone || err != nil {
		t.Errorf("%v, gone %v: %v", describe(found), gone, err)
	}
	if _, gone, err := w.Events(ctx, after.Position, 10); gone || err != nil {
		t.Errorf("gone %v: %v", gone, err)
	}
	// Without an advance, a position that lies in the future is one of before.
	epoch, _, _ := strings.Cut(after.Position, "-")
	if found, gone, err := w.Events(ctx, epoch+"-zzzzzzzzzz-1", 10); len(found) != 1 || !gone || err != nil {
		t.Errorf("%v, gone %v: %v", describe(found), gone, err)
	}
	// So is such an event.
	w.exec("INSERT INTO fence.events (xid, kind, lease, principal) VALUES (1000000000000, 'granted', 'l', 'elsewhere')")
	w.grant("l", "q", "3")
	if got := describe(w.eventsAfter(after.Position, 2)); !slices.Equal(got, []string{"expired p", "granted q"}) {
		t.Errorf("told %v", got)
	}
	if found, _, err := w.Events(ctx, "", 10); len(found) != 3 || err != nil {
		t.Errorf("told %v: %v", describe(found), err)
	}
}
