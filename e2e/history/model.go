package history

import (
	"github.com/anishathalye/porcupine"
)

// state is what the model knows of one lease: the newest grant, and the two resources that the lease protects. It is a
// register with strictly increasing tokens that is sealed at each grant.
type state struct {
	first     int64 // 0 before the first grant
	principal string
	ended     bool
	cells     [2]cell
}

// cell is one resource; value is empty when there is nothing.
type cell struct {
	mark  int64
	value string
}

// step is an operation as the model takes it. Its outcome is part of it.
type step struct {
	op   *Op
	what what
	// first is the grant's first token: the one that is made, ended, or asked about; 0 in a break, which ends any.
	first     int64
	principal string

	cell  int
	token int64
	// issued is the first token of the grant that was given the token; 0 for a token of no grant of this lease. late says
	// that its block was added later, so that for a while nobody had it.
	issued  int64
	late    bool
	value   string
	mark    int64
	code    string // of a refusal; unknown is not one
	unknown bool
	// created is what the answer to an accepted write says of the resource; compared unless anyAge. found says that a
	// write need not ask whether there was something to change.
	created, anyAge, found bool
}

type what int

const (
	grants   what = iota // the grant becomes the newest
	ends                 // the grant ends
	holds                // the grant is the newest and has not ended
	passed               // the grant is not the newest
	ungiven              // no grant was ever made
	writes               // the resource is written, or not
	reads                // mark and value are read
	readMark             // the mark alone
)

// newModel is the sequential specification of one lease. It is not deterministic: a write of unknown outcome leaves
// two states.
func newModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(s, in, _ any) []any {
			var next []any
			for _, n := range in.(*step).next(s.(state)) {
				next = append(next, n)
			}
			return next
		},
		Equal: func(a, b any) bool { return a.(state) == b.(state) },
		Hash: func(s any) uint64 {
			v := s.(state)
			return uint64(v.first)*31 ^ uint64(v.cells[0].mark)*0x9e3779b97f4a7c15 ^ uint64(v.cells[1].mark)*0xc2b2ae3d27d4eb4f
		},
	}
	return m.ToModel()
}

// next returns the states that the step may leave; none when the step is not possible in s.
func (p *step) next(s state) []state {
	possible := false
	switch p.what {
	case grants:
		// I2, I4: it replaces what was there, and its tokens are higher.
		if possible = p.first > s.first; possible {
			s.first, s.principal, s.ended = p.first, p.principal, false
		}
	case ends:
		if possible = s.first != 0 && (p.first == 0 || p.first == s.first); possible {
			s.ended = true
		}
	case holds:
		possible = p.first == s.first && !s.ended
	case passed:
		possible = p.first != s.first
	case ungiven:
		possible = s.first == 0
	case writes:
		return p.write(s)
	case reads:
		possible = p.read(s)
	case readMark:
		possible = s.cells[p.cell].mark == p.mark
	}
	if !possible {
		return nil
	}
	return []state{s}
}

// write is the rule of fence.Decide, restated so that the two can disagree.
func (p *step) write(s state) []state {
	c := s.cells[p.cell]
	verdict := p.verdict(s)
	if verdict == "" && p.token <= c.mark {
		if verdict = "stale-token"; p.token == c.mark {
			verdict = "spent-token"
		}
	}
	absent := c.value == ""
	applied := s
	applied.cells[p.cell] = cell{p.token, p.value}
	applies := verdict == "" && (!absent || p.op.Kind == Put || p.found)
	switch {
	case p.unknown && applies:
		return []state{s, applied}
	case p.unknown:
		return []state{s}
	case p.code == "":
		if !applies || !p.anyAge && p.created != absent {
			return nil
		}
		return []state{applied}
	}
	// A refusal changes nothing, and says why in terms of what stands (I7).
	switch p.code {
	case "stale-token", "spent-token", "grant-ended", "foreign-token":
		if verdict != p.code {
			return nil
		}
	case "unissued-token":
		if verdict != p.code && !p.late {
			return nil
		}
	case "not-found", "write-suppressed":
		// It was admitted, found nothing and was undone. Why is looked up afterwards: the resource may be back by then.
		if verdict != "" || !absent {
			return nil
		}
	}
	return []state{s}
}

// verdict is what the newest grant says of the token; empty when it is good.
func (p *step) verdict(s state) string {
	switch {
	case s.first == 0:
		return "unissued-token"
	case p.token < s.first:
		return "stale-token"
	case p.issued != s.first:
		return "unissued-token"
	case p.principal != s.principal:
		return "foreign-token"
	case s.ended:
		return "grant-ended"
	}
	return ""
}

func (p *step) read(s state) bool {
	if p.token != 0 {
		verdict := p.verdict(s)
		if verdict == "unissued-token" && p.late {
			verdict = p.code
		}
		// The token is looked at first.
		if verdict != "" || p.code != "" && p.code != "not-found" {
			return verdict == p.code
		}
	}
	return s.cells[p.cell] == cell{p.mark, p.value}
}
