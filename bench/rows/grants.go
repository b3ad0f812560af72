package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// anonymous is what a gateway without authentication calls everybody.
const anonymous = "anonymous"

// preparers is how many goroutines fill tables and make grants.
const preparers = 128

// prepare makes the table, protects it, and certifies a grant of each of its leases.
func (d *dataset) prepare(ctx context.Context, db *pgxpool.Pool, s *pgstore.Store) error {
	if err := d.create(ctx, db); err != nil || d.kind == handmade {
		return err
	}
	if err := s.Protect(ctx, d.table, d.template()); err != nil {
		return fmt.Errorf("protect %s: %w", d.table, err)
	}
	return each(ctx, int64(len(d.grants)), func(ctx context.Context, number int64) error {
		name := d.leaseName(number)
		acquire := fence.AcquireDigest(anonymous, name)
		g, err := s.Certify(ctx, fence.Certificate{Lease: name, Principal: anonymous, Holder: "bench", Acquire: acquire, TTL: 24 * time.Hour})
		if err != nil {
			return fmt.Errorf("certify %s: %w", name, err)
		}
		d.grants[number] = g
		return nil
	})
}

// fill writes every row once, so that each has a mark.
func (d *dataset) fill(ctx context.Context, s *pgstore.Store) error {
	return each(ctx, int64(len(d.rows)), func(ctx context.Context, index int64) error {
		w := write{row: index + 1, balance: index}
		var err error
		if w.token, err = next(d.grants[d.leaseOf(w.row)], 0); err != nil {
			return err
		}
		if err := writeRow(ctx, s, d, w); err != nil {
			return err
		}
		d.written(w, true)
		return nil
	})
}

const (
	// fastest is more writes a second than there are.
	fastest = 60_000
	// fastestAlone is more than one client makes. It bounds what is written to a table of one row.
	fastestAlone = 5_000
)

// mostWrites bounds the writes of a slice that takes so long; 0 is no bound.
func (d *dataset) mostWrites(length time.Duration) int64 {
	if len(d.rows) > 1 {
		return 0
	}
	return int64(length.Seconds() * fastestAlone)
}

// tokensNeeded is how many tokens a row may take in such a slice: four times its part.
func (d *dataset) tokensNeeded(length time.Duration) int64 {
	if most := d.mostWrites(length); most > 0 {
		return most
	}
	return 200 + int64(4*length.Seconds()*fastest)/int64(len(d.rows))
}

// supply sees to it that every row has the tokens that a slice may take.
func (b *bench) supply(ctx context.Context, d *dataset) error {
	needed := d.tokensNeeded(b.warmUp + b.plan.slice)
	spent := make([]fence.Token, len(d.grants))
	if len(d.grants) > 0 {
		for i := range d.rows {
			number := d.leaseOf(int64(i) + 1)
			spent[number] = max(spent[number], d.rows[i].token)
		}
	}
	var short []int64
	for number, g := range d.grants {
		if left(g, spent[number]) < needed {
			short = append(short, int64(number))
		}
	}
	if len(short) == 0 {
		return nil
	}
	return b.servers.withStore(ctx, func(ctx context.Context, s *pgstore.Store) error {
		return each(ctx, int64(len(short)), func(ctx context.Context, i int64) error {
			for number := short[i]; left(d.grants[number], spent[number]) < needed; {
				g, err := s.More(ctx, d.grants[number].Lease, fence.GrantRef{Acquire: d.grants[number].Acquire})
				if err != nil {
					return fmt.Errorf("more tokens of %s: %w", d.leaseName(number), err)
				}
				d.grants[number] = g
			}
			return nil
		})
	})
}

// left counts the tokens after one.
func left(g *fence.Grant, after fence.Token) (n int64) {
	for _, b := range g.Blocks {
		n += max(0, int64(b.Last-max(after, b.First-1)))
	}
	return n
}

// each calls f with 0 to n-1, several at once.
func each(ctx context.Context, n int64, f func(context.Context, int64) error) error {
	var done atomic.Int64
	all, ctx := errgroup.WithContext(ctx)
	for range min(n, preparers) {
		all.Go(func() error {
			for {
				i := done.Add(1) - 1
				if i >= n {
					return nil
				}
				if err := patiently(ctx, func() error { return f(ctx, i) }); err != nil {
					return err
				}
			}
		})
	}
	return all.Wait()
}

// patiently does it again while the store is overloaded, which it may be by so many at once: nothing was done then.
func patiently(ctx context.Context, f func() error) (err error) {
	const attempts, pause = 10, 200 * time.Millisecond
	for range attempts {
		if err = f(); fence.CodeOf(err) != fence.CodeOverloaded {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return err
}
