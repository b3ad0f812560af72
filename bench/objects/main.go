// Program objects measures uploads and downloads through a gateway beside the same ones with the SDK directly at the same S3, and prints
// the ratios, what the gateway adds to a small one, and how much memory it takes. It starts servers of its own on loopback and removes
// what they stored.
//
//	go run ./objects -gateway ../bin/fencegate -versitygw ../.cache/bin/versitygw [-quick] [-rounds n] [-only regexp]
//
// All candidates take turns, in another order in each round. What is printed are medians over the rounds, and medians of the ratios
// within rounds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Whoever reads only the first lines (head) must not keep the servers from being stopped.
	signal.Ignore(syscall.SIGPIPE)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "objects:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	gateway, versitygw string
	rounds             int
	seed               uint64
	quick              bool
	only               *regexp.Regexp
}

func parse(args []string, help io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("objects", flag.ContinueOnError)
	flags.SetOutput(help)
	flags.StringVar(&o.gateway, "gateway", "../bin/fencegate", "the program fencegate")
	flags.StringVar(&o.versitygw, "versitygw", "../.cache/bin/versitygw", "the program versitygw")
	flags.IntVar(&o.rounds, "rounds", 5, "how many rounds to run")
	flags.BoolVar(&o.quick, "quick", false, "two rounds, nothing above 64 MiB")
	only := flags.String("only", "", "sizes that match this regular `expression`, and no others")
	flags.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of the order in the rounds")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.rounds < 1 || flags.NArg() > 0 {
		return o, fmt.Errorf("what is not understood: -rounds %d, arguments %q", o.rounds, flags.Args())
	}
	if o.quick {
		o.rounds = min(o.rounds, 2)
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, err
	}
	// The server is started in a folder of its own.
	if o.versitygw, err = filepath.Abs(o.versitygw); err != nil {
		return o, err
	}
	o.gateway, err = filepath.Abs(o.gateway)
	return o, err
}

// size is a length of bodies, and how often one is sent in a turn.
type size struct {
	name  string
	bytes int64
	times int
}

func (o options) sizes() (list []size) {
	for _, s := range []size{{"4 KiB", 4 << 10, 200}, {"1 MiB", 1 << 20, 40}, {"64 MiB", 64 << 20, 3}, {"1 GiB", 1 << 30, 1}} {
		if o.only.MatchString(s.name) && (!o.quick || s.bytes <= 64<<20) {
			list = append(list, s)
		}
	}
	return list
}

// run measures and prints.
func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	d, err := startDeployment(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	r := results{times: map[string][]time.Duration{}, sizes: o.sizes()}
	for _, s := range r.sizes { // there is something to read, and nobody's first request is measured
		for _, t := range d.turns(s) {
			if err := t.do(ctx, s); err != nil {
				return fmt.Errorf("%s, %s: %w", t.name, s.name, err)
			}
		}
	}
	random := rand.New(rand.NewPCG(o.seed, 1))
	for round := range o.rounds {
		for _, s := range r.sizes {
			turns := d.turns(s)
			random.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
			for _, t := range turns {
				took, err := t.measure(ctx, s)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", t.name, s.name, err)
				}
				r.add(t.name, s, took)
			}
			fmt.Fprintf(progress, "round %d of %d: %s\n", round+1, o.rounds, s.name)
		}
	}
	fmt.Fprintf(out, "%s\n%d rounds, seed %d\n\n", d.about(), o.rounds, o.seed)
	r.print(out)
	return d.printMemory(ctx, out, o)
}
