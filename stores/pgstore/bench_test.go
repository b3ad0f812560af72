package pgstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// BenchmarkGrants makes grants and ends them, on a server whose commits are durable: by one caller, and by some that have
// a lease each, in groups and each call alone. It tells the commits of one grant and its end.
func BenchmarkGrants(b *testing.B) {
	server, err := localservers.StartPostgres(b.Context(), localservers.PostgresConfig{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Stop() })
	w := newWorldAt(b, server.URL(""))
	ungrouped, err := pgstore.Open(pgstore.Config{URL: w.url})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(ungrouped.Close)
	ungrouped.Ungroup()
	b.Run("Alone", func(b *testing.B) { grantAndEnd(b, w, w.Store, 1) })
	for _, callers := range []int{4, 16, 64} {
		b.Run(fmt.Sprint("Grouped", callers), func(b *testing.B) { grantAndEnd(b, w, w.Store, callers) })
		b.Run(fmt.Sprint("Ungrouped", callers), func(b *testing.B) { grantAndEnd(b, w, ungrouped, callers) })
	}
}

func grantAndEnd(b *testing.B, w *world, s *pgstore.Store, callers int) {
	var (
		wg   sync.WaitGroup
		left atomic.Int64
	)
	left.Store(int64(b.N))
	run := rand.Text() // leases of this run's own
	b.ResetTimer()
	for i := range callers {
		wg.Go(func() {
			ctx := context.Background()
			lease, floor := fmt.Sprint(run, i), fence.Token(0)
			for n := 0; left.Add(-1) >= 0; n++ {
				g, err := s.Certify(ctx, fence.Certificate{Lease: lease, Principal: "p", Holder: "h", Acquire: fence.AcquireDigest("p", fmt.Sprint(n)), TTL: 30e9, Floor: floor})
				if err == nil {
					floor = g.First()
					_, err = s.End(ctx, lease, fence.GrantRef{ID: g.ID, Principal: "p"}, fence.Ending{Why: fence.EndReleased})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	var commits int64
	if err := w.db.QueryRow(context.Background(), "SELECT count(DISTINCT xid) FROM fence.events WHERE starts_with(lease, $1)", run).Scan(&commits); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(commits)/float64(b.N), "commits/grant")
}
