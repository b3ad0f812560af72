package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Forever is the return of an operation that may still happen when the run is over.
const Forever = math.MaxInt64

// Attempt is one request. A client that was killed leaves Reply nil and Returned Forever.
type Attempt struct {
	Called, Returned int64
	Reply            *Reply
}

// Op is an operation with all its attempts.
type Op struct {
	ID string
	Call
	Attempts []Attempt
}

// Join makes operations of the lines, in the order of their calls. Lines of one operation are in their order.
func Join(lines []Line) ([]*Op, error) {
	byID := map[string]*Op{}
	var ops []*Op
	for _, l := range lines {
		op := byID[l.ID]
		switch {
		case l.Call != nil && op == nil:
			op = &Op{ID: l.ID, Call: *l.Call}
			byID[l.ID] = op
			ops = append(ops, op)
			op.Attempts = append(op.Attempts, Attempt{Called: l.At, Returned: Forever})
		case op == nil, l.Call != nil:
			return nil, fmt.Errorf("operation %s: a line without its call, or a second call", l.ID)
		case l.Again:
			op.Attempts = append(op.Attempts, Attempt{Called: l.At, Returned: Forever})
		case l.Reply != nil:
			last := &op.Attempts[len(op.Attempts)-1]
			if last.Reply != nil {
				return nil, fmt.Errorf("operation %s: two replies to one attempt", l.ID)
			}
			last.Returned, last.Reply = l.At, l.Reply
		}
	}
	slices.SortStableFunc(ops, func(a, b *Op) int { return cmp.Compare(a.Called(), b.Called()) })
	return ops, nil
}

// Called is when the operation may first have been seen.
func (o *Op) Called() int64 { return o.Attempts[0].Called }

// Returned is when the last attempt was answered or given up.
func (o *Op) Returned() int64 { return o.Attempts[len(o.Attempts)-1].Returned }

// Last is the reply to the last attempt; nil when the client was killed before it.
func (o *Op) Last() *Reply { return o.Attempts[len(o.Attempts)-1].Reply }

// Accepted tells whether the client knows that the operation took effect.
func (o *Op) Accepted() bool { r := o.Last(); return r.settles() && r.Code == "" }

// Refused is the code of the last answer, if that is a refusal.
func (o *Op) Refused() string {
	if r := o.Last(); r.settles() {
		return r.Code
	}
	return ""
}

// Clean tells whether each attempt but an accepted last one is known to have changed nothing (I7): a refusal of a clean
// operation means that it never takes effect.
func (o *Op) Clean() bool {
	for _, a := range o.Attempts {
		if !a.Reply.settles() {
			return false
		}
	}
	return true
}

// Unknown tells whether the operation may have taken effect, or may still do so, for all the client knows.
func (o *Op) Unknown() bool { return !o.Accepted() && !o.Clean() }

// Over tells whether the outcome of an unknown write is settled in one direction: a token that was refused for being too
// old or void is refused for ever, so that no earlier attempt takes effect after the refusal.
func (o *Op) Over() bool {
	switch o.Refused() {
	case "stale-token", "spent-token", "grant-ended", "foreign-token":
		return true
	}
	return false
}

// Outcome is for people.
func (o *Op) Outcome() string {
	r := o.Last()
	switch {
	case r == nil:
		return "? (the client was killed)"
	case r.Lost:
		return "? " + r.Note
	case r.Code == unknownOutcome:
		return "? " + r.Code
	case r.Code == "" && r.Replayed:
		return "ok, replayed"
	case r.Code == "" && o.Kind == Acquire:
		return fmt.Sprintf("granted %d", r.First)
	case r.Code == "" && o.Kind.Reads():
		return fmt.Sprintf("mark %d %q", r.Mark, r.Value)
	case r.Code == "":
		return "ok"
	case o.Kind.Reads():
		return fmt.Sprintf("%s, mark %d", r.Code, r.Mark)
	case !o.Clean():
		return r.Code + ", after an attempt without an answer"
	}
	return r.Code
}
