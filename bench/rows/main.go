// Program rows measures what fencing costs a write of one row: the same UPDATE directly through a pool, by hand-written fencing,
// through an HTTP service that does not fence, through fencegate, with fencegate as a library, and through other programs that
// serve rows over HTTP; and what a fenced write costs as rows, leases, gateways and refusals become more. It starts servers of
// its own on loopback and removes what they stored.
//
//	go run ./rows -gateway ../bin/fencegate [-peers folder] [-data folder] [-out folder]
//	          [-quick] [-rounds n] [-only regexp] [-part main|growth]
//
// All candidates take turns, in another order in each round. What is printed are medians over the rounds, and medians of the
// ratios within rounds. With -out a whole run leaves results.md and results.json in that folder.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == serviceArg {
		end(serviceArg, serveUnfenced(context.Background(), os.Stdin, os.Stdout))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Whoever reads only the first lines (head) must not keep the servers from being stopped.
	signal.Ignore(syscall.SIGPIPE)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	end("rows", err)
}

func end(name string, err error) {
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	plan
	gateway, peers, data, out string
	only                      *regexp.Regexp
	part                      string
}

func parse(args []string, help io.Writer) (options, error) {
	o := options{plan: full()}
	flags := flag.NewFlagSet("rows", flag.ContinueOnError)
	flags.SetOutput(help)
	short := flags.Bool("quick", false, "shorter slices, fewer rounds, smaller tables: under 3 minutes, and rough")
	rounds := flags.Int("rounds", 0, "how many rounds to run; 0 for 5, with -quick 2")
	only := flags.String("only", "", "candidates whose name matches this regular `expression`, and no others; writes no files")
	seed := flags.Uint64("seed", uint64(time.Now().UnixNano()), "of the order in the rounds and of the rows that are written")
	flags.StringVar(&o.part, "part", "", "main or growth, and not the other; writes no files")
	flags.StringVar(&o.gateway, "gateway", "../bin/fencegate", "the program fencegate")
	flags.StringVar(&o.peers, "peers", "", "the `folder` in which the peers are installed; without one there are none")
	flags.StringVar(&o.data, "data", "", "the `folder`, on a disk that keeps what is synced to it, below which the servers have theirs; by default that for temporary files")
	flags.StringVar(&o.out, "out", "", "the `folder` that gets results.md and results.json")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *short {
		o.plan = quick()
	}
	o.rounds = cmp.Or(*rounds, o.rounds)
	if o.rounds < 1 || o.rounds > 50 || flags.NArg() > 0 {
		return o, fmt.Errorf("what is not understood: -rounds %d (1 to 50), arguments %q", *rounds, flags.Args())
	}
	if o.part != "" && o.part != "main" && o.part != "growth" {
		return o, fmt.Errorf("-part %s is neither main nor growth", o.part)
	}
	if *only != "" || o.part != "" {
		o.out = ""
	}
	o.seed = *seed
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, err
	}
	// Programs are started in folders of their own.
	for _, path := range []*string{&o.gateway, &o.peers, &o.data, &o.out} {
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return o, err
			}
		}
	}
	return o, nil
}

// run measures, checks what was written, and prints.
func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.limit())
	defer cancel()
	s, err := startServers(ctx, o.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	b := &bench{options: o, servers: s, results: newResults(), progress: progress}
	if err := b.measure(ctx); err != nil {
		return err
	}
	report, err := b.report(ctx)
	if err != nil {
		return err
	}
	if err := report.markdown(out); err != nil || o.out == "" {
		return err
	}
	return report.write(o.out)
}
