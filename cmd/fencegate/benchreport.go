package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/fencegate/fencegate/internal/load"
)

// benchReport is what was measured.
type benchReport struct {
	Version    string        `json:"version"` // of this program, not of the gateway
	Target     string        `json:"target"`
	URL        string        `json:"url,omitempty"`
	Clients    int           `json:"clients"`
	Seconds    float64       `json:"seconds"`
	EndedEarly bool          `json:"ended_early"`
	Accepted   int64         `json:"accepted"`
	Refused    int64         `json:"refused"`
	Failed     int64         `json:"failed"`
	Throughput float64       `json:"throughput"` // accepted and refused, a second
	Latency    benchLatency  `json:"latency_ms"`
	CPU        []benchCPU    `json:"cpu"`
	Buckets    []benchBucket `json:"buckets"`
	FirstError string        `json:"first_error,omitempty"`
	Surprises  []string      `json:"surprises,omitempty"`
}

// benchLatency is of accepted and refused writes, in milliseconds.
type benchLatency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// benchCPU is CPU time for each write that was answered.
type benchCPU struct {
	What    string  `json:"what"`
	Counted bool    `json:"counted"` // the clients' own is not
	Micros  float64 `json:"us_per_write"`
}

// benchBucket counts the latencies in a range, in milliseconds.
type benchBucket struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Count int64   `json:"count"`
}

func newBenchReport(b *bench, r load.Result, used []cpuUse, surprises []string) *benchReport {
	ms := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
	at := func(q float64) float64 { return ms(r.Latency.Quantile(q)) }
	report := &benchReport{
		Version: programVersion(), Target: b.target.text, URL: b.cmd.URL, Clients: b.cmd.Clients, Seconds: r.Elapsed.Seconds(), EndedEarly: r.Err != nil,
		Accepted: r.Accepted, Refused: r.Refused, Failed: r.Failed, Throughput: r.Throughput(),
		Latency:   benchLatency{ms(r.Latency.Mean()), at(0.5), at(0.9), at(0.99), at(0.999), ms(r.Latency.Max())},
		CPU:       []benchCPU{},
		Buckets:   []benchBucket{},
		Surprises: surprises,
	}
	if r.FirstError != nil && r.Failed > 0 {
		report.FirstError = sayable(r.FirstError)
	}
	if n := r.Accepted + r.Refused; n > 0 {
		for _, u := range used {
			report.CPU = append(report.CPU, benchCPU{u.what, !u.ours, float64(u.used.Nanoseconds()) / 1e3 / float64(n)})
		}
	}
	for _, bucket := range r.Latency.Buckets() {
		report.Buckets = append(report.Buckets, benchBucket{ms(bucket.From), ms(bucket.To), bucket.Count})
	}
	return report
}

// cpu is what a write costs, as far as it can be told.
func (r *benchReport) cpu() (us float64, known bool) {
	for _, c := range r.CPU {
		if c.Counted {
			us, known = us+c.Micros, true
		}
	}
	return us, known
}

// table shows it to people.
func (r *benchReport) table(out io.Writer) {
	fmt.Fprintf(out, "%s, %s, %.1f s", printable(r.Target), counted(r.Clients, "client"), r.Seconds)
	if r.EndedEarly {
		fmt.Fprint(out, ", ended early")
	}
	fmt.Fprint(out, "\n\n")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintf(t, "throughput\t%.0f/s\n", r.Throughput)
	fmt.Fprintf(t, "accepted\t%d\nrefused\t%d\nfailed\t%d\n", r.Accepted, r.Refused, r.Failed)
	for _, q := range []struct {
		name string
		ms   float64
	}{{"p50", r.Latency.P50}, {"p90", r.Latency.P90}, {"p99", r.Latency.P99}, {"p99.9", r.Latency.P999}, {"max", r.Latency.Max}} {
		fmt.Fprintf(t, "%s\t%s\n", q.name, inMS(time.Duration(q.ms*1e6)))
	}
	if us, known := r.cpu(); known {
		fmt.Fprintf(t, "CPU per write\t%.0f µs\n", us)
	}
	for _, c := range r.CPU {
		if c.Counted {
			fmt.Fprintf(t, "  %s\t%.0f µs\n", c.What, c.Micros)
		} else {
			fmt.Fprintf(t, "CPU of the %s\t%.0f µs\n", c.What, c.Micros)
		}
	}
}

// benchFiles are where the result is written, too. That they can be is seen before anything is measured.
type benchFiles struct{ json, svg string }

func (c *benchCmd) openFiles() (*benchFiles, error) {
	if c.JSON != "" && c.JSON == c.SVG {
		return nil, fmt.Errorf("--json and --svg name the same file")
	}
	for _, f := range [][2]string{{"--json", c.JSON}, {"--svg", c.SVG}} {
		if f[1] == "" {
			continue
		}
		if err := writable(f[1]); err != nil {
			return nil, fmt.Errorf("%s: %w", f[0], err)
		}
	}
	return &benchFiles{c.JSON, c.SVG}, nil
}

// writable tries a file, or its folder where there is none yet, and leaves both as they are.
func writable(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err == nil {
		return f.Close()
	}
	if !os.IsNotExist(err) {
		return err
	}
	if f, err = os.CreateTemp(filepath.Dir(name), ".fencegate-*"); err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

func (f *benchFiles) write(r *benchReport) error {
	if f.json != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(f.json, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	if f.svg != "" {
		return os.WriteFile(f.svg, []byte(plotLatencies(r)), 0o644)
	}
	return nil
}
