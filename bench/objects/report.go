package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/fencegate/fencegate/bench/stats"
)

func median(figures []float64) float64 { return stats.Median(figures) }

// results are the median times of each candidate and size, round by round.
type results struct {
	times map[string][]time.Duration
	sizes []size
}

func (r *results) add(name string, s size, took time.Duration) {
	r.times[name+s.name] = append(r.times[name+s.name], took)
}

func (r *results) of(name string, s size) []float64 {
	var list []float64
	for _, t := range r.times[name+s.name] {
		list = append(list, float64(t))
	}
	return list
}

// targets are the ratios to direct that are to be reached, by candidate and size.
func targets(name string, s size) string {
	large := s.bytes >= 64<<20
	switch {
	case name == putKnown && s.bytes == 4<<10:
		return "0.60"
	case name == putKnown && large:
		return "0.85"
	case name == putUnknown && large, name == getStreamed && large:
		return "0.55"
	case name == getRedirect && large:
		return "0.90"
	}
	return ""
}

func (r *results) print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SIZE\tWHAT\tTIME\tMB/S\tOF DIRECT\tTO REACH\tADDED")
	for _, s := range r.sizes {
		for _, group := range [][]string{{putDirect, putKnown, putUnknown}, {getDirect, getStreamed, getRedirect}} {
			direct := r.of(group[0], s)
			for i, name := range group {
				took := r.of(name, s)
				ratio, added := "", ""
				if i > 0 {
					ratio = fmt.Sprintf("%.2f", stats.Ratio(direct, took)) // speed is the reciprocal of time
					added = (time.Duration(stats.Median(took)) - time.Duration(stats.Median(direct))).Round(10 * time.Microsecond).String()
				}
				mid := stats.Median(took)
				fmt.Fprintf(table, "%s\t%s\t%v\t%.0f\t%s\t%s\t%s\n", s.name, name, time.Duration(mid).Round(10*time.Microsecond), float64(s.bytes)/mid*1e3, ratio, targets(name, s), added)
			}
		}
	}
	table.Flush()
}

// printMemory measures the gateway's peak memory in bodies that are larger than any buffer, each in a gateway of its own.
func (d *deployment) printMemory(ctx context.Context, out io.Writer, o options) error {
	large := size{"1 GiB", 1 << 30, 1}
	if o.quick {
		large = size{"64 MiB", 64 << 20, 1}
	}
	fmt.Fprintf(out, "\nPeak memory of the gateway, without the %s of an idle one:\n", mebibytes(d.idle))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range []struct {
		what, reach string
		at          int
		do          func(context.Context, size) error
	}{
		{"PUT known length", "32 MiB", 1, d.putKnown}, {"GET streamed", "32 MiB", 1, d.getStreamed}, {"PUT unknown length", "64 MiB", 1, d.putUnknown},
		{"16 at once, unknown length", "128 + 64 MiB", 16, d.putUnknown},
	} {
		s := large
		if c.at > 1 {
			s.bytes /= 8
		}
		peak, err := d.peak(ctx, c.at, func(ctx context.Context) error { return c.do(ctx, s) })
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		fmt.Fprintf(table, "%s\t%d bytes each\t%s\tto reach: %s\n", c.what, s.bytes, mebibytes(peak-d.idle), c.reach)
	}
	return table.Flush()
}

func mebibytes(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
