package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"
)

const legend = `
hand-off     from the call of release until the next one has the lease
wait         from asking until having; one that starves waits until the end of its slice
round trips  requests for each hand-off: commands that clients send to Redis, by INFO commandstats (those that scripts run are not
             among them); unary calls to etcd, without its watches. Those to PostgreSQL are not counted
most/least   how often the luckiest of the waiters got the lease, by how often the unluckiest did
fencegate    lease.Manager on Redis with a ledger in memory: what a certificate adds is missing. There is no such mode but for
             measurements; "locker alone" is redislease below the Manager
certified    the same with stores/pgstore, as a gateway has it
`

// print writes the tables of the parts that were measured, and beside them what is to be reached.
func (r *results) print(out io.Writer, p plan) error {
	if p.contended > 0 {
		err := tables(out, fmt.Sprintf("CONTENDED: %d waiters, each holds the lease for %v", waiters, hold), r.printContended, r.contendedTargets())
		if err != nil {
			return err
		}
	}
	if p.alone > 0 {
		if err := tables(out, "UNCONTENDED: leases acquired and released in a second", r.printAlone, r.aloneTargets()); err != nil {
			return err
		}
	}
	for _, f := range r.failures {
		if _, err := fmt.Fprintf(out, "\nFAILED in one slice: %s: %v\n", f.candidate, f.err); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(out, legend)
	return err
}

func tables(out io.Writer, title string, table func(io.Writer), wanted []target) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%s\n\n", title)
	table(w)
	fmt.Fprint(w, "\n")
	printTargets(w, wanted)
	return w.Flush()
}

func (r *results) printContended(w io.Writer) {
	fmt.Fprintf(w, "hand-off p50\tp99\twait p99\tround trips\tmost/least\tp50/%s\tp50/%s\t  \n", rueidis1, bsm)
	for _, name := range []string{bsm, redsyncs, rueidis1, rueidis4, rueidis32, etcd, gateway1, gateways4, gateways32, certified1, certified4} {
		if r.series[name][handoffP50] == nil {
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n",
			span(r.median(name, handoffP50)), span(r.median(name, handoffP99)), span(r.median(name, waitP99)),
			number(r.median(name, trips)), number(r.median(name, wins)),
			number(r.ratio(name, rueidis1, handoffP50)), number(r.ratio(name, bsm, handoffP50)), name)
	}
	if at := r.median(pgCommit, latency); !math.IsNaN(at) {
		fmt.Fprintf(w, "%s\t\t\t\t\t\t\t  %s\n", span(at), pgCommit)
	}
}

func (r *results) printAlone(w io.Writer) {
	for _, n := range workers() {
		fmt.Fprintf(w, "%d at once\t", n)
	}
	for _, peer := range []string{redsyncs, etcd} {
		for _, n := range workers() {
			fmt.Fprintf(w, "%d/%s\t", n, peer)
		}
	}
	fmt.Fprintln(w, "  ")
	for _, name := range []string{bsm, redsyncs, rueidis1, etcd, locker, gateway1, certified1} {
		if r.series[name][rate(1)] == nil {
			continue
		}
		for _, n := range workers() {
			fmt.Fprintf(w, "%.0f\t", r.median(name, rate(n)))
		}
		for _, peer := range []string{redsyncs, etcd} {
			for _, n := range workers() {
				fmt.Fprintf(w, "%s\t", number(r.ratio(name, peer, rate(n))))
			}
		}
		fmt.Fprintf(w, "  %s\n", name)
	}
}

// span renders nanoseconds with three digits.
func span(ns float64) string {
	if math.IsNaN(ns) {
		return "-"
	}
	d := time.Duration(ns)
	switch {
	case d < time.Millisecond:
		return d.Round(100 * time.Nanosecond).String()
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < 100*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func number(n float64) string {
	switch {
	case math.IsNaN(n):
		return "-"
	case math.IsInf(n, 1):
		return "starved"
	case n < 0.1:
		return fmt.Sprintf("%.3f", n)
	}
	return fmt.Sprintf("%.2f", n)
}
