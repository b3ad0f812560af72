package pgstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// BenchmarkWrites patches rows, on a server whose commits are durable: by one caller and by some that have rows of their own, together and
// each alone. make bench compares them with writes that are not fenced.
func BenchmarkWrites(b *testing.B) {
	server, err := localservers.StartPostgres(b.Context(), localservers.PostgresConfig{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Stop() })
	w := newWorldAt(b, server.URL(""))
	w.exec(`CREATE TABLE many (id bigint PRIMARY KEY, n bigint, note text); INSERT INTO many SELECT i, 0, repeat('x', 80) FROM generate_series(0, 1023) i; SELECT fence.protect('many', 'many')`)
	alone := w.another(pgstore.Config{Lanes: -1})
	var next atomic.Int64
	next.Store(int64(w.grant("many", "p", "1").First()))
	w.exec("UPDATE fence.grants SET blocks = int8multirange(int8range(first, first + 100000000000)); ANALYZE")
	for _, callers := range []int{1, 16, 64} {
		for name, s := range map[string]*pgstore.Store{"Together": w.Store, "Alone": alone} {
			b.Run(fmt.Sprint(name, callers), func(b *testing.B) {
				before := s.Stats().Batches
				var (
					wg   sync.WaitGroup
					left atomic.Int64
				)
				left.Store(int64(b.N))
				for caller := range callers {
					wg.Go(func() {
						for i := 0; left.Add(-1) >= 0; i++ {
							key := fmt.Sprint(caller*16 + i%16) // nobody else's
							x := patch("many", key, `{"n":7}`, fence.Token(next.Add(1)))
							if _, err := s.WriteRow(context.Background(), x); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				if after := s.Stats().Batches; after.Sent > before.Sent {
					b.ReportMetric(float64(after.Writes-before.Writes)/float64(after.Sent-before.Sent), "writes/batch")
				}
			})
		}
	}
}
