package leasetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// heldUnder is a certificate whose lease the locker keeps under the value hold.
func heldUnder(name, who string, floor fence.Token, hold string) fence.Certificate {
	c := certificate(name, who, floor)
	c.Hold = fence.DigestOf("hold", hold)
	return c
}

func (l ledgerTest) newest(name string) *fence.Grant {
	l.t.Helper()
	g, err := l.Newest(l.t.Context(), name)
	if err != nil || g == nil {
		l.t.Fatalf("newest: %v, %v", g, err)
	}
	return g
}

// A certificate without a hold is one of a locker that keeps leases under the acquire digest.
func testHold(t *testing.T, l ledgerTest) {
	c := heldUnder("hold", "a", 0, "1")
	a := l.certify(c)
	if newest := l.newest("hold"); a.Hold != c.Hold || newest.Hold != c.Hold {
		t.Fatalf("granted under %v, newest is under %v, want %v", a.Hold, newest.Hold, c.Hold)
	}
	b := l.certify(certificate("hold", "b", a.First()))
	if newest := l.newest("hold"); b.Hold != b.Acquire || newest.Hold != b.Acquire {
		t.Fatalf("granted under %v, newest is under %v, want the acquire's %v", b.Hold, newest.Hold, b.Acquire)
	}
}

// The caller that repeats an acquire holds the lease under the value it has sent.
func testRepeatedHold(t *testing.T, l ledgerTest) {
	g := l.certify(heldUnder("rehold", "a", 0, "1"))
	again := heldUnder("rehold", "a", 0, "2")
	got := l.certify(again)
	if got.ID != g.ID || got.First() != g.First() || got.Hold != again.Hold {
		t.Fatalf("repeated: %+v, want that of %+v under %v", got, g, again.Hold)
	}
	if newest := l.newest("rehold"); newest.Hold != again.Hold {
		t.Fatalf("the newest is under %v, want %v", newest.Hold, again.Hold)
	}
	// A repetition that is refused changes nothing.
	refused := heldUnder("rehold", "a", 0, "3")
	refused.Holder = "somebody"
	_, err := l.Certify(t.Context(), refused)
	l.code("another holder", err, fence.CodeInvalidRequest)
	if newest := l.newest("rehold"); newest.Hold != again.Hold {
		t.Fatalf("after a refusal the newest is under %v, want %v", newest.Hold, again.Hold)
	}
}

func testLocal(t *testing.T, l ledgerTest) {
	local := func(who string, floor fence.Token, hold string) fence.Certificate {
		c := heldUnder("local", who, floor, hold)
		c.Local = true
		return c
	}
	void := func(what string, c fence.Certificate) {
		t.Helper()
		if g, err := l.Certify(t.Context(), c); !errors.Is(err, fence.ErrVoid) {
			t.Fatalf("%s: %+v, %v, want void", what, g, err)
		}
	}
	void("without a grant before it", local("a", 0, "1"))
	a := l.certify(heldUnder("local", "a", 0, "1"))
	void("of another hold", local("b", a.First(), "2"))
	void("of another floor", local("b", 0, "1"))
	handed := local("b", a.First(), "1")
	handed.Handed = true
	b := l.certify(handed)
	if again := l.certify(handed); again.ID != b.ID {
		t.Fatalf("repeated: %+v, want %+v", again, b)
	}
	if b.Hold != a.Hold || b.First() <= a.First() {
		t.Fatalf("handed on: %+v after %+v", b, a)
	}
	for _, why := range []string{fence.EndReleased, fence.EndAbandoned, fence.EndBroken, fence.EndBroken + ": stuck"} {
		l.end("local", fence.Ending{Why: why, By: "admin"})
		void("after its end", local("after "+why, b.First(), "1"))
		b = l.certify(heldUnder("local", "taken after "+why, b.First(), "1"))
	}
	l.certify(local("last", b.First(), "1"))
}

func (l ledgerTest) end(name string, e fence.Ending) {
	l.t.Helper()
	if _, err := l.End(l.t.Context(), name, fence.GrantRef{Newest: true}, e); err != nil {
		l.t.Fatal(err)
	}
}

