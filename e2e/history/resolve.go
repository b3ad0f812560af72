package history

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// timed is a step with the time in which it happened.
type timed struct {
	*step
	call, ret int64
	// seq is the place of a grant or an end in the audit, 0 when it is known from its answer alone.
	seq int64
}

// book is what the audit says of all grants.
type book struct {
	blocks map[int64]issue      // by block number
	byName map[string][]granted // grants by holder
	ends   []ended
	grants map[string][]granted // by lease, in the order of the audit
}

// issue is who was given a block.
type issue struct {
	lease string
	first int64
	late  bool // it is not the grant's first block
	seq   int64
}

type granted struct {
	GrantRow
	seq int64
}

type ended struct {
	GrantRow
	why string
}

// tokensInBlock is the size of a block: block n is n*1000 to n*1000+999.
const tokensInBlock = 1000

// open reads the audit.
func (a *Audit) open() *book {
	b := &book{blocks: map[int64]issue{}, byName: map[string][]granted{}, grants: map[string][]granted{}}
	last := map[string]GrantRow{}
	for _, g := range a.Grants {
		before := last[g.Lease]
		last[g.Lease] = g
		if before.First != g.First {
			n := granted{g, g.Seq}
			b.grants[g.Lease] = append(b.grants[g.Lease], n)
			b.byName[g.Holder] = append(b.byName[g.Holder], n)
		}
		if g.Ended != "" && (before.First != g.First || before.Ended == "") {
			b.ends = append(b.ends, ended{g, g.Ended})
		}
		for _, block := range g.Blocks {
			for n := block.First / tokensInBlock; n <= block.Last/tokensInBlock; n++ {
				if _, known := b.blocks[n]; !known {
					b.blocks[n] = issue{lease: g.Lease, first: g.First, late: n != g.First/tokensInBlock, seq: g.Seq}
				}
			}
		}
	}
	return b
}

// issuedIn returns the first token of the lease's grant that was given the token.
func (b *book) issuedIn(lease string, token int64) (first int64, late bool) {
	i, ok := b.blocks[token/tokensInBlock]
	if !ok || i.lease != lease {
		return 0, false
	}
	return i.first, i.late
}

// steps makes the model's steps of one lease's operations. What no client knows of calls about leases is settled by the
// audit; writes of unknown outcome stay unknown.
func (r *Run) steps(lease string, b *book) []timed {
	var list []timed
	ops := map[string]*Op{}
	for _, op := range r.Ops {
		if op.Lease != lease {
			continue
		}
		switch {
		case op.Kind.Writes():
			list = append(list, b.write(op)...)
		case op.Kind.Reads():
			list = append(list, b.readOf(op)...)
		default:
			if op.Kind == Acquire {
				ops[op.Holder] = op
			}
			list = append(list, b.known(op)...)
		}
	}
	for _, g := range b.grants[lease] {
		if op := ops[g.Holder]; op != nil {
			list = append(list, granting(op, g))
		}
	}
	for _, e := range b.ends {
		if e.Lease == lease {
			list = append(list, r.ending(e, ops)...)
		}
	}
	narrow(list)
	return list
}

// granting is the grant that the audit shows, in the time of the acquire that asked for it. One that was repeated after
// its first grant was superseded may have been granted twice: the client was told of one.
func granting(op *Op, g granted) timed {
	t := timed{&step{op: op, what: grants, first: g.First, principal: g.Principal}, op.Called(), Forever, g.seq}
	if op.Accepted() && op.Last().First == g.First {
		t.ret = op.Returned()
	}
	return t
}

// ending is the end of a grant that the audit shows, where no answer tells of it.
func (r *Run) ending(e ended, acquires map[string]*Op) []timed {
	if op := acquires[e.Holder]; op != nil && e.why == "abandoned" {
		return []timed{{&step{op: op, what: ends, first: e.First}, op.Called(), Forever, e.Seq}}
	}
	var open *Op
	for _, op := range r.Ops {
		switch {
		case op.Lease != e.Lease || !op.ends(e):
		case op.Accepted():
			return nil // its answer tells of it
		case open == nil && op.mayHaveEnded():
			open = op
		}
	}
	if open == nil {
		return nil
	}
	t := timed{&step{op: open, what: ends, first: e.First}, open.Called(), open.Returned(), e.Seq}
	if !open.Clean() {
		t.ret = Forever
	}
	return []timed{t}
}

// mayHaveEnded tells whether some attempt may have ended the grant for all that its answer says. One that says
// unavailable has ended it and could not tell Redis, or has not.
func (o *Op) mayHaveEnded() bool {
	return slices.ContainsFunc(o.Attempts, func(a Attempt) bool { return !a.Reply.settles() || a.Reply.Code == "unavailable" })
}

