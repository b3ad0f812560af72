package main

import (
	"fmt"
	"io"
	"math"

	"github.com/fencegate/fencegate/bench/stats"
)

// target is what a figure is to reach.
type target struct {
	what string
	got  float64
	most bool // else least
	want float64
}

func (t target) reached() bool {
	if t.most {
		return t.got <= t.want
	}
	return t.got >= t.want
}

func atMost(what string, got, want float64) target  { return target{what, got, true, want} }
func atLeast(what string, got, want float64) target { return target{what, got, false, want} }

func (r *results) contendedTargets() []target {
	all := []target{
		atMost("hand-off p50 across gateways / "+rueidis1, r.ratio(gateways32, rueidis1, handoffP50), 0.65),
		atMost("hand-off p50 across gateways / "+rueidis32, r.ratio(gateways32, rueidis32, handoffP50), 0.65),
		atMost("hand-off p50 across gateways / "+bsm, r.ratio(gateways32, bsm, handoffP50), 0.25),
		atMost("hand-off p50 in one gateway / "+rueidis1, r.ratio(gateway1, rueidis1, handoffP50), 0.05),
		atMost("round trips across gateways", r.median(gateways32, trips), 2.1),
		atMost("round trips in one gateway", r.median(gateway1, trips), 0.2),
	}
	for _, name := range []string{gateway1, gateways4, gateways32} {
		all = append(all, atMost("most/least wins, "+name, r.median(name, wins), 1.1))
	}
	for _, name := range []string{certified1, certified4} {
		ratio := stats.Ratio(r.series[name][handoffP50], r.series[pgCommit][latency])
		all = append(all, atMost("hand-off p50, "+name+" / "+pgCommit, ratio, 1.5))
	}
	return all
}

func (r *results) aloneTargets() []target {
	var all []target
	for _, n := range workers() {
		all = append(all, atLeast(fmt.Sprintf("locker alone, %d at once / %s", n, redsyncs), r.ratio(locker, redsyncs, rate(n)), 1.1))
	}
	for _, n := range []int{16, 64} {
		all = append(all, atLeast(fmt.Sprintf("%s, %d at once / %s", certified1, n, etcd), r.ratio(certified1, etcd, rate(n)), 1.5))
	}
	return all
}

func printTargets(w io.Writer, all []target) {
	for _, t := range all {
		verdict, bound := "short", "at least"
		if t.most {
			bound = "at most"
		}
		switch {
		case math.IsNaN(t.got):
			verdict = "not measured"
		case t.reached():
			verdict = "reached"
		}
		fmt.Fprintf(w, "%s\t%s %v\t%s\t  %s\n", number(t.got), bound, t.want, verdict, t.what)
	}
}
