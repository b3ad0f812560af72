package leasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// RunLedger holds a ledger to the contract of lease.Ledger. open returns a ledger that may hold other leases' grants,
// but none of the suite's.
func RunLedger(t *testing.T, open func(t *testing.T) lease.Ledger) {
	tests := []struct {
		name string
		run  func(*testing.T, ledgerTest)
	}{
		{"NeverGranted", testNeverGranted},
		{"Certified", testCertified},
		{"SameAcquireSameGrant", testSameAcquire},
		{"VoidWhenTheFloorMoved", testVoid},
		{"EndedOnce", testEnd},
		{"OnlyTheGrantThatIsNamed", testNamed},
		{"MoreTokens", testMore},
		{"OneFloorOneGrant", testFloorRace},
		{"BlocksOfManyLeasesNeverMeet", testBlocks},
		{"HeldUnder", testHold},
		{"RepeatedUnderAnotherHold", testRepeatedHold},
		{"HandedOnLocally", testLocal},
		{"NamedByAcquireAndHold", testAcquireAndHold},
		{"EndedBySomebody", testEndedBy},
		{"Listed", testList},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, ledgerTest{t, open(t)}) })
	}
}

type ledgerTest struct {
	t *testing.T
	lease.Ledger
}

func certificate(name, who string, floor fence.Token) fence.Certificate {
	return fence.Certificate{
		Lease:     name,
		Principal: "p-" + who,
		Holder:    who,
		Acquire:   fence.AcquireDigest("p-"+who, who),
		TTL:       30 * time.Second,
		Floor:     floor,
	}
}

func (l ledgerTest) certify(c fence.Certificate) *fence.Grant {
	l.t.Helper()
	g, err := l.Certify(l.t.Context(), c)
	if err != nil {
		l.t.Fatalf("certify: %v", err)
	}
	return g
}

func (l ledgerTest) code(what string, err error, want fence.Code) {
	l.t.Helper()
	if fence.CodeOf(err) != want {
		l.t.Fatalf("%s: %v, want %s", what, err, want)
	}
}

func testNeverGranted(t *testing.T, l ledgerTest) {
	g, err := l.Newest(t.Context(), "never")
	if g != nil || err != nil {
		t.Fatalf("newest: %+v, %v; want nothing", g, err)
	}
	for _, by := range []fence.GrantRef{{Newest: true}, {ID: "x", Principal: "p"}, {Acquire: fence.DigestOf("x")}, {}} {
		_, err = l.Held(t.Context(), "never", by)
		l.code("held", err, fence.CodeLeaseLost)
		_, err = l.End(t.Context(), "never", by, fence.Ending{Why: fence.EndBroken})
		l.code("end", err, fence.CodeLeaseLost)
		_, err = l.More(t.Context(), "never", by)
		l.code("more", err, fence.CodeLeaseLost)
	}
}

func testCertified(t *testing.T, l ledgerTest) {
	c := certificate("certified", "a", 0)
	g := l.certify(c)
	if g.ID == "" || g.Lease != c.Lease || g.Principal != c.Principal || g.Holder != c.Holder || g.Acquire != c.Acquire || g.TTL != c.TTL ||
		g.Ended != "" || g.GrantedAt.IsZero() {
		t.Fatalf("granted %+v for %+v", g, c)
	}
	if len(g.Blocks) != 1 || g.First()%fence.BlockSize != 0 || g.First() < fence.BlockSize || g.Last() != g.First()+fence.BlockSize-1 {
		t.Fatalf("blocks %v", g.Blocks)
	}
	newest, err := l.Newest(t.Context(), c.Lease)
	if err != nil || newest == nil {
		t.Fatalf("newest: %v, %v", newest, err)
	}
	if newest.ID != "" {
		t.Fatal("newest tells the secret id")
	}
	if newest.First() != g.First() || newest.Acquire != c.Acquire || newest.TTL != c.TTL || newest.Holder != c.Holder || newest.Principal != c.Principal {
		t.Fatalf("newest %+v, granted %+v", newest, g)
	}
}

func testSameAcquire(t *testing.T, l ledgerTest) {
	c := certificate("same", "a", 0)
	g := l.certify(c)
	again := c
	again.Floor = g.First()
	for _, c := range []fence.Certificate{c, again} {
		if got := l.certify(c); got.ID != g.ID || got.First() != g.First() || len(got.Blocks) != 1 {
			t.Fatalf("floor %d: granted %+v, want %+v", c.Floor, got, g)
		}
	}
	other := c
	other.Holder = "somebody"
	_, err := l.Certify(t.Context(), other)
	l.code("another holder", err, fence.CodeInvalidRequest)
	other = c
	other.TTL += time.Millisecond
	_, err = l.Certify(t.Context(), other)
	l.code("another ttl", err, fence.CodeInvalidRequest)

	if _, err := l.End(t.Context(), c.Lease, fence.GrantRef{ID: g.ID, Principal: c.Principal}, fence.Ending{Why: fence.EndReleased}); err != nil {
		t.Fatal(err)
	}
	_, err = l.Certify(t.Context(), c)
	l.code("after the end", err, fence.CodeGrantEnded)

	b := l.certify(certificate("same", "b", g.First()))
	c.Floor = b.First()
	if later := l.certify(c); later.First() <= b.First() || later.ID == g.ID {
		t.Fatalf("after a successor (%d) the acquire got %+v, want a new grant", b.First(), later)
	}
}

