package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencegate/fencegate/stores/pgstore"
)

// turn is a slice of a candidate with so many clients.
type turn struct {
	*candidate
	clients int
}

// byClients makes groups of what is compared with each other: all candidates with the same number of clients.
func byClients(list []*candidate) (groups [][]turn) {
	for _, n := range clients() {
		var group []turn
		for _, c := range list {
			if slices.Contains(c.clients, n) {
				group = append(group, turn{c, n})
			}
		}
		groups = append(groups, group)
	}
	return groups
}

// measure prepares, runs all rounds, and checks what was written.
func (b *bench) measure(ctx context.Context) error {
	b.began = time.Now()
	if b.part != "growth" {
		if err := b.measureCases(ctx); err != nil {
			return err
		}
	}
	if b.part != "main" {
		if err := b.measureGrowth(ctx); err != nil {
			return err
		}
	}
	if err := b.check(ctx); err != nil {
		return err
	}
	b.tell("every row and mark is as it was written last; %v in all", time.Since(b.began).Round(time.Second))
	return nil
}

func (b *bench) measureCases(ctx context.Context) error {
	if err := b.prepare(ctx, b.walletsTable(), b.byHandTable()); err != nil {
		return err
	}
	if err := b.startGateways(ctx, 1); err != nil {
		return err
	}
	list, err := b.cases(ctx)
	if err != nil {
		return err
	}
	if err := b.takeTurns(ctx, "cases", byClients(b.chosen(list)), b.casesEnd); err != nil {
		return err
	}
	b.peak, err = peakMemory(b.gateways[0].pid())
	return err
}

// prepare makes the tables, with a mark for each protected row.
func (b *bench) prepare(ctx context.Context, tables ...*dataset) error {
	for _, d := range tables {
		began := time.Now()
		err := b.servers.withStore(ctx, func(ctx context.Context, s *pgstore.Store) error {
			if err := d.prepare(ctx, b.servers.admin, s); err != nil || d.kind == handmade {
				return err
			}
			return d.fill(ctx, s)
		})
		if err != nil {
			return fmt.Errorf("fill %s: %w", d.table, err)
		}
		b.all = append(b.all, d)
		b.tell("%s: %d rows, %d leases, in %v", d.table, len(d.rows), len(d.grants), time.Since(began).Round(100*time.Millisecond))
	}
	// So that no round has the work that filling the tables leaves behind.
	for _, sql := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := b.servers.admin.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) chosen(list []*candidate) []*candidate {
	return slices.DeleteFunc(list, func(c *candidate) bool { return !b.only.MatchString(c.name) })
}

// takeTurns gives each turn its slice in each round: the groups in another order each time, and the turns within them too.
// A round that would not end in time is left out, but for the first.
func (b *bench) takeTurns(ctx context.Context, what string, groups [][]turn, end time.Duration) error {
	order := rand.New(rand.NewPCG(b.seed, uint64(len(groups))))
	// Nobody's first writes count: programs are compiled while they run, and caches fill.
	var took time.Duration
	for round := -1; round < b.rounds; round++ {
		began := time.Now()
		if round > 0 && began.Sub(b.began)+took > end {
			b.miss(what, fmt.Errorf("%d of %d rounds, for lack of time", b.rounds-round, b.rounds))
			return nil
		}
		shuffle(order, groups)
		for _, group := range groups {
			shuffle(order, group)
			for _, t := range group {
				if b.results.failed[t.name] != nil || !takesPart(t, round) {
					continue
				}
				f, err := b.slice(ctx, t.candidate, t.clients, round)
				switch {
				case err != nil && t.peer && ctx.Err() == nil:
					b.results.failed[t.name] = err
					b.miss(t.name, err)
				case err != nil:
					return fmt.Errorf("%s, %d clients: %w", t.name, t.clients, err)
				case round >= 0:
					b.results.add(t, f)
				}
			}
		}
		took = time.Since(began)
		b.tell("%s: round %d of %d", what, max(round+1, 0), b.rounds)
	}
	return nil
}

// takesPart says whether a turn is taken in a round. Before the first one, -1, each candidate has one.
func takesPart(t turn, round int) bool {
	return round >= 0 || t.clients == slices.Max(t.candidate.clients)
}

func shuffle[T any](r *rand.Rand, list []T) {
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

func (b *bench) tell(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }

// miss keeps why a peer, or a round, is not in the results.
func (b *bench) miss(name string, err error) {
	b.missing = append(b.missing, fmt.Sprintf("%s: %v", name, err))
	b.tell("left out: %s: %v", name, err)
}
