package pglease_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/pglease"
)

// counter counts queries.
type counter struct{ n atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// A locker that polls asks while it waits for a lease or holds one, and else leaves the database alone.
func TestPollsOnlyWhileItConcernsIt(t *testing.T) {
	t.Parallel()
	url := ledger(t)
	asked := new(counter)
	g := join(t, pglease.Config{URL: testenv.PgBouncer(t, url, "transaction"), Pooled: true, Tracer: asked})
	quiet := func() bool {
		before := asked.n.Load()
		<-time.After(250 * time.Millisecond)
		return asked.n.Load() == before
	}
	eventually(t, "it is quiet", quiet)
	g.enter("poll", "a")
	if quiet() {
		t.Error("it holds a lease and does not ask")
	}
	g.drop("poll", "a")
	eventually(t, "it is quiet again", quiet)
	e := entry("a")
	e.TTL = 100 * time.Millisecond
	if _, err := g.Enter(t.Context(), "poll", e); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is quiet after the lease's end", quiet)
}

// An answer that is lost takes the mail with it, and that is told.
func TestPollsAgain(t *testing.T) {
	t.Parallel()
	url := ledger(t)
	db := database(t, url)
	config := pglease.Config{URL: url, Pooled: true} // a pooler would connect anew by itself
	a, b := join(t, config), join(t, config)
	a.enter("again", "a")
	b.enter("again", "b")
	end(t, db, pool)
	a.hears(lease.Signal{Kind: lease.Resync})
	b.hears(lease.Signal{Kind: lease.Resync})
	b.drop("again", "b")
	a.drop("again", "a")
	handOver(t, a, b, "after")
}
