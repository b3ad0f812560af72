package history

import (
	"fmt"
	"testing"
)

const (
	lease  = "job:1"
	row    = "rows/public.jobs/1"
	object = "objects/data/1/a"
)

// scene makes a run by hand: each method adds one operation that takes the next tick, and what the ledger then holds.
type scene struct {
	Run
	now, seq int64
	newest   GrantRow
}

func (s *scene) tick() int64 { s.now += 1000; return s.now }

// op adds an operation with one attempt. A nil reply is that of a client that was killed.
func (s *scene) op(c Call, r *Reply) *Op {
	c.Lease = lease
	if c.Client == "" {
		c.Client, c.Principal = "a", "a"
	}
	op := &Op{ID: fmt.Sprint("op", len(s.Ops)), Call: c, Attempts: []Attempt{{Called: s.tick(), Returned: s.tick(), Reply: r}}}
	if r == nil {
		op.Attempts[0].Returned = Forever
	}
	s.Ops = append(s.Ops, op)
	return op
}

func accepted() *Reply               { return &Reply{Status: 200, Mark: -1} }
func refused(code string) *Reply     { return &Reply{Status: 412, Code: code, Mark: -1} }
func lost() *Reply                   { return &Reply{Lost: true, Mark: -1} }
func shows(m int64, v string) *Reply { return &Reply{Status: 200, Mark: m, Value: v} }
func gone(m int64) *Reply            { return &Reply{Status: 404, Code: "not-found", Mark: m} }

// grant is an acquire by a client, with a lease of a minute, and its grant.
func (s *scene) grant(by string, first int64) *Op {
	op := s.op(Call{Client: by, Principal: by, Kind: Acquire, Holder: fmt.Sprint(by, first), TTL: 1000}, &Reply{Status: 201, First: first, Last: first + 999, Mark: -1})
	s.granted(by, first)
	return op
}

func (s *scene) granted(by string, first int64) {
	s.newest = GrantRow{Lease: lease, First: first, Blocks: []Block{{first, first + 999}}, Principal: by, Holder: fmt.Sprint(by, first)}
	s.audited()
}

func (s *scene) audited() {
	s.seq++
	s.newest.Seq, s.newest.At = s.seq, s.now
	s.Audit.Grants = append(s.Audit.Grants, s.newest)
}

func (s *scene) end(why string) {
	s.newest.Ended = why
	s.audited()
}

// write is what a client was told of a put, and done what the ledger has of it.
func (s *scene) write(resource string, token int64, value string, r *Reply) *Op {
	return s.op(Call{Kind: Put, Resource: resource, Token: token, Value: value}, r)
}

func (s *scene) done(resource string, token int64, value string) {
	s.marked(resource, token)
	s.changed(resource, token, value)
}

func (s *scene) marked(resource string, token int64) {
	s.seq++
	s.Audit.Marks = append(s.Audit.Marks, MarkRow{Seq: s.seq, Xact: fmt.Sprint(token), Resource: resource, Lease: lease, Token: token, Principal: "a"})
}

func (s *scene) changed(resource string, token int64, value string) {
	s.seq++
	s.Audit.Data = append(s.Audit.Data, DataRow{Seq: s.seq, Xact: fmt.Sprint(token), Resource: resource, Value: value, Token: token})
}

// put is one that was accepted and done.
func (s *scene) put(resource string, token int64, value string) *Op {
	op := s.write(resource, token, value, &Reply{Status: 200, Mark: token, Created: len(s.Audit.Data) == 0})
	s.done(resource, token, value)
	return op
}

func (s *scene) read(resource string, r *Reply) *Op {
	return s.op(Call{Client: "r", Principal: "r", Kind: Get, Resource: resource}, r)
}

// again gives an operation another attempt, now.
func (s *scene) again(op *Op, r *Reply) {
	op.Attempts = append(op.Attempts, Attempt{Called: s.tick(), Returned: s.tick(), Reply: r})
}

// judged runs both checkers: whether porcupine fails the lease, and the invariants that the ledger breaks.
func judged(t *testing.T, s *scene) (illegal bool, broken map[string]bool) {
	t.Helper()
	failed := s.CheckLeases(limit)
	for _, f := range failed {
		if f.TimedOut {
			t.Fatal("porcupine did not finish")
		}
	}
	violations, _ := s.CheckLedger()
	broken = map[string]bool{}
	for _, v := range violations {
		t.Log(v)
		broken[v.Invariant] = true
	}
	return len(failed) > 0, broken
}
