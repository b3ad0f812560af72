package main

import (
	"fmt"
	"math"

	"github.com/fencegate/fencegate/bench/stats"
)

// target is what a figure is to reach: at least, and what is aimed at.
type target struct {
	what       string
	got        float64
	bound, aim float64
	most       bool // they are upper bounds
	unit       string
}

// verdict is missed, reached (at least), or aim reached.
func (t target) verdict() string {
	within := func(bound float64) bool { return t.got >= bound && !t.most || t.got <= bound && t.most }
	switch {
	case math.IsNaN(t.got):
		return "not measured"
	case within(t.aim):
		return "aim reached"
	case within(t.bound):
		return "reached"
	}
	return "missed"
}

func (t target) cells() []string {
	sign := "≥"
	if t.most {
		sign = "≤"
	}
	return []string{t.what, number(t.got) + t.unit, fmt.Sprintf("%s %g%s", sign, t.bound, t.unit), fmt.Sprintf("%s %g%s", sign, t.aim, t.unit), t.verdict()}
}

// targets are those of writes with 64 clients, and some of one client, of refusals and of memory.
func (b *bench) targets() []target {
	r := b.results
	at := func(name string) id { return r.best(name, manyClients) }
	more := func(a, c string, bound, aim float64) target {
		return target{what: fmt.Sprintf("throughput, %s / %s, %d clients", a, c, manyClients), got: r.ratio(at(a), at(c), throughput), bound: bound, aim: aim}
	}
	less := func(what string, got, bound, aim float64, unit string) target {
		return target{what: what, got: got, bound: bound, aim: aim, most: true, unit: unit}
	}
	ratio := func(a, c string, kind func(figures) float64) float64 { return r.ratio(at(a), at(c), kind) }
	peak := float64(b.peak) / (1 << 20)
	if b.peak == 0 {
		peak = math.NaN()
	}
	return []target{
		more(caseLibrary, caseDirect, 1.6, 2.2),
		less("CPU per write without the generator's, library / direct, 64 clients", ratio(caseLibrary, caseDirect, cpu), 0.45, 0.35, ""),
		less("CPU per write with the generator's, library / direct, 64 clients", ratio(caseLibrary, caseDirect, withCallers), 0.45, 0.35, ""),
		more(caseGateway, caseDirect, 1.2, 1.5),
		more(caseGateway, caseUnfenced, 1.7, 2.2),
		more(caseGateway, caseDirectFenced, 1.4, 1.8),
		less("p99, gateway / direct, 64 clients", ratio(caseGateway, caseDirect, p99), 1.0, 0.6, ""),
		less("p50 that the gateway adds to direct, 1 client", r.added(caseGateway, caseDirect, fewClients), 0.5, 0.3, " ms"),
		less("CPU, a refused write / an accepted one, 64 clients", r.refusedCost(), 0.7, 0.5, ""),
		less("memory of the gateway after 256 clients", peak, 96, 64, " MiB"),
	}
}

// added is the median over the rounds of how much longer the median of one takes than another's, in ms.
func (r *results) added(a, b string, clients int) float64 {
	x, y := r.of(r.best(a, clients), p50), r.of(r.best(b, clients), p50)
	var list []float64
	for i := range min(len(x), len(y)) {
		list = append(list, x[i]-y[i])
	}
	return stats.Median(list)
}

// refusedCost is the CPU of a refused write by that of an accepted one. Where a share s is refused, a write costs
// (1-s)·accepted + s·refused; what an accepted one costs is known from where none is refused.
func (r *results) refusedCost() float64 {
	shares := refusals()
	s := shares[len(shares)-1]
	none, most := r.of(refusedID(0), cpu), r.of(refusedID(s), cpu)
	var list []float64
	for i := range min(len(none), len(most)) {
		list = append(list, (most[i]-(1-s)*none[i])/s/none[i])
	}
	return stats.Median(list)
}

func refusedID(share float64) id { return id{refusedName(share), manyClients, poolSize} }

// flatWithin is how much more a write may cost where something has grown.
const flatWithin = 1.2

// costs are what a write costs at each point of a series, by the first: CPU within rounds.
func (r *results) costs(s series) (list []float64) {
	for _, c := range s.points {
		list = append(list, r.ratio(c.id(), s.points[0].id(), cpu))
	}
	return list
}

// flat says whether a series costs the same all along.
func flat(costs []float64) string {
	verdict := "flat"
	for _, c := range costs {
		if math.IsNaN(c) {
			return "not measured"
		}
		if c > flatWithin {
			verdict = fmt.Sprintf("not flat: more than %g of the first", flatWithin)
		}
	}
	return verdict
}

func number(n float64) string {
	switch {
	case math.IsNaN(n):
		return "-"
	case math.Abs(n) >= 100:
		return fmt.Sprintf("%.0f", n)
	case math.Abs(n) >= 10:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.2f", n)
}
