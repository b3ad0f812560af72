package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

//go:embed about.md
var aboutText string

// report is what a run has found, as results.md and results.json.
type report struct {
	machine string
	plan    plan
	r       *results
	targets []target
	growth  []series
	missing []string
}

// table writes rows of cells; the first one is the head.
func table(out *bytes.Buffer, rows [][]string) {
	for i, cells := range rows {
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Fprintf(out, "|%s\n", strings.Repeat("---|", len(cells)))
		}
	}
	out.WriteString("\n")
}

// markdown writes results.md.
func (p *report) markdown(out io.Writer) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "# What fencing costs a write of one row\n\n%s\n\n%s", p.machine, aboutText)
	if p.plan.quick {
		text.WriteString("\nThis was a quick run: short slices, few rounds, small tables. It is rough.\n")
	}
	for _, m := range p.missing {
		fmt.Fprintf(&text, "\nNot measured: %s\n", m)
	}
	text.WriteString("\n## Targets\n\n")
	rows := [][]string{{"", "measured", "at least", "aim", ""}}
	for _, t := range p.targets {
		rows = append(rows, t.cells())
	}
	table(&text, rows)
	p.writeCases(&text)
	p.writeRatios(&text)
	p.writeGrowth(&text)
	_, err := text.WriteTo(out)
	return err
}

func (p *report) writeCases(text *bytes.Buffer) {
	text.WriteString("\n## Cases\n")
	for _, n := range clients() {
		rows := [][]string{{"case", "writes/s", "slowest to fastest round", "p50 ms", "p99 ms", "CPU µs", "with the generator's", "pool"}}
		for _, name := range p.r.cases() {
			key := p.r.best(name, n)
			if key == (id{}) {
				continue
			}
			row := p.r.row(key)
			rows = append(rows, []string{
				name, number(row.Throughput), number(row.Slowest) + " to " + number(row.Fastest), number(row.P50), number(row.P99),
				number(p.r.median(key, cpu)), number(p.r.median(key, withCallers)), fmt.Sprint(row.Pool),
			})
		}
		if len(rows) > 1 {
			fmt.Fprintf(text, "\n%d at once:\n\n", n)
			table(text, rows)
		}
	}
}

// writeRatios compares what fences with what does not, within rounds.
func (p *report) writeRatios(text *bytes.Buffer) {
	text.WriteString("\n## Ratios\n\nThroughput, then p99 and CPU (with the generator's), of the first by that of the second; medians of the ratios within rounds.\n\n")
	head := []string{""}
	for _, n := range clients() {
		head = append(head, fmt.Sprintf("%d at once", n))
	}
	rows := [][]string{head}
	for _, a := range []string{caseGateway, caseLibrary} {
		for _, b := range p.r.cases() {
			if b == a || a == caseLibrary && b != caseDirect && b != caseDirectFenced {
				continue
			}
			cells := []string{a + " / " + b}
			for _, n := range clients() {
				x, y := p.r.best(a, n), p.r.best(b, n)
				cells = append(cells, fmt.Sprintf("%s, %s, %s", number(p.r.ratio(x, y, throughput)), number(p.r.ratio(x, y, p99)), number(p.r.ratio(x, y, withCallers))))
			}
			rows = append(rows, cells)
		}
	}
	table(text, rows)
}

func (p *report) writeGrowth(text *bytes.Buffer) {
	if len(p.growth) == 0 {
		return
	}
	fmt.Fprintf(text, "\n## Growth\n\nCPU of a write in all processes but the generator, and by that of the first of its series. Flat is at most %g.\n", flatWithin)
	for _, s := range p.growth {
		costs := p.r.costs(s)
		verdict := flat(costs)
		if s.control {
			verdict = "what PostgreSQL itself takes"
		}
		fmt.Fprintf(text, "\n%s: %s.\n\n", s.what, verdict)
		rows := [][]string{{s.unit, "CPU µs", "of the first", "writes/s", "p99 ms"}}
		for i, c := range s.points {
			rows = append(rows, []string{
				s.labels[i], number(p.r.median(c.id(), cpu)), number(costs[i]), number(p.r.median(c.id(), throughput)), number(p.r.median(c.id(), p99)),
			})
		}
		table(text, rows)
	}
}

// write leaves both files in a folder.
func (p *report) write(dir string) error {
	var text bytes.Buffer
	if err := p.markdown(&text); err != nil {
		return err
	}
	data, err := p.r.json()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "results.json"), data, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "results.md"), text.Bytes(), 0o644)
}