// ends tells whether the operation asked for this end.
func (o *Op) ends(e ended) bool {
	return o.Kind == Release && o.First == e.First && e.why == "released" ||
		o.Kind == Break && e.why == "broken: "+o.Reason
}

// known is what the answer to a call about a lease says for certain.
func (b *book) known(op *Op) []timed {
	s := &step{op: op, first: op.First}
	switch {
	case op.Accepted() && op.Kind == Acquire:
		first := op.Last().First
		for _, g := range b.byName[op.Holder] {
			if g.First == first {
				return nil // the audit's row becomes the step
			}
		}
		s.what, s.first, s.principal = grants, first, op.Principal
	case op.Accepted() && (op.Kind == Renew || op.Kind == Tokens):
		s.what = holds
	case op.Accepted() && (op.Kind == Release || op.Kind == Break):
		s.what = ends
	case op.Refused() == "lease-lost" && op.Kind == Release && op.Clean():
		s.what = passed
	case op.Refused() == "not-found" && op.Kind == Break && op.Clean():
		s.what = ungiven
	default:
		return nil
	}
	call := op.Called()
	if s.what == holds {
		call = op.Attempts[len(op.Attempts)-1].Called
	}
	return []timed{{s, call, op.Returned(), 0}}
}

func cellOf(op *Op) int {
	if strings.HasPrefix(op.Resource, objectPrefix) {
		return 1
	}
	return 0
}

func (b *book) write(op *Op) []timed {
	s := &step{op: op, what: writes, cell: cellOf(op), token: op.Token, principal: op.Principal, value: op.Value}
	s.issued, s.late = b.issuedIn(op.Lease, op.Token)
	t := timed{s, op.Called(), op.Returned(), 0}
	switch {
	case op.Accepted():
		r := op.Last()
		s.created, s.anyAge = r.Created, op.Kind != Put || op.Class == ClassCommit && r.Replayed && r.Mark > op.Token
	case op.Clean():
		s.code = op.Refused()
	default:
		if s.unknown = true; !op.Over() {
			t.ret = Forever
		}
	}
	return []timed{t}
}

// readOf is a read that was answered, by its last attempt.
func (b *book) readOf(op *Op) []timed {
	r := op.Last()
	if !r.settles() || r.Mark < 0 && op.Token == 0 {
		return nil
	}
	s := &step{op: op, what: reads, cell: cellOf(op), token: op.Token, principal: op.Principal, mark: r.Mark, value: r.Value, code: r.Code}
	if op.Kind == Mark {
		s.what = readMark
	}
	s.issued, s.late = b.issuedIn(op.Lease, op.Token)
	switch r.Code {
	case "", "not-found":
	case "stale-token", "unissued-token", "foreign-token", "grant-ended":
		if op.Token == 0 {
			return nil
		}
	default:
		return nil // the store's failure, say: it tells nothing of the resource
	}
	return []timed{{s, op.Attempts[len(op.Attempts)-1].Called, op.Returned(), 0}}
}

// narrow gives the steps that may happen at any later time an end, where one follows. It takes nothing from the
// check: beyond that end a write can only be refused, so that what has no effect there can stand before it as well, and
// what has an effect there breaks the rule.
func narrow(list []timed) {
	slices.SortStableFunc(list, func(a, b timed) int { return cmp.Compare(a.call, b.call) })
	for i := range list {
		t := &list[i]
		if t.ret != Forever {
			continue
		}
		for _, other := range list {
			if other.ret < t.ret && t.precedes(other) {
				t.ret = max(other.ret, t.call)
			}
		}
	}
}

// precedes tells whether t cannot have an effect after other has returned.
func (t *timed) precedes(other timed) bool {
	switch t.what {
	case grants, ends:
		return t.seq != 0 && other.seq > t.seq
	case writes:
		switch other.what {
		case grants:
			return other.first > t.token
		case ends:
			return other.first != 0 && other.first == t.issued
		case writes:
			return !other.unknown && other.code == "" && other.cell == t.cell && other.token > t.token
		}
	}
	return false
}

// operations hands the steps to porcupine.
func operations(list []timed) []porcupine.Operation {
	ops := make([]porcupine.Operation, len(list))
	for i, t := range list {
		ret := t.ret
		if ret == Forever {
			ret = math.MaxInt64
		}
		ops[i] = porcupine.Operation{ClientId: i, Input: t.step, Call: t.call, Return: ret}
	}
	return ops
}
