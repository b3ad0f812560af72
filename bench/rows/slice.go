package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/fencegate/fencegate/internal/load"
)

// candidate is one way to write rows, or one size of what grows.
type candidate struct {
	name    string // of the case
	clients []int
	pool    int // connections to PostgreSQL of each process that writes; 0 where that is not ours to say
	on      *dataset
	// unfenced writes go round the ledger and leave the marks as they are.
	unfenced bool
	refused  float64 // share of the writes whose token is an old one
	open     opener
	serving  func() []*child // the processes whose CPU counts beside the servers'; nil for none
	peer     bool            // it is none of ours: that it fails does not end the run
}

// opener makes what a number of clients need for one slice.
type opener func(ctx context.Context, b *bench, clients int) (session, error)

// session is what the clients of one slice write with.
type session interface {
	// write returns nil when it was accepted, or refused where that was to be.
	write(ctx context.Context, client int, w write) error
	close()
}

// figures are those of one slice: times in ms, CPU in µs for each write, NaN where it cannot be seen.
type figures struct{ throughput, p50, p99, cpu, generator float64 }

// slice measures a candidate once. The warm-up is a run of its own, so that its CPU is not counted.
func (b *bench) slice(ctx context.Context, c *candidate, clients, round int) (f figures, err error) {
	if err := b.supply(ctx, c.on); err != nil {
		return f, err
	}
	s, err := c.open(ctx, b, clients)
	if err != nil {
		return f, err
	}
	defer s.close()
	// All candidates choose the same rows.
	random := make([]*rand.Rand, clients)
	for i := range random {
		random[i] = rand.New(rand.NewPCG(b.seed+uint64(round), uint64(i)))
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	one := func(ctx context.Context, client int) (load.Outcome, error) {
		w, err := c.on.draw(random[client], client, clients, c.refused)
		if err == nil {
			err = s.write(ctx, client, w)
		}
		switch {
		case err != nil:
			stop(err) // nothing may fail
			return load.Failed, err
		case w.stale:
			return load.Refused, nil
		}
		c.on.written(w, !c.unfenced)
		return load.Accepted, nil
	}
	limit := c.on.mostWrites(b.warmUp + b.plan.slice)
	if err := failure(load.Run(ctx, load.Plan{Clients: clients, Duration: b.warmUp, MaxOps: limit / 4}, one)); err != nil {
		return f, fmt.Errorf("warm-up: %w", err)
	}
	servers, err := b.spent(c)
	if err != nil {
		return f, err
	}
	own := ownCPU() // next to the run: looking at all processes costs CPU, too
	r := load.Run(ctx, load.Plan{Clients: clients, Duration: b.plan.slice, MaxOps: limit - limit/4}, one)
	own = ownCPU() - own
	if err := failure(r); err != nil {
		return f, err
	}
	after, err := b.spent(c)
	writes := float64(r.Accepted + r.Refused)
	return figures{
		throughput: r.Throughput(), p50: milliseconds(r.Latency.Quantile(0.5)), p99: milliseconds(r.Latency.Quantile(0.99)),
		cpu: (after - servers) / writes, generator: own / writes,
	}, err
}

func failure(r load.Result) error {
	if err := errors.Join(r.Err, r.FirstError); err != nil {
		return err
	}
	if r.Failed > 0 || r.Accepted+r.Refused == 0 {
		return fmt.Errorf("%d writes failed, %d were made", r.Failed, r.Accepted+r.Refused)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// spent is the CPU so far of the servers and of what serves a candidate, in µs; NaN where it cannot be seen.
func (b *bench) spent(c *candidate) (float64, error) {
	var pids []int
	if c.serving != nil {
		for _, p := range c.serving() {
			pids = append(pids, p.pid())
		}
	}
	servers, err := b.servers.cpu(pids)
	if errors.Is(err, errors.ErrUnsupported) {
		return math.NaN(), nil
	}
	return microseconds(servers), err
}

// ownCPU is that of the generator so far, in µs; NaN where it cannot be seen.
func ownCPU() float64 {
	own, err := load.SelfCPU()
	if err != nil {
		return math.NaN()
	}
	return microseconds(own)
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