func testAcquireAndHold(t *testing.T, l ledgerTest) {
	first := l.certify(heldUnder("copies", "a", 0, "1"))
	g := l.certify(heldUnder("copies", "a", 0, "2"))
	for what, by := range map[string]fence.GrantRef{
		"the hold of a copy":     {Acquire: g.Acquire, Hold: first.Hold},
		"another's acquire":      {Acquire: fence.AcquireDigest("p-b", "b"), Hold: g.Hold},
		"the hold alone":         {Hold: g.Hold},
		"a hold beside the id":   {ID: "x", Principal: g.Principal, Hold: g.Hold},
		"the acquire as a hold":  {Acquire: g.Acquire, Hold: g.Acquire},
		"a hold that nobody has": {Acquire: g.Acquire, Hold: fence.DigestOf("nobody's")},
	} {
		_, err := l.Held(t.Context(), "copies", by)
		l.code("held by "+what, err, fence.CodeLeaseLost)
		_, err = l.More(t.Context(), "copies", by)
		l.code("more by "+what, err, fence.CodeLeaseLost)
		_, err = l.End(t.Context(), "copies", by, fence.Ending{Why: fence.EndAbandoned})
		l.code("end by "+what, err, fence.CodeLeaseLost)
	}
	for _, by := range []fence.GrantRef{{Acquire: g.Acquire}, {Acquire: g.Acquire, Hold: g.Hold}} {
		if _, err := l.Held(t.Context(), "copies", by); err != nil {
			t.Fatalf("held by %+v: %v", by, err)
		}
	}
	by := fence.GrantRef{Acquire: g.Acquire, Hold: g.Hold}
	if got, err := l.More(t.Context(), "copies", by); err != nil || got.Hold != g.Hold {
		t.Fatalf("more: %+v, %v", got, err)
	}
	if got, err := l.End(t.Context(), "copies", by, fence.Ending{Why: fence.EndAbandoned}); err != nil || got.Hold != g.Hold || got.Ended != fence.EndAbandoned {
		t.Fatalf("end: %+v, %v", got, err)
	}
	// Without a hold of its own a grant is under its acquire.
	plain := l.certify(certificate("copies", "b", g.First()))
	if _, err := l.Held(t.Context(), "copies", fence.GrantRef{Acquire: plain.Acquire, Hold: plain.Acquire}); err != nil {
		t.Fatal(err)
	}
}

func testEndedBy(t *testing.T, l ledgerTest) {
	g := l.certify(certificate("by", "a", 0))
	broken := fence.Ending{Why: fence.EndBroken + ": stuck", By: "admin"}
	for _, e := range []fence.Ending{broken, {Why: fence.EndReleased}, {Why: fence.EndBroken, By: "another"}} {
		ended, err := l.End(t.Context(), "by", fence.GrantRef{ID: g.ID, Principal: g.Principal}, e)
		if err != nil || ended.Ended != broken.Why || ended.EndedBy != broken.By {
			t.Fatalf("end (%+v): %+v, %v", e, ended, err)
		}
	}
	if newest := l.newest("by"); newest.Ended != broken.Why || newest.EndedBy != broken.By {
		t.Fatalf("newest: %+v", newest)
	}
	l.certify(certificate("by", "b", g.First()))
	if newest := l.newest("by"); newest.Ended != "" || newest.EndedBy != "" {
		t.Fatalf("the next one: %+v", newest)
	}
}

func testList(t *testing.T, l ledgerTest) {
	names := []string{"list/%", "list/%d", "list/Z", "list/_", "list/a", "list/a/b", "list/ab", "list/z", "list/é", "list/日本", "list/\U0010FFFF", "list/\U0010FFFF\U0010FFFFx", "list0", "lisu", "\uD7FFx", "\uE000x"}
	for i, name := range slices.Backward(names) {
		l.certify(heldUnder(name, "a", 0, name))
		if i%5 == 1 {
			l.end(name, fence.Ending{Why: fence.EndReleased})
			l.certify(heldUnder(name, "b", l.newest(name).First(), name))
		}
	}
	l.certify(certificate("list/ended", "a", 0))
	l.end("list/ended", fence.Ending{Why: fence.EndBroken})

	list := func(prefix, after string, limit int) []string {
		t.Helper()
		found, err := l.List(t.Context(), prefix, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, g := range found {
			if g.ID != "" || g.Ended != "" || g.Hold != fence.DigestOf("hold", g.Lease) || len(g.Blocks) != 1 {
				t.Fatalf("listed: %+v", g)
			}
			got = append(got, g.Lease)
		}
		return got
	}
	for _, tt := range []struct {
		prefix, after string
		want          []string
	}{
		{"list/", "", names[:12]},
		{"list", "", names[:13]},
		{"list/%", "", []string{"list/%", "list/%d"}},
		{"list/_", "", []string{"list/_"}},
		{"list/a", "", []string{"list/a", "list/a/b", "list/ab"}},
		{"list/a", "list/a", []string{"list/a/b", "list/ab"}},
		{"list/a", "list/zzz", []string{}},
		{"list/a", "kist", []string{"list/a", "list/a/b", "list/ab"}},
		{"list/é", "", []string{"list/é"}},
		{"list/\U0010FFFF", "", []string{"list/\U0010FFFF", "list/\U0010FFFF\U0010FFFFx"}},
		{"list/\U0010FFFF\U0010FFFF", "", []string{"list/\U0010FFFF\U0010FFFFx"}},
		{"\uD7FF", "", []string{"\uD7FFx"}},
		{"list/ended", "", []string{}},
		{"List/", "", []string{}},
		{"\U0010FFFF", "", []string{}},
	} {
		if got := list(tt.prefix, tt.after, 100); !slices.Equal(got, tt.want) {
			t.Errorf("prefix %q after %q: %q, want %q", tt.prefix, tt.after, got, tt.want)
		}
	}
	var paged []string
	for after := ""; ; after = paged[len(paged)-1] {
		page := list("list/", after, 5)
		paged = append(paged, page...)
		if len(page) < 5 {
			break
		}
	}
	if !slices.Equal(paged, names[:12]) {
		t.Errorf("page by page: %q", paged)
	}
	_, err := l.List(t.Context(), "", "", 0)
	l.code("a page of nothing", err, fence.CodeInvalidRequest)
}
