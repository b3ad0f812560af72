package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// judge collects what is wrong.
type judge struct {
	*Run
	book   *book
	found  []Violation
	orders int
}

func (j *judge) broken(invariant, lease, format string, args ...any) {
	j.found = append(j.found, Violation{invariant, lease, fmt.Sprintf(format, args...)})
}

// CheckLedger holds the audit and what was left against the invariants and against what clients were told. orders is how
// many times a grant was certified after one whose lease is known to have been in Redis, so that I4 could be checked.
func (r *Run) CheckLedger() (found []Violation, orders int) {
	j := &judge{Run: r, book: r.Audit.open()}
	j.checkGrants()
	j.checkBlocks()
	j.checkSeals()
	j.checkMarks()
	j.checkData()
	j.checkBlobs()
	j.checkFinals()
	j.checkTold()
	j.checkLeaseCalls()
	j.checkOrder()
	return j.found, j.orders
}

// checkGrants: I4, first tokens of a lease rise; and a grant that has ended stays so.
func (j *judge) checkGrants() {
	last := map[string]GrantRow{}
	for _, g := range j.Audit.Grants {
		before := last[g.Lease]
		last[g.Lease] = g
		switch {
		case g.First < before.First:
			j.broken("I4", g.Lease, "%s: grant %d to %s came after grant %d to %s", g.Lease, g.First, g.Holder, before.First, before.Holder)
		case g.First == before.First && g.Holder != before.Holder:
			j.broken("I4", g.Lease, "%s: grant %d went from %s to %s", g.Lease, g.First, before.Holder, g.Holder)
		case g.First == before.First && before.Ended != "" && g.Ended == "":
			j.broken("I2", g.Lease, "%s: grant %d had ended (%s) and lives again", g.Lease, g.First, before.Ended)
		}
	}
}

// checkBlocks: I4, no block was given twice.
func (j *judge) checkBlocks() {
	type owner struct {
		lease string
		first int64
	}
	owners := map[int64]owner{}
	for _, g := range j.Audit.Grants {
		for _, block := range g.Blocks {
			for n := block.First / tokensInBlock; n <= block.Last/tokensInBlock; n++ {
				me := owner{g.Lease, g.First}
				if other, taken := owners[n]; taken && other != me {
					j.broken("I4", g.Lease, "tokens %d to %d belong to grant %d of %s and to grant %d of %s", n*tokensInBlock, (n+1)*tokensInBlock-1,
						other.first, other.lease, me.first, me.lease)
				}
				owners[n] = me
			}
		}
	}
}

// checkSeals: I2 and I3, each accepted token belonged to the newest grant of its lease, which had not ended, and to the
// grant's principal, at the moment of the commit. See Audit for why Seq tells.
func (j *judge) checkSeals() {
	type event struct {
		seq   int64
		grant *GrantRow
		mark  *MarkRow
	}
	var events []event
	for i := range j.Audit.Grants {
		events = append(events, event{seq: j.Audit.Grants[i].Seq, grant: &j.Audit.Grants[i]})
	}
	for i := range j.Audit.Marks {
		events = append(events, event{seq: j.Audit.Marks[i].Seq, mark: &j.Audit.Marks[i]})
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.seq, b.seq) })
	newest := map[string]*GrantRow{}
	for _, e := range events {
		if e.grant != nil {
			newest[e.grant.Lease] = e.grant
			continue
		}
		m, g := e.mark, newest[e.mark.Lease]
		within := func(b Block) bool { return b.First <= m.Token && m.Token <= b.Last }
		switch {
		case g == nil:
			j.broken("I3", m.Lease, "%s: token %d was accepted before any grant of %s", m.Resource, m.Token, m.Lease)
		case m.Token < g.First:
			j.broken("I2", m.Lease, "%s: token %d was accepted after grant %d of %s to %s", m.Resource, m.Token, g.First, m.Lease, g.Holder)
		case !slices.ContainsFunc(g.Blocks, within):
			j.broken("I3", m.Lease, "%s: token %d was accepted, which no grant of %s had been given: the newest was %d", m.Resource, m.Token, m.Lease, g.First)
		case m.Principal != g.Principal:
			j.broken("I3", m.Lease, "%s: token %d of %s was accepted from %s", m.Resource, m.Token, g.Principal, m.Principal)
		case g.Ended != "":
			j.broken("I2", m.Lease, "%s: token %d was accepted after its grant %d had ended (%s)", m.Resource, m.Token, g.First, g.Ended)
		}
	}
}

// checkMarks: I1, the accepted tokens of one resource rise.
func (j *judge) checkMarks() {
	last := map[string]int64{}
	for _, m := range j.Audit.Marks {
		if m.Token <= last[m.Resource] {
			j.broken("I1", m.Lease, "%s: token %d was accepted after %d", m.Resource, m.Token, last[m.Resource])
		}
		last[m.Resource] = m.Token
	}
}

// orderMargin is for the clocks of Redis and PostgreSQL, which are read at other moments than ours.
const orderMargin = 20 * time.Millisecond

// checkOrder: I4, nobody is certified while an earlier holder's lease certainly is in Redis. The lease was taken after
// the acquire was called, so it runs for the TTL from then at least, unless its grant was ended first; renewals never
// shorten it. A grant that is certified before that was either given a lease that was not free, or has its lease from
// before this one: then a holder whose lease came earlier was certified after one whose lease came later. Where Redis
// lost leases meanwhile, nothing follows.
func (j *judge) checkOrder() {
	acquires := map[string]*Op{}
	for _, op := range j.Ops {
		if op.Kind == Acquire {
			acquires[op.Holder] = op
		}
	}
	over := map[int64]int64{}     // where in the audit a grant ended
	released := map[int64]int64{} // when its release was called
	for _, op := range j.Ops {
		if op.Kind == Release {
			if at, twice := released[op.First]; !twice || op.Called() < at {
				released[op.First] = op.Called()
			}
		}
	}
	for _, e := range j.book.ends {
		over[e.First] = e.Seq
	}
	for lease, list := range j.book.grants {
		for i := 1; i < len(list); i++ {
			before, next := list[i-1], list[i]
			op := acquires[before.Holder]
			if op == nil || !op.Accepted() || op.Last().First != before.First {
				continue
			}
			if seq, ended := over[before.First]; ended && seq < next.Seq {
				continue
			}
			// A lease that is handed on in its gateway ends with the next grant.
			if at, asked := released[before.First]; asked && at <= next.At+int64(orderMargin) {
				continue
			}
			if j.lossy(op.Called(), next.At) {
				continue
			}
			j.orders++
			runs := op.Called() + op.TTL
			if next.At < runs-int64(orderMargin) {
				j.broken("I4", lease, "%s: grant %d to %s was certified at %.3f, while the lease of grant %d to %s ran until %.3f at least",
					lease, next.First, next.Holder, j.seconds(next.At), before.First, before.Holder, j.seconds(runs))
			}
		}
	}
}

// lossy tells whether Redis may have lost leases in a time.
func (r *Run) lossy(from, to int64) bool {
	return slices.ContainsFunc(r.Faults, func(f Fault) bool { return f.Lossy && f.From <= to && f.To >= from })
}
