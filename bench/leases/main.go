// Program leases measures fencegate's leases beside other libraries' and prints tables: how fast a lease goes from one holder to
// the next where many want it, how fairly, and how many requests that takes; and how many leases are taken and given back in a
// second where nobody shares one. It starts servers of its own on loopback and removes what they stored.
//
//	go run ./leases [-quick] [-rounds n] [-only regexp] [-part contended|alone] [-cpuprofile file]
//
// All candidates run in one process and take turns: in a round each has a slice of time, in another order in each round. What is
// printed are medians over the rounds, and medians of the ratios within rounds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/fencegate/fencegate/bench/stats"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Whoever reads only the first lines (head) must not keep the servers' folder from being removed.
	signal.Ignore(syscall.SIGPIPE)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "leases:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	plan
	only       *regexp.Regexp
	cpuProfile string
}

func parse(args []string, help io.Writer) (options, error) {
	o := options{plan: full()}
	flags := flag.NewFlagSet("leases", flag.ContinueOnError)
	flags.SetOutput(help)
	short := flags.Bool("quick", false, "shorter slices and fewer rounds: under 40 s, and rough")
	rounds := flags.Int("rounds", 0, "how many rounds to run; 0 for 5, with -quick 2")
	only := flags.String("only", "", "candidates whose name matches this regular `expression`, and no others")
	part := flags.String("part", "", "contended or alone, and not the other")
	seed := flags.Uint64("seed", uint64(time.Now().UnixNano()), "of the order in the rounds")
	flags.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile of the measurement to this `file`")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *short {
		o.plan = quick()
	}
	if *rounds > 0 {
		o.rounds = *rounds
	}
	if *rounds < 0 || flags.NArg() > 0 {
		return o, fmt.Errorf("what is not understood: -rounds %d, arguments %q", *rounds, flags.Args())
	}
	o.seed = *seed
	switch *part {
	case "":
	case "contended":
		o.alone = 0
	case "alone":
		o.contended = 0
	default:
		return o, fmt.Errorf("-part %s is neither contended nor alone", *part)
	}
	var err error
	o.only, err = regexp.Compile(*only)
	return o, err
}

// run measures and prints. It fails in the end if a candidate of ours did.
func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	s, err := startServers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var done closers
	defer func() { err = errors.Join(err, done.close()) }()
	admin := openRedis(s.redis.Address(), &done)
	about, err := s.describe(ctx, admin)
	if err != nil {
		return err
	}
	all, err := slices(ctx, s, admin, o, &done)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.limit(all))
	defer cancel()
	stopProfile, err := profile(o.cpuProfile)
	if err != nil {
		return err
	}
	before := load()
	r := measure(ctx, all, o.plan, progress)
	stopProfile()
	fmt.Fprintf(out, "%s, %s\n%d rounds, seed %d\n", about, machine(before, load()), o.rounds, o.seed)
	if err := r.print(out, o.plan); err != nil {
		return err
	}
	return errors.Join(ctx.Err(), r.failure())
}

// profile writes a CPU profile to a file until it is stopped; to none when the name is empty.
func profile(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		file.Close()
	}, nil
}

// slices are what there is to measure in each round.
func slices(ctx context.Context, s *servers, admin redisInfo, o options, done *closers) ([]slice, error) {
	candidates, err := field(s, admin, done)
	if err != nil {
		return nil, err
	}
	one, err := newCommit(ctx, s.postgres.URL(""), done)
	if err != nil {
		return nil, err
	}
	var all []slice
	add := func(name string, length time.Duration, run runSlice) {
		if length > 0 && o.only.MatchString(name) {
			all = append(all, slice{name, length, run})
		}
	}
	for _, c := range candidates {
		if c.contends {
			add(c.name, o.contended, func(ctx context.Context, length time.Duration) (figures, error) { return contend(ctx, c, length) })
		}
		for _, n := range workers() {
			if c.alone {
				add(c.name, o.alone, func(ctx context.Context, length time.Duration) (figures, error) { return goAlone(ctx, c, n, length) })
			}
		}
	}
	add(pgCommit, o.contended/2, one.repeat)
	return all, nil
}

// mostWorkers is how many there are at once at most.
const mostWorkers = 64

// workers is how many there are at once where none shares a lease.
func workers() []int { return []int{1, 16, mostWorkers} }

// repeat commits one transaction after the other.
func (c *commit) repeat(ctx context.Context, length time.Duration) (figures, error) {
	var took []float64
	for start := time.Now(); time.Since(start) < length; {
		sent := time.Now()
		if err := c.once(ctx); err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(sent)))
	}
	return figures{latency: stats.Percentile(took, 0.5)}, nil
}
