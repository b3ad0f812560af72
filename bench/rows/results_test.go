package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func ran(r *results, name string, clients, pool int, all ...figures) {
	for _, f := range all {
		r.add(turn{&candidate{name: name, pool: pool}, clients}, f)
	}
}

// sample has a direct writer with two pools, a gateway of twice its throughput, and refusals at 0.4 of the cost.
func sample() *bench {
	r := newResults()
	ran(r, caseDirect, 64, poolSize, figures{100, 4, 10, 80, 40}, figures{200, 4, 10, 80, 40}, figures{110, 4, 10, 80, 40})
	ran(r, caseDirect, 64, largePool, figures{120, 5, 20, 90, 40}, figures{120, 5, 20, 90, 40}, figures{120, 5, 20, 90, 40})
	ran(r, caseGateway, 64, poolSize, figures{240, 2, 10, 45, 20}, figures{240, 2, 8, 45, 20}, figures{260, 2, 30, 45, 20})
	ran(r, caseDirect, 1, poolSize, figures{p50: 1}, figures{p50: 3}, figures{p50: 2})
	ran(r, caseGateway, 1, poolSize, figures{p50: 1.4}, figures{p50: 3.2}, figures{p50: 2.9})
	ran(r, casePeer+"slow", 64, poolSize, figures{10, 90, 100, 900, 20})
	ran(r, casePeer+"broken", 64, poolSize, figures{10, 90, 100, 900, 20})
	r.failed[casePeer+"broken"] = errors.New("broken")
	for _, share := range refusals() {
		ran(r, refusedName(share), manyClients, poolSize, figures{throughput: 1, cpu: 100*(1-share) + 40*share}, figures{throughput: 1, cpu: 50*(1-share) + 20*share})
	}
	b := &bench{results: r, peak: 70 << 20}
	var refused series
	for _, share := range refusals() {
		refused.add(b.point(refusedName(share), manyClients, nil, 1, share), fmt.Sprint(share))
	}
	b.growth = []series{refused}
	return b
}

func TestBestPoolCounts(t *testing.T) {
	r := sample().results
	if got := r.best(caseDirect, 64); got != (id{caseDirect, 64, largePool}) {
		t.Errorf("the best of direct is %+v", got)
	}
	if got := r.best(caseLibrary, 64); got != (id{}) {
		t.Errorf("the best of what was not measured is %+v", got)
	}
}

func TestJSONForm(t *testing.T) {
	text, err := sample().results.json()
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string][]map[string]any
	if err := json.Unmarshal(text, &whole); err != nil || len(whole) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	var names []string
	for _, row := range whole["rows"] {
		names = append(names, row["case"].(string))
		for _, field := range []string{"clients", "throughput", "p50_ms", "p99_ms", "cpu_us"} {
			if _, ok := row[field].(float64); !ok {
				t.Errorf("%s has %s %v", row["case"], field, row[field])
			}
		}
	}
	want := []string{caseDirect, caseGateway, caseDirect, caseGateway, "peer-slow", "growth-refused-0", "growth-refused-0.1", "growth-refused-0.9"}
	if !slices.Equal(names, want) {
		t.Errorf("cases %v, want %v", names, want)
	}
	row := whole["rows"][2]
	if row["throughput"] != 120.0 || row["pool"] != 64.0 || row["generator_cpu_us"] != 40.0 || row["rounds"] != 3.0 {
		t.Errorf("direct at 64: %v", row)
	}
	row = whole["rows"][3]
	if row["throughput"] != 240.0 || row["throughput_min"] != 240.0 || row["throughput_max"] != 260.0 || row["p99_ms"] != 10.0 {
		t.Errorf("gateway at 64: %v", row)
	}
}

// Where CPU cannot be seen there is no number, and the file still is one.
func TestJSONWithoutCPU(t *testing.T) {
	r := newResults()
	ran(r, caseDirect, 1, poolSize, figures{100, 4, 10, math.NaN(), math.NaN()})
	text, err := r.json()
	if err != nil || !strings.Contains(string(text), `"cpu_us": null`) || !strings.Contains(string(text), `"generator_cpu_us": null`) {
		t.Errorf("%s: %v", text, err)
	}
	if empty, err := newResults().json(); err != nil || string(empty) != "{\n \"rows\": []\n}\n" {
		t.Errorf("nothing is %q, %v", empty, err)
	}
}

func TestReport(t *testing.T) {
	b := sample()
	p := &report{machine: "2 CPUs", plan: quick(), r: b.results, targets: b.targets(), growth: b.growth, missing: []string{"peer-broken: broken"}}
	var text strings.Builder
	if err := p.markdown(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| throughput, gateway / direct, 64 clients | 2.00 | ≥ 1.2 | ≥ 1.5 | aim reached |",
		"| throughput, gateway / http-unfenced, 64 clients | - | ≥ 1.7 | ≥ 2.2 | not measured |",
		"| p99, gateway / direct, 64 clients | 0.50 | ≤ 1 | ≤ 0.6 | aim reached |",
		"| p50 that the gateway adds to direct, 1 client | 0.40 ms | ≤ 0.5 ms | ≤ 0.3 ms | reached |",
		"| CPU, a refused write / an accepted one, 64 clients | 0.40 | ≤ 0.7 | ≤ 0.5 | aim reached |",
		"| memory of the gateway after 256 clients | 70.0 MiB | ≤ 96 MiB | ≤ 64 MiB | reached |",
		"| direct | 120 | 120 to 120 | 5.00 | 20.0 | 90.0 | 130 | 64 |",
		"| gateway / direct | -, -, - | -, -, - | 2.00, 0.50, 0.50 | -, -, - |",
		"| 0.9 | 34.5 | 0.46 | 1.00 | 0.00 |", ": flat.", "Not measured: peer-broken: broken", "This was a quick run",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("nothing says %q", want)
		}
	}
	if t.Failed() {
		t.Log(text.String())
	}
}

