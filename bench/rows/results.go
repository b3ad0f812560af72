package main

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/fencegate/fencegate/bench/stats"
)

// id names what was measured.
type id struct {
	name          string
	clients, pool int
}

// results are the figures of each candidate, round by round. All of them have all rounds, but those that failed.
type results struct {
	series map[id][]figures
	order  []id
	failed map[string]error
}

func newResults() *results {
	return &results{series: map[id][]figures{}, failed: map[string]error{}}
}

func (r *results) add(t turn, f figures) {
	key := id{t.name, t.clients, t.pool}
	if r.series[key] == nil {
		r.order = append(r.order, key)
	}
	r.series[key] = append(r.series[key], f)
}

// The kinds of figures.
func throughput(f figures) float64  { return f.throughput }
func p50(f figures) float64         { return f.p50 }
func p99(f figures) float64         { return f.p99 }
func cpu(f figures) float64         { return f.cpu }
func withCallers(f figures) float64 { return f.cpu + f.generator }

func (r *results) of(key id, kind func(figures) float64) (list []float64) {
	for _, f := range r.series[key] {
		list = append(list, kind(f))
	}
	return list
}

// median is NaN where nothing was measured.
func (r *results) median(key id, kind func(figures) float64) float64 {
	return stats.Median(r.of(key, kind))
}

// ratio compares within rounds. It is NaN where one of them was not measured.
func (r *results) ratio(a, b id, kind func(figures) float64) float64 {
	return stats.Ratio(r.of(a, kind), r.of(b, kind))
}

// best is the pool with which a case has the highest throughput.
func (r *results) best(name string, clients int) (best id) {
	most := math.Inf(-1)
	for _, key := range r.order {
		if key.name == name && key.clients == clients && r.failed[name] == nil {
			if got := r.median(key, throughput); got > most {
				best, most = key, got
			}
		}
	}
	return best
}

// cases are the names of what was measured, without the series of growth, in the order in which they are explained.
func (r *results) cases() []string {
	known := []string{caseDirect, caseDirectFenced, caseUnfenced, caseGateway, caseLibrary}
	for _, key := range r.order {
		if strings.HasPrefix(key.name, casePeer) {
			known = appendNew(known, key.name)
		}
	}
	var list []string
	for _, name := range known {
		for _, n := range clients() {
			if r.best(name, n) != (id{}) {
				list = appendNew(list, name)
			}
		}
	}
	return list
}

func appendNew(list []string, name string) []string {
	for _, have := range list {
		if have == name {
			return list
		}
	}
	return append(list, name)
}

// row is a case with a number of clients, as results.json has it: throughput in writes a second, medians over the rounds.
type row struct {
	Case       string  `json:"case"`
	Clients    int     `json:"clients"`
	Throughput float64 `json:"throughput"`
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	// CPU is that of each write in all processes but the load generator; null where it cannot be seen.
	CPU          *float64 `json:"cpu_us"`
	GeneratorCPU *float64 `json:"generator_cpu_us"`
	// Slowest and fastest are the throughputs of single rounds.
	Slowest float64 `json:"throughput_min"`
	Fastest float64 `json:"throughput_max"`
	Pool    int     `json:"pool,omitempty"`
	Rounds  int     `json:"rounds"`
}

func (r *results) row(key id) row {
	all := r.of(key, throughput)
	return row{
		Case: key.name, Clients: key.clients, Pool: key.pool, Rounds: len(all),
		Throughput: rounded(stats.Median(all)), Slowest: rounded(stats.Percentile(all, 0)), Fastest: rounded(stats.Percentile(all, 1)),
		P50: rounded(r.median(key, p50)), P99: rounded(r.median(key, p99)),
		CPU: seen(r.median(key, cpu)), GeneratorCPU: seen(r.median(key, func(f figures) float64 { return f.generator })),
	}
}

// rows are those of the cases, then those of the series of growth.
func (r *results) rows() []row {
	list := []row{}
	for _, n := range clients() {
		for _, name := range r.cases() {
			if key := r.best(name, n); key != (id{}) {
				list = append(list, r.row(key))
			}
		}
	}
	for _, key := range r.order {
		if strings.HasPrefix(key.name, caseGrowth) {
			list = append(list, r.row(key))
		}
	}
	return list
}

// rounded has three decimals: no clock is better.
func rounded(f float64) float64 { return math.Round(f*1000) / 1000 }

func seen(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	f = rounded(f)
	return &f
}

// json is results.json.
func (r *results) json() ([]byte, error) {
	text, err := json.MarshalIndent(map[string]any{"rows": r.rows()}, "", " ")
	return append(text, '\n'), err
}
