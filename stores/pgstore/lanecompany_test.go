package pgstore

import (
	"fmt"
	"testing"
)

// Writes that can be in no batch that is coming go alone, at once; others of their company wait for them.
func TestLaneKeepsCompaniesApart(t *testing.T) {
	s := &sender{gate: make(chan struct{})}
	l := newLane(t, s)
	l.apart = true
	lead := writing(t, l, t.Context(), to("a"))
	other, same := to("b"), to("c")
	other.company, same.company = "x", "x"
	for _, e := range []*entry{other, same} {
		if err := l.write(t.Context(), e); err != nil || !e.outcome.alone {
			t.Errorf("%v, alone %t", err, e.outcome.alone)
		}
	}
	behind := writing(t, l, t.Context(), to("b"))
	l.leave(other)
	l.leave(same)
	s.gate <- struct{}{}
	s.gate <- struct{}{}
	<-lead
	<-behind
	if got := fmt.Sprint(s.sent()); got != "[[a] [b]]" {
		t.Errorf("batches %s", got)
	}
}
