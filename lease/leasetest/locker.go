package leasetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// patience bounds what the suite waits for.
const patience = 10 * time.Second

// Run holds a locker to the contract of lease.Locker. open returns an empty locker, or one that shares its server
// with lockers that the suite has used before: no two of its tests use the same names.
func Run(t *testing.T, open func(t *testing.T) lease.Locker) {
	tests := []struct {
		name string
		run  func(*testing.T, lockerTest)
	}{
		{"NobodyHoldsIt", testNobody},
		{"OneHolder", testExclusive},
		{"TakenAgainLeavesRemaining", testTakeAgain},
		{"Expires", testExpires},
		{"ExtendsOnlyItsOwn", testExtend},
		{"DropsOnlyItsOwn", testDrop},
		{"NamesDoNotMeet", testNames},
		{"HolderIsKept", testHolders},
		{"OneOfFiftyWins", testRace},
		{"GivesUpWithItsContext", testCancelled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, lockerTest{t, open(t)}) })
	}
}

type lockerTest struct {
	t *testing.T
	lease.Locker
}

func (l lockerTest) take(name, who string, ttl time.Duration) lease.Holding {
	l.t.Helper()
	got, err := l.Take(l.t.Context(), name, lease.Holding{Value: value(who), Holder: who, Remaining: ttl})
	if err != nil {
		l.t.Fatalf("take %q: %v", name, err)
	}
	return got
}

func (l lockerTest) look(name string) lease.Holding {
	l.t.Helper()
	got, err := l.Look(l.t.Context(), name)
	if err != nil {
		l.t.Fatalf("look at %q: %v", name, err)
	}
	return got
}

func (l lockerTest) held(got lease.Holding, who string, least, most time.Duration) {
	l.t.Helper()
	if got.Value != value(who) || got.Holder != who {
		l.t.Fatalf("held by %q, want %q", got.Holder, who)
	}
	if got.Remaining < least || got.Remaining > most {
		l.t.Fatalf("%v remain, want %v to %v", got.Remaining, least, most)
	}
}

func (l lockerTest) reports(what string, got bool, err error, want bool) {
	l.t.Helper()
	if err != nil || got != want {
		l.t.Fatalf("%s: %v, %v; want %v", what, got, err, want)
	}
}

func value(who string) fence.Digest { return fence.AcquireDigest("leasetest", who) }

func testNobody(t *testing.T, l lockerTest) {
	if got := l.look("nobody"); got != (lease.Holding{}) {
		t.Fatalf("a lease that nobody took is held: %+v", got)
	}
	ok, err := l.Extend(t.Context(), "nobody", value("a"), time.Minute)
	l.reports("extend", ok, err, false)
	ok, err = l.Drop(t.Context(), "nobody", value("a"))
	l.reports("drop", ok, err, false)
	if got := l.look("nobody"); got != (lease.Holding{}) {
		t.Fatalf("extending made a lease: %+v", got)
	}
}

func testExclusive(_ *testing.T, l lockerTest) {
	l.held(l.take("exclusive", "a", time.Minute), "a", 50*time.Second, time.Minute)
	l.held(l.take("exclusive", "b", time.Hour), "a", 50*time.Second, time.Minute)
	l.held(l.look("exclusive"), "a", 50*time.Second, time.Minute)
}

func testTakeAgain(_ *testing.T, l lockerTest) {
	l.take("again", "a", time.Minute)
	l.held(l.take("again", "a", time.Hour), "a", 50*time.Second, time.Minute)
}

func testExpires(t *testing.T, l lockerTest) {
	began := time.Now()
	const ttl = 150 * time.Millisecond
	l.take("expires", "a", ttl)
	for {
		got := l.take("expires", "b", time.Minute)
		if got.Value == value("b") {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("still held by %s after %v", got.Holder, patience)
		}
		pause(t)
	}
	// A locker may count in whole milliseconds.
	if took := time.Since(began); took < ttl-5*time.Millisecond {
		t.Fatalf("expired after %v, before its ttl of %v", took, ttl)
	}
	ok, err := l.Extend(t.Context(), "expires", value("a"), time.Hour)
	l.reports("extend by the former holder", ok, err, false)
}

