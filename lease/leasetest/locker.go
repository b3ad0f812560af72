package leasetest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/fencegate/fencegate/lease"
)

// Backend is what the suite has to know of a locker.
type Backend struct {
	// Open makes one more locker, which is one more gateway, on the same leases. It closes it with t.Cleanup. Required.
	Open func(t *testing.T) lease.Locker
	// Slack is how much later than its TTL a lease or a reservation may end. Defaults to 0.
	Slack time.Duration
	// Fill puts so many entries in a lease's queue by a short cut. Defaults to entering them one by one.
	Fill func(t *testing.T, l lease.Locker, name string, entries int)
	// Leftovers names what is kept for a lease. Defaults to nothing, which leaves that unchecked.
	Leftovers func(t *testing.T, name string) []string
	// Restart cuts everybody off, with or without the loss of all leases, and returns when the server is back. It
	// disturbs everybody who uses the server. Defaults to leaving that unchecked.
	Restart func(t *testing.T)
}

// Run holds a locker to the contract of lease.Locker. The server may have been used by the suite before: no two runs use
// the same names.
func Run(t *testing.T, b Backend) {
	t.Run("Alone", func(t *testing.T) {
		for name, run := range map[string]func(*suite){
			"NobodyHoldsIt":                 testNobody,
			"OneHolder":                     testExclusive,
			"TakenAgainLeavesRemaining":     testTakenAgain,
			"Expires":                       testExpires,
			"ExtendsOnlyItsOwn":             testExtend,
			"DropsOnlyItsOwn":               testDrop,
			"StayNeverTakes":                testStay,
			"NamesDoNotMeet":                testNames,
			"HolderIsKept":                  testHolders,
			"OneOfFiftyWins":                testRace,
			"GivesUpWithItsContext":         testCancelled,
			"QueueKeepsItsOrder":            testOrder,
			"OnlyTheFirstIsPushed":          testPush,
			"ClaimedWithinTheWindow":        testClaim,
			"UnclaimedGoesToTheNext":        testUnclaimed,
			"IdleGatewayCostsOneWindow":     testIdleGateway,
			"GoneGatewayIsSkipped":          testGone,
			"EndOfALeaseServesTheQueue":     testQueueAfterExpiry,
			"NobodyBargesPastTheQueue":      testBarging,
			"EntersAgainAtItsPlace":         testPlaces,
			"FollowedIsTold":                testFollowed,
			"LeavesTheQueue":                testLeave,
			"NotesAreKept":                  testNotes,
			"NoteHasALimit":                 testNoteLimit,
			"QueueHasALimit":                testQueueLimit,
			"ForeignDropKeepsItForWaiters":  testForeignDrop,
			"GoesOnUnderTheNextValue":       testNextValue,
			"ForeignDropOfTheGone":          testForeignDropGone,
			"ForeignExtensionNeverShortens": testForeignExtension,
			"RepeatedCalls":                 testRepeated,
			"NothingIsLeftBehind":           testLeftovers,
			"AnyOrderOfCalls":               testInterleavings,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				attempt(t, b, run)
			})
		}
	})
	if b.Restart != nil {
		t.Run("Restart", func(t *testing.T) { attempt(t, b, testRestart) })
	}
}

const (
	// patience bounds what the suite waits for.
	patience = 10 * time.Second
	// attempts is how often a test begins anew because a busy machine made it miss a reservation.
	attempts = 6
)

// suite is one attempt at one test.
type suite struct {
	*testing.T
	Backend
	// run makes names and values unique.
	run string
	// pressed is when a reservation began that the test has to claim in time; zero when there is none.
	pressed time.Time
	last    bool
	// brief is a TTL that ends while the test looks on, longer from attempt to attempt.
	brief time.Duration
}

// late is what an attempt panics with that failed because it was too slow for a reservation, or a brief TTL.
type late struct{}

// attempt runs a test, again if it failed for being too slow. The last attempt counts.
func attempt(t *testing.T, b Backend, run func(*suite)) {
	for n := range attempts {
		s := &suite{T: t, Backend: b, run: rand.Text()[:8], last: n == attempts-1, brief: 200 * time.Millisecond << n}
		if s.inTime(run) {
			return
		}
		t.Log("too slow; once more")
	}
}

func (s *suite) inTime(run func(*suite)) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, slow := r.(late); !slow {
				panic(r)
			}
		}
	}()
	run(s)
	return true
}

// press says that from now on the test must be quick; release that it need not be any more.
func (s *suite) press()   { s.pressed = time.Now() }
func (s *suite) release() { s.pressed = time.Time{} }

// fatalf ends the attempt.
func (s *suite) fatalf(format string, args ...any) {
	s.Helper()
	if !s.last && !s.pressed.IsZero() && time.Since(s.pressed) > lease.Window*9/10 {
		panic(late{})
	}
	s.Fatalf(format, args...)
}

// inTimeFor ends the attempt if the lease that who took for a brief TTL had ended before others stood behind it.
func (s *suite) inTimeFor(who string, got lease.Standing) {
	s.Helper()
	if got.Value == value(s, who) {
		return
	}
	if !s.last {
		panic(late{})
	}
	s.fatalf("it stands %s, want it held by %q", show(got), who)
}

// name makes a lease's name of the test's own.
func (s *suite) name(what string) string { return what + "/" + s.run }

// eventually polls until ok.
func (s *suite) eventually(what string, ok func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience + 2*s.Slack); !ok(); s.pause(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.fatalf("%s: not within %v", what, patience+2*s.Slack)
		}
	}
}

// pause lets time pass, where only time brings about what is waited for.
func (s *suite) pause(d time.Duration) {
	s.Helper()
	select {
	case <-time.After(d):
	case <-s.Context().Done():
		s.Fatal(s.Context().Err())
	}
}
