package history

import "slices"

// spending is one token on one resource.
type spending struct {
	resource string
	token    int64
}

// checkTold: I7, what was answered accepted was done once, as it was asked for; what was refused was not done; and
// nothing was done that nobody asked for.
func (j *judge) checkTold() {
	type applied struct {
		value, principal, lease string
	}
	values := map[change]string{}
	for _, d := range j.Audit.Data {
		values[change{d.Xact, d.Resource}] = d.Value
	}
	done := map[spending]applied{}
	for _, m := range j.Audit.Marks {
		done[spending{m.Resource, m.Token}] = applied{values[change{m.Xact, m.Resource}], m.Principal, m.Lease}
	}
	asked := map[spending]bool{}
	for _, op := range j.Ops {
		if op.Last() != nil && op.Last().Torn {
			j.broken("I6", op.Lease, "%s: %s of %s: %s", op.ID, op.Kind, op.Resource, op.Last().Note)
		}
		if !op.Kind.Writes() {
			continue
		}
		k := spending{op.Resource, op.Token}
		what, ok := done[k]
		mine := ok && what.value == op.Value && what.principal == op.Principal
		if mine && !(op.Clean() && op.Refused() != "") {
			asked[k] = true
		}
		switch {
		case op.Accepted() && !mine:
			j.broken("I7", op.Lease, "%s: %s of %s with token %d, value %q, was answered accepted (replayed: %t), and is not in the ledger (which has %+v)",
				op.ID, op.Kind, op.Resource, op.Token, op.Value, op.Last().Replayed, what)
		case op.Accepted() && op.Last().Replayed && op.Clean():
			j.broken("I7", op.Lease, "%s: %s of %s with token %d was answered replayed, and no attempt before was without an answer", op.ID, op.Kind, op.Resource, op.Token)
		case mine && op.Clean() && op.Refused() != "":
			j.broken("I7", op.Lease, "%s: %s of %s with token %d was refused (%s) and is in the ledger", op.ID, op.Kind, op.Resource, op.Token, op.Refused())
		}
	}
	for k, what := range done {
		if !asked[k] {
			j.broken("I7", what.lease, "%s: token %d of %s was spent on the value %q, and nobody who may have done so asked for it", k.resource, k.token, what.principal, what.value)
		}
	}
}

// sealed tells whether a grant was made after the released one before its release was answered: the lease was handed on, and the
// next one's grant did for the end.
func (b *book) sealed(release *Op) bool {
	return slices.ContainsFunc(b.grants[release.Lease], func(g granted) bool {
		return g.First > release.First && g.At <= release.Returned()+int64(orderMargin)
	})
}

// checkLeaseCalls: I7, what was answered to calls about leases is in the ledger, and every grant was asked for.
func (j *judge) checkLeaseCalls() {
	acquires := map[string]*Op{}
	over := map[int64]bool{}
	for _, e := range j.book.ends {
		over[e.First] = true
	}
	for _, op := range j.Ops {
		switch {
		case op.Kind == Acquire:
			acquires[op.Holder] = op
			j.checkAcquire(op, over)
		case op.Kind == Release && op.Accepted() && !over[op.First] && !j.book.sealed(op):
			j.broken("I7", op.Lease, "%s: grant %d of %s was released, and has not ended", op.ID, op.First, op.Lease)
		case op.Kind == Tokens && op.Accepted():
			if first, _ := j.book.issuedIn(op.Lease, op.Last().Last); first != op.First {
				j.broken("I3", op.Lease, "%s: token %d was added to grant %d of %s, and is not in the ledger", op.ID, op.Last().Last, op.First, op.Lease)
			}
		}
	}
	for lease, list := range j.book.grants {
		for _, g := range list {
			op := acquires[g.Holder]
			if op == nil || op.Lease != lease || op.Principal != g.Principal {
				j.broken("I4", lease, "%s: grant %d to %s of %s, and it is nobody's acquire", lease, g.First, g.Holder, g.Principal)
			}
		}
	}
}

func (j *judge) checkAcquire(op *Op, over map[int64]bool) {
	made := j.book.byName[op.Holder]
	if op.Accepted() && !slices.ContainsFunc(made, func(g granted) bool { return g.First == op.Last().First && g.Lease == op.Lease }) {
		j.broken("I4", op.Lease, "%s: %s was granted %d of %s, and it is not in the ledger", op.ID, op.Holder, op.Last().First, op.Lease)
	}
	switch op.Refused() {
	case "lease-held", "contention", "overloaded", "invalid-request":
		for _, g := range made {
			if op.Clean() && !over[g.First] {
				j.broken("I7", op.Lease, "%s: %s was refused %s of %s (%s), and grant %d is in the ledger", op.ID, op.Holder, op.Kind, op.Lease, op.Refused(), g.First)
			}
		}
	}
}