func testExtend(t *testing.T, l lockerTest) {
	l.take("extend", "a", time.Minute)
	ok, err := l.Extend(t.Context(), "extend", value("b"), time.Hour)
	l.reports("extend by another", ok, err, false)
	l.held(l.look("extend"), "a", 50*time.Second, time.Minute)
	ok, err = l.Extend(t.Context(), "extend", value("a"), time.Hour)
	l.reports("extend", ok, err, true)
	l.held(l.look("extend"), "a", 59*time.Minute, time.Hour)
	ok, err = l.Extend(t.Context(), "extend", value("a"), time.Minute)
	l.reports("extend to less", ok, err, true)
	l.held(l.look("extend"), "a", 50*time.Second, time.Minute)
}

func testDrop(t *testing.T, l lockerTest) {
	l.take("drop", "a", time.Minute)
	ok, err := l.Drop(t.Context(), "drop", value("b"))
	l.reports("drop by another", ok, err, false)
	l.held(l.look("drop"), "a", 50*time.Second, time.Minute)
	ok, err = l.Drop(t.Context(), "drop", value("a"))
	l.reports("drop", ok, err, true)
	ok, err = l.Drop(t.Context(), "drop", value("a"))
	l.reports("drop again", ok, err, false)
	l.held(l.take("drop", "b", time.Minute), "b", 50*time.Second, time.Minute)
}

func testNames(_ *testing.T, l lockerTest) {
	names := []string{"}x", "{a}", "a", "{}", "}", "{", "日本/ü", "日本", "a/b", "a:b", "a b", "*", "a\\", "%7Dx", "A"}
	names = append(names, strings.Repeat("n", fence.MaxLeaseName), strings.Repeat("n", fence.MaxLeaseName-1)+"m")
	for i, name := range names {
		who := fmt.Sprint("holder-", i)
		l.held(l.take(name, who, time.Minute), who, 50*time.Second, time.Minute)
	}
	for i, name := range names {
		l.held(l.look(name), fmt.Sprint("holder-", i), 40*time.Second, time.Minute)
	}
}

func testHolders(_ *testing.T, l lockerTest) {
	for i, who := range []string{"a:b", ":", "::x:", "worker a", `"q"`, `\r\n`, "日本 ü", "{}", "%s", strings.Repeat("h", fence.MaxHolder)} {
		name := fmt.Sprint("holder/", i)
		l.take(name, who, time.Minute)
		l.held(l.look(name), who, 50*time.Second, time.Minute)
		l.held(l.take(name, "another", time.Minute), who, 50*time.Second, time.Minute)
	}
}

func testRace(t *testing.T, l lockerTest) {
	const takers = 50
	var wg sync.WaitGroup
	wins := make([]bool, takers)
	errs := make([]error, takers)
	start := make(chan struct{})
	for i := range takers {
		wg.Go(func() {
			<-start
			who := fmt.Sprint("racer-", i)
			got, err := l.Take(t.Context(), "race", lease.Holding{Value: value(who), Holder: who, Remaining: time.Minute})
			wins[i], errs[i] = got.Value == value(who), err
		})
	}
	close(start)
	wg.Wait()
	won := 0
	for i := range takers {
		if errs[i] != nil {
			t.Fatalf("racer %d: %v", i, errs[i])
		}
		if wins[i] {
			won++
		}
	}
	if won != 1 {
		t.Fatalf("%d of %d took the lease, want 1", won, takers)
	}
}

func testCancelled(t *testing.T, l lockerTest) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Take(ctx, "cancelled", lease.Holding{Value: value("a"), Holder: "a", Remaining: time.Minute}); fence.CodeOf(err) != fence.CodeUnavailable {
		t.Fatalf("take: %v, want %s", err, fence.CodeUnavailable)
	}
	if _, err := l.Look(ctx, "cancelled"); fence.CodeOf(err) != fence.CodeUnavailable {
		t.Fatalf("look: %v, want %s", err, fence.CodeUnavailable)
	}
}

// pause yields between two polls of something that only time brings about.
func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(5 * time.Millisecond):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
