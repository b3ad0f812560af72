package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/load"
)

// measured is a result with two humps, and names that have to be escaped.
func measured(t *testing.T) *benchReport {
	t.Helper()
	r := load.Result{Elapsed: 2 * time.Second, Accepted: 950, Refused: 50, Failed: 3, FirstError: errors.New("write rows/t/1: overloaded (503): later")}
	for i := range 1000 {
		d := 2*time.Millisecond + time.Duration(i)*time.Microsecond
		if i%10 == 0 {
			d *= 8
		}
		r.Latency.Record(d)
	}
	b := &bench{
		cmd:    &benchCmd{URL: "http://127.0.0.1:1", Clients: 8},
		target: &benchTarget{text: `16 rows of table public."<script>&amp;"`},
	}
	used := []cpuUse{{"gateway", false, 200 * time.Millisecond}, {"clients", true, 50 * time.Millisecond}}
	report := newBenchReport(b, r, used, []string{"accepted, and should have been refused: rows/t/1 with token 1"})
	report.Version = "v0.0.0"
	return report
}

func TestBenchReport(t *testing.T) {
	r := measured(t)
	var table bytes.Buffer
	r.table(&table)
	results := t.TempDir()
	files := &benchFiles{filepath.Join(results, "r.json"), filepath.Join(results, "r.svg")}
	if err := files.write(r); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() ([]byte, error){
		"bench.txt":  func() ([]byte, error) { return table.Bytes(), nil },
		"bench.json": func() ([]byte, error) { return os.ReadFile(files.json) },
		"bench.svg":  func() ([]byte, error) { return os.ReadFile(files.svg) },
	} {
		got, err := read()
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: %s differs (rewrite it with -update):\n%s", err, golden, got)
		}
	}
	var again benchReport
	text, _ := os.ReadFile(files.json)
	if err := json.Unmarshal(text, &again); err != nil || again.Latency != r.Latency || len(again.Buckets) != len(r.Buckets) {
		t.Errorf("%v: %s", err, text)
	}
}

// A plot is well-formed, whatever was measured, and has no number that a viewer could not read.
func TestPlotIsWellFormed(t *testing.T) {
	nothing, one, long := &benchReport{}, measured(t), measured(t)
	one.Buckets, one.Latency.Max = []benchBucket{{0, 0.000001, 1}}, 0
	long.Target = strings.Repeat("ä", 200)
	for name, r := range map[string]*benchReport{"Full": measured(t), "Nothing": nothing, "OneOfNoTime": one, "LongName": long} {
		t.Run(name, func(t *testing.T) {
			svg := plotLatencies(r)
			if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || strings.Contains(svg, "<script") || strings.Contains(svg, strings.Repeat("ä", plotTarget)) {
				t.Errorf("%s", svg)
			}
			d := xml.NewDecoder(strings.NewReader(svg))
			for {
				_, err := d.Token()
				if errors.Is(err, io.EOF) {
					return
				}
				if err != nil {
					t.Fatalf("%v: %s", err, svg)
				}
			}
		})
	}
}

func TestProgress(t *testing.T) {
	var lines, terminal bytes.Buffer
	r := load.Result{Elapsed: 3 * time.Second, Accepted: 300, Refused: 3, Failed: 1}
	r.Latency.Record(time.Millisecond)
	for out, onTerminal := range map[*bytes.Buffer]bool{&lines: false, &terminal: true} {
		p := newProgress(out)
		if p.terminal || p.every != 5*time.Second {
			t.Errorf("a buffer is a terminal: %+v", p)
		}
		p.terminal = onTerminal
		p.tell(load.Result{})
		p.tell(r)
		p.end()
	}
	const text = "3s: 101/s, p50 1.00 ms, p99 1.00 ms, refused 3, failed 1"
	if want := "warming up\n" + text + "\n"; lines.String() != want {
		t.Errorf("%q, want %q", lines.String(), want)
	}
	if want := "\rwarming up\x1b[K\r" + text + "\x1b[K\r\x1b[K"; terminal.String() != want {
		t.Errorf("%q, want %q", terminal.String(), want)
	}
}

// A private gateway keeps every body until it is removed.
func TestBenchBoundsBodies(t *testing.T) {
	for _, c := range []struct {
		cmd     benchCmd
		objects bool
		want    int64
	}{
		{benchCmd{Size: benchMaxSize}, true, benchMaxBodies / benchMaxSize},
		{benchCmd{Size: benchMaxSize, Requests: 100}, true, benchMaxBodies / benchMaxSize},
		{benchCmd{Size: benchMaxSize, Requests: 3}, true, 3},
		{benchCmd{Size: benchMaxSize, URL: "http://127.0.0.1:1"}, true, 0},
		{benchCmd{Size: benchMaxSize}, false, 0},
	} {
		if got := (&bench{cmd: &c.cmd, target: &benchTarget{objects: c.objects}}).maxRequests(); got != c.want {
			t.Errorf("%+v: %d requests, want %d", c, got, c.want)
		}
	}
}

func TestInMS(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0.00 ms", 1234 * time.Microsecond: "1.23 ms", 23456 * time.Microsecond: "23.5 ms", 2 * time.Second: "2000 ms"} {
		if got := inMS(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}
