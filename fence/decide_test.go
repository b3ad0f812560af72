package fence_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

func TestDecide(t *testing.T) {
	request, other := fence.DigestOf("request"), fence.DigestOf("other")
	grant := func(edit func(*fence.Grant)) *fence.Grant {
		g := &fence.Grant{Lease: "wallet:42", Principal: "p", Blocks: []fence.Block{{First: 2000, Last: 2999}, {First: 5000, Last: 5999}}}
		if edit != nil {
			edit(g)
		}
		return g
	}
	ended := func(g *fence.Grant) { g.Ended = fence.EndReleased }
	write := func(token fence.Token) fence.Write { return fence.Write{Token: token, Principal: "p", Digest: request} }
	marked := func(token fence.Token) fence.Mark { return fence.Mark{Token: token, Principal: "p", Digest: other} }
	when := func(w fence.Write, c fence.Condition) fence.Write { w.If = c; return w }

	for _, c := range []struct {
		name  string
		grant *fence.Grant
		mark  fence.Mark
		write fence.Write
		want  fence.Code
	}{
		{"FirstWrite", grant(nil), fence.Mark{}, write(2000), fence.CodeAccepted},
		{"SecondBlock", grant(nil), marked(2999), write(5000), fence.CodeAccepted},
		{"NeverGranted", nil, fence.Mark{}, write(1), fence.CodeUnissuedToken},
		{"OlderGrant", grant(nil), fence.Mark{}, write(1999), fence.CodeStaleToken},
		{"BetweenTheBlocks", grant(nil), fence.Mark{}, write(3000), fence.CodeUnissuedToken},
		{"Forged", grant(nil), marked(2000), write(fence.MaxToken), fence.CodeUnissuedToken},
		{"ForgedBelowTheMark", grant(nil), marked(5999), write(3000), fence.CodeUnissuedToken},
		{"Foreign", grant(func(g *fence.Grant) { g.Principal = "q" }), fence.Mark{}, write(2000), fence.CodeForeignToken},
		{"Ended", grant(ended), fence.Mark{}, write(2000), fence.CodeGrantEnded},
		{"EndedIsNotToldToOthers", grant(func(g *fence.Grant) { g.Principal = "q"; ended(g) }), fence.Mark{}, write(2000), fence.CodeForeignToken},
		{"BelowTheMark", grant(nil), marked(2001), write(2000), fence.CodeStaleToken},
		{"Spent", grant(nil), marked(2000), write(2000), fence.CodeSpentToken},
		{"Replayed", grant(nil), fence.Mark{Token: 2000, Principal: "p", Digest: request}, write(2000), fence.CodeReplayed},
		{"ReplayedAfterTheEnd", grant(ended), fence.Mark{Token: 2000, Principal: "p", Digest: request}, write(2000), fence.CodeReplayed},
		{"ReplayedAfterASuccessor", grant(nil), fence.Mark{Token: 1000, Principal: "p", Digest: request}, write(1000), fence.CodeReplayed},
		{"ReplayedByAnother", grant(nil), fence.Mark{Token: 2000, Principal: "q", Digest: request}, write(2000), fence.CodeSpentToken},
		{"WithoutDigest", grant(nil), fence.Mark{Token: 2000, Principal: "p"}, fence.Write{Token: 2000, Principal: "p"}, fence.CodeSpentToken},
		{"Match", grant(nil), marked(2000), when(write(2001), fence.Condition{Match: []fence.Token{7, 2000}}), fence.CodeAccepted},
		{"MatchNeverWritten", grant(nil), fence.Mark{}, when(write(2001), fence.Condition{Match: []fence.Token{0}}), fence.CodeAccepted},
		{"MatchAnother", grant(nil), marked(2000), when(write(2001), fence.Condition{Match: []fence.Token{7}}), fence.CodePreconditionFailed},
		{"MatchNothing", grant(nil), marked(2000), when(write(2001), fence.Condition{Match: []fence.Token{}}), fence.CodePreconditionFailed},
		{"NoneMatch", grant(nil), marked(2000), when(write(2001), fence.Condition{NoneMatch: []fence.Token{2000}}), fence.CodePreconditionFailed},
		{"StaleBeforePrecondition", grant(nil), marked(2002), when(write(2001), fence.Condition{Match: []fence.Token{7}}), fence.CodeStaleToken},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fence.Decide(c.grant, c.mark, c.write); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestError(t *testing.T) {
	err := fmt.Errorf("certify wallet:42: %w", fence.Wrap(fence.CodeUnavailable, io.EOF, "no answer").In("field"))
	var e *fence.Error
	if !errors.As(err, &e) || e.Field != "field" || fence.CodeOf(err) != fence.CodeUnavailable || !errors.Is(err, io.EOF) {
		t.Errorf("%+v", err)
	}
	if fence.CodeOf(nil) != fence.CodeAccepted || fence.CodeOf(io.EOF) != fence.CodeInternal {
		t.Error("codes of no error and of a foreign one")
	}
	for code, want := range map[fence.Code]bool{
		fence.CodeLeaseHeld: true, fence.CodeRateLimited: true, fence.CodeContention: true, fence.CodeOverloaded: true, fence.CodeUnavailable: true,
		fence.CodeStoreUnavailable: true, fence.CodeOutcomeUnknown: true, fence.CodeStaleToken: false, fence.CodeGrantEnded: false, fence.CodeInternal: false,
	} {
		if code.Retryable() != want {
			t.Errorf("%s: %v", code, !want)
		}
	}
}

// A worker was paused past its lease: its token is older than the newest grant, whatever the mark.
func ExampleDecide() {
	newest := &fence.Grant{Lease: "wallet:42", Principal: "worker", Blocks: []fence.Block{{First: 2000, Last: 2999}}}
	mark := fence.Mark{Token: 1000, Principal: "worker"}
	fmt.Println(fence.Decide(newest, mark, fence.Write{Token: 1001, Principal: "worker"}))
	fmt.Println(fence.Decide(newest, mark, fence.Write{Token: 2000, Principal: "worker"}))
	// Output:
	// stale-token
	// accepted
}
