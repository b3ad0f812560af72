package fence

import "slices"

// Write is what the rule needs to know of a write: who spends which token, and what the write depends on.
type Write struct {
	Token     Token
	Principal string
	// Digest identifies the request: the same token with the same digest is a repetition, with another digest
	// it is another request. The zero Digest is never repeated.
	Digest Digest
	If     Condition
}

// Mark is the highest token accepted for a resource, and by whom. The zero Mark is that of a resource never
// written.
type Mark struct {
	Token     Token
	Principal string
	Digest    Digest
}

// Condition is the client's own precondition on the mark (If-Match, If-None-Match), beside the token.
type Condition struct {
	// Match, when not nil, lists the marks of which the resource's must be one. 0 is "never written".
	Match []Token
	// NoneMatch lists the marks that the resource's must not be.
	NoneMatch []Token
	// Exists asks that the resource exists (If-Match: *), Absent that it does not (If-None-Match: *). They are
	// decided where the data is changed, not by the rule.
	Exists, Absent bool
}

// Holds reports whether the condition on the mark is met.
func (c Condition) Holds(mark Token) bool {
	if c.Match != nil && !slices.Contains(c.Match, mark) {
		return false
	}
	return !slices.Contains(c.NoneMatch, mark)
}

// Decide is the rule: the verdict on a write to a resource whose mark is m, protected by a lease whose newest
// grant is g (nil when the lease was never granted). A replay is recognised before anything else, so that a lost
// reply can be settled even after the grant ended (I7). A token is held against the newest grant before it is
// held against the mark, so that a forged one never tells nor moves a mark (I3).
func Decide(g *Grant, m Mark, w Write) Code {
	if m.Token == w.Token && m.Principal == w.Principal && w.Digest != (Digest{}) && m.Digest == w.Digest {
		return CodeReplayed
	}
	if refusal := DecideGrant(g, w.Principal, w.Token); refusal != CodeAccepted {
		return refusal
	}
	switch {
	case w.Token < m.Token:
		return CodeStaleToken
	case w.Token == m.Token:
		return CodeSpentToken
	case !w.If.Holds(m.Token):
		return CodePreconditionFailed
	}
	return CodeAccepted
}

// DecideGrant is the part of the rule that looks at the grant alone: whether the token is still good, whatever
// the resource's mark.
func DecideGrant(g *Grant, principal string, t Token) Code {
	switch {
	case g == nil:
		return CodeUnissuedToken
	case t < g.First():
		return CodeStaleToken
	case !g.Has(t):
		return CodeUnissuedToken
	case g.Principal != principal:
		return CodeForeignToken
	case g.Ended != "":
		return CodeGrantEnded
	}
	return CodeAccepted
}
