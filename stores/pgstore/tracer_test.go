package pgstore_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/stores/pgstore"
)

// counter counts the queries it is told of.
type counter struct{ started, ended atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.started.Add(1)
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) { c.ended.Add(1) }

func TestTracer(t *testing.T) {
	w := newWorld(t)
	var seen counter
	s, err := pgstore.Open(pgstore.Config{URL: w.url, Tracer: &seen})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if seen.started.Load() == 0 || seen.started.Load() != seen.ended.Load() {
		t.Errorf("told of %d queries and %d ends", seen.started.Load(), seen.ended.Load())
	}
}