func testVoid(t *testing.T, l ledgerTest) {
	a := l.certify(certificate("void", "a", 0))
	for _, floor := range []fence.Token{0, a.First() - 1, a.First() + 1} {
		if _, err := l.Certify(t.Context(), certificate("void", "b", floor)); !errors.Is(err, fence.ErrVoid) {
			t.Fatalf("floor %d: %v, want void", floor, err)
		}
	}
	if b := l.certify(certificate("void", "b", a.First())); b.First() <= a.First() {
		t.Fatalf("granted %d after %d", b.First(), a.First())
	}
}

func testEnd(t *testing.T, l ledgerTest) {
	g := l.certify(certificate("end", "a", 0))
	by := fence.GrantRef{ID: g.ID, Principal: g.Principal}
	for _, why := range []string{fence.EndReleased, fence.EndBroken} {
		ended, err := l.End(t.Context(), g.Lease, by, fence.Ending{Why: why})
		if err != nil || ended.Ended != fence.EndReleased || ended.Acquire != g.Acquire {
			t.Fatalf("end (%s): %+v, %v", why, ended, err)
		}
	}
	_, err := l.Held(t.Context(), g.Lease, by)
	l.code("held", err, fence.CodeLeaseLost)
	_, err = l.More(t.Context(), g.Lease, by)
	l.code("more", err, fence.CodeLeaseLost)
	newest, err := l.Newest(t.Context(), g.Lease)
	if err != nil || newest.Ended != fence.EndReleased {
		t.Fatalf("newest: %+v, %v", newest, err)
	}
}

func testNamed(t *testing.T, l ledgerTest) {
	a := l.certify(certificate("named", "a", 0))
	b := l.certify(certificate("named", "b", a.First()))
	for what, by := range map[string]fence.GrantRef{
		"an older id":       {ID: a.ID, Principal: a.Principal},
		"an older acquire":  {Acquire: a.Acquire},
		"another principal": {ID: b.ID, Principal: a.Principal},
		"no principal":      {ID: b.ID},
		"the first set":     {ID: a.ID, Principal: a.Principal, Newest: true},
		"nothing":           {},
	} {
		_, err := l.Held(t.Context(), "named", by)
		l.code("held by "+what, err, fence.CodeLeaseLost)
		_, err = l.More(t.Context(), "named", by)
		l.code("more by "+what, err, fence.CodeLeaseLost)
		_, err = l.End(t.Context(), "named", by, fence.Ending{Why: fence.EndBroken})
		l.code("end by "+what, err, fence.CodeLeaseLost)
	}
	for what, by := range map[string]fence.GrantRef{
		"id": {ID: b.ID, Principal: b.Principal}, "acquire": {Acquire: b.Acquire}, "newest": {Newest: true},
	} {
		got, err := l.Held(t.Context(), "named", by)
		if err != nil || got.First() != b.First() || got.ID != "" {
			t.Fatalf("held by %s: %+v, %v", what, got, err)
		}
	}
}

func testMore(t *testing.T, l ledgerTest) {
	g := l.certify(certificate("more", "a", 0))
	l.certify(certificate("more/between", "b", 0))
	for n := range 2 {
		got, err := l.More(t.Context(), "more", fence.GrantRef{ID: g.ID, Principal: g.Principal})
		if err != nil {
			t.Fatal(err)
		}
		issued := fence.Token(0)
		for i, b := range got.Blocks {
			issued += b.Last - b.First + 1
			if i > 0 && b.First <= got.Blocks[i-1].Last+1 {
				t.Fatalf("blocks %v are not ascending and merged", got.Blocks)
			}
		}
		if got.First() != g.First() || !got.Has(g.Last()) || got.Has(g.Last()+1) || issued != fence.Token(n+2)*fence.BlockSize {
			t.Fatalf("blocks %v after %v", got.Blocks, g.Blocks)
		}
	}
}

func testFloorRace(t *testing.T, l ledgerTest) {
	const racers = 16
	errs := make([]error, racers)
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			_, errs[i] = l.Certify(context.WithoutCancel(t.Context()), certificate("floor", fmt.Sprint(i), 0))
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, fence.ErrVoid):
			t.Fatal(err)
		}
	}
	if won != 1 {
		t.Fatalf("%d certificates of one floor, want 1", won)
	}
}

func testBlocks(t *testing.T, l ledgerTest) {
	const leases, each = 8, 8
	got := make([][]fence.Token, leases)
	var wg sync.WaitGroup
	for i := range leases {
		wg.Go(func() {
			var floor fence.Token
			for n := range each {
				g, err := l.Certify(context.WithoutCancel(t.Context()), certificate(fmt.Sprint("blocks/", i), fmt.Sprint(n), floor))
				if err != nil {
					t.Errorf("lease %d: %v", i, err)
					return
				}
				floor = g.First()
				got[i] = append(got[i], floor)
			}
		})
	}
	wg.Wait()
	seen := map[fence.Token]bool{}
	for _, firsts := range got {
		for i, first := range firsts {
			if seen[first] {
				t.Fatalf("block %d was issued twice", first)
			}
			seen[first] = true
			if i > 0 && first <= firsts[i-1] {
				t.Fatalf("granted %d after %d", first, firsts[i-1])
			}
		}
	}
}