func TestVerdicts(t *testing.T) {
	for _, tt := range []struct {
		got  float64
		most bool
		want string
	}{
		{1.5, false, "aim reached"}, {1.2, false, "reached"}, {1.19, false, "missed"}, {math.NaN(), false, "not measured"},
		{1.2, true, "reached"}, {1.21, true, "missed"}, {0.9, true, "aim reached"},
	} {
		target := target{got: tt.got, bound: 1.2, aim: 1.5, most: tt.most}
		if tt.most {
			target.aim = 1
		}
		if got := target.verdict(); got != tt.want {
			t.Errorf("%v, most %t: %s, want %s", tt.got, tt.most, got, tt.want)
		}
	}
	for want, costs := range map[string][]float64{"flat": {1, 1.2, 0.3}, "not measured": {1, math.NaN()}} {
		if got := flat(costs); got != want {
			t.Errorf("%v: %s", costs, got)
		}
	}
	if got := flat([]float64{1, 1.21, 1}); !strings.HasPrefix(got, "not flat") {
		t.Errorf("1.21 is %s", got)
	}
}

// The slices of a run, and those of the round that does not count, leave a third of the time to start and to fill the tables.
func TestRunsAreShort(t *testing.T) {
	for _, p := range []plan{quick(), full()} {
		b := &bench{options: options{plan: p, only: regexp.MustCompile("")}}
		cases := b.ownCases(nil)
		for _, p := range peers() {
			cases = append(cases, b.peerCase(p, nil))
		}
		b.walletsTable()
		b.growth = b.growthSeries(b.growthTables())
		points := 0
		for _, s := range b.growth {
			points += len(s.points)
		}
		took := func(groups [][]turn, candidates int) time.Duration {
			slices, first := 0, 0
			for _, group := range groups {
				slices += len(group)
				for _, turn := range group {
					if takesPart(turn, -1) {
						first++
					}
				}
			}
			if first != candidates {
				t.Errorf("%d of %d candidates have a first slice that does not count", first, candidates)
			}
			return time.Duration(slices*p.rounds+first) * (p.warmUp + p.slice)
		}
		casesTook, growthTook := took(byClients(cases), len(cases)), took(b.bySeries(), points)
		if casesTook > p.casesEnd*2/3 || growthTook > (p.growthEnd-p.casesEnd)*2/3 {
			t.Errorf("the cases take %v of %v, growth %v until %v", casesTook, p.casesEnd, growthTook, p.growthEnd)
		}
		if most := map[bool]time.Duration{true: 150 * time.Second, false: 24 * time.Minute}[p.quick]; p.growthEnd > most || p.limit() < p.growthEnd+time.Minute {
			t.Errorf("the last round may end after %v, the limit is %v", p.growthEnd, p.limit())
		}
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-quick", "-rounds", "4", "-only", "^direct$", "-out", "x"}, io.Discard)
	if err != nil || !o.quick || o.rounds != 4 || o.slice != quick().slice || o.only.MatchString("direct-fenced") || o.out != "" {
		t.Errorf("got %+v, %v", o, err)
	}
	if o, err := parse([]string{"-out", "x"}, io.Discard); err != nil || !strings.HasSuffix(o.out, "/x") || o.rounds != full().rounds {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, args := range [][]string{{"-part", "both"}, {"-only", "("}, {"-rounds", "-1"}, {"-rounds", "51"}, {"quick"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}

func TestPeakMemory(t *testing.T) {
	if got, err := parsePeak("Name:\tx\nVmHWM:\t   12345 kB\nVmRSS:\t 1 kB\n"); err != nil || got != 12345<<10 {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := parsePeak("Name:\tx\n"); err == nil {
		t.Error("no peak is one")
	}
}

// Rounds for which there is no time are left out, and the report says so; the first one is not.
func TestRoundsEndInTime(t *testing.T) {
	b := &bench{options: options{plan: plan{rounds: 3}}, results: newResults(), progress: io.Discard, began: time.Now().Add(-time.Hour)}
	for end, want := range map[time.Duration]string{time.Minute: "cases: 2 of 3 rounds, for lack of time", 2 * time.Hour: ""} {
		b.missing = nil
		if err := b.takeTurns(t.Context(), "cases", nil, end); err != nil || strings.Join(b.missing, ";") != want {
			t.Errorf("until %v: %q, %v", end, b.missing, err)
		}
	}
}
