package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// another opens a second store on the ledger of a world, as another gateway has.
func (w *world) another(cfg pgstore.Config) *pgstore.Store {
	w.t.Helper()
	cfg.URL = w.url
	s, err := pgstore.Open(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	return s
}

// A store that is told knows of a new column at once, though it would believe its description for an hour.
func TestCatalogueIsWatched(t *testing.T) {
	w := newWorld(t)
	s := w.another(pgstore.Config{TableTTL: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { _ = s.WatchCatalogue(ctx) })
	defer watching.Wait()
	defer cancel()
	shown := func() string {
		row, err := s.Row(t.Context(), fence.RowRead{Row: fence.RowName{Table: "wallets", Key: []string{"42"}}, NumbersAsText: true})
		if err != nil {
			t.Fatal(err)
		}
		return string(row.JSON)
	}
	eventually := func(change, want string) {
		t.Helper()
		shown()
		w.exec(change)
		for end := time.Now().Add(10 * time.Second); shown() != want; {
			if time.Now().After(end) {
				t.Fatalf("after %s the row is shown as %s", change, shown())
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if w.text("SELECT count(*)::text FROM pg_event_trigger WHERE evtname = 'fencegate_ddl'") != "1" {
		t.Fatal("there is no event trigger")
	}
	eventually("ALTER TABLE wallets ADD note text", `{"id":"42","owner":"alice","balance":"100","note":null}`)
	// The watcher is there by now: what follows is told to it.
	for i := range 3 {
		eventually(fmt.Sprintf("ALTER TABLE wallets RENAME COLUMN note%s TO note%d", map[bool]string{true: "", false: fmt.Sprint(i - 1)}[i == 0], i),
			fmt.Sprintf(`{"id":"42","owner":"alice","balance":"100","note%d":null}`, i))
	}
	// A session that is cut off is made anew.
	w.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen%'")
	eventually("ALTER TABLE wallets DROP note2", `{"id":"42","owner":"alice","balance":"100"}`)
}

// Tables are altered while they are read and written: nobody is told of an error of the gateway's.
func TestAlteredInTheMiddleOfTraffic(t *testing.T) {
	w := newWorld(t)
	w.exec("CREATE TABLE busy (id int PRIMARY KEY, n bigint NOT NULL DEFAULT 0, extra int); INSERT INTO busy SELECT i, 0 FROM generate_series(1, 4) i; SELECT fence.protect('busy', 'busy')")
	first := w.grant("busy", "worker-a", "1").First()
	var next, accepted atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	name := fence.RowName{Table: "busy", Key: []string{"1"}}
	works := []func(fence.Token) error{
		func(token fence.Token) error {
			_, err := w.WriteRow(context.Background(), rowOf(fence.OpPatch, "busy", "1", token, `{"n":1}`))
			return err
		},
		func(token fence.Token) error {
			_, err := w.WriteRow(context.Background(), rowOf(fence.OpPut, "busy", "2", token, `{"n":1}`))
			return err
		},
		func(token fence.Token) error {
			_, err := w.commit(patchRow("busy", "3", token, `{"n":1}`), patchRow("busy", "4", token, `{"n":1}`))
			return err
		},
		func(fence.Token) error {
			_, err := w.Row(context.Background(), fence.RowRead{Row: name, NumbersAsText: true})
			return err
		},
		func(fence.Token) error {
			_, err := w.ListRows(context.Background(), fence.RowQuery{Table: "busy", Limit: 10, Columns: []string{"id", "n"}})
			return err
		},
	}
	for _, work := range works {
		clients.Go(func() {
			for ctx.Err() == nil {
				err := work(first + fence.Token(next.Add(1)%900) + 1)
				switch fence.CodeOf(err) {
				case fence.CodeAccepted:
					accepted.Add(1)
				case fence.CodeStaleToken, fence.CodeSpentToken, fence.CodeReplayed, fence.CodeContention:
				default:
					t.Errorf("a client was told %v", err)
				}
			}
		})
	}
	for i := range 12 {
		w.exec("ALTER TABLE busy DROP extra")
		w.exec(fmt.Sprintf("ALTER TABLE busy ADD extra %s", []string{"int", "text", "numeric"}[i%3]))
		w.exec(fmt.Sprintf("ALTER TABLE busy ALTER n TYPE %s", []string{"int", "bigint", "numeric"}[i%3]))
		w.exec("ALTER TABLE busy RENAME extra TO other; ALTER TABLE busy RENAME other TO extra")
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	clients.Wait()
	if accepted.Load() < 50 {
		t.Errorf("only %d calls were answered", accepted.Load())
	}
}

// The template of a table's leases is changed while two gateways serve holders of the old lease and of the new one. Once a change
// has returned nothing is written any more under the lease that was in force before, whenever it was begun, so that at no time there are
// two holders whose writes are accepted.
func TestTemplateChangesWhileServing(t *testing.T) {
	w := newWorld(t)
	stores := []*pgstore.Store{w.Store, w.another(pgstore.Config{TableTTL: time.Hour})}
	leases := []string{"old", "new"}
	protect := func(n int) {
		if err := stores[n%2].Protect(context.Background(), "wallets", leases[n%2]+":{id}"); err != nil {
			t.Fatal(err)
		}
	}
	protect(0)
	// Each write leaves the lease that admitted it, and takes its time between admit and commit.
	w.exec(`CREATE TABLE log (no bigint GENERATED ALWAYS AS IDENTITY, lease text);
		CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_sleep(0.003); INSERT INTO log (lease) SELECT lease FROM fence.marks WHERE resource = 'rows/public.wallets/42'; RETURN NEW; END $$;
		CREATE TRIGGER log BEFORE UPDATE ON wallets FOR EACH ROW EXECUTE FUNCTION log()`)
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			s, lease, holder := stores[i/2], leases[i%2]+":42", "worker-"+leases[i%2]
			for ctx.Err() == nil {
				g := w.grantOn(s, lease, holder)
				if g == nil {
					continue // another writer of this lease was granted it meanwhile
				}
				for token := g.First(); token < g.First()+5 && ctx.Err() == nil; token++ {
					write := rowOf(fence.OpPatch, "wallets", "42", token, fmt.Sprintf(`{"balance":%d}`, token))
					write.Principal = holder
					_, _ = s.WriteRow(context.Background(), write) // the log tells
				}
			}
		})
	}
	accepted := map[string]int{}
	for n := 1; n <= 12; n++ {
		protect(n)
		returned := w.text("SELECT coalesce(string_agg(no::text, ','), '0') FROM log")
		time.Sleep(30 * time.Millisecond)
		since := w.text("SELECT coalesce(string_agg(lease, ' '), '') FROM log WHERE no <> ALL ($1::bigint[])", "{"+returned+"}")
		for _, lease := range strings.Fields(since) {
			accepted[lease]++
			if lease != leases[n%2]+":42" {
				t.Errorf("after change %d to %s a write under %s was committed", n, leases[n%2], lease)
			}
		}
	}
	cancel()
	writers.Wait()
	if accepted["old:42"] == 0 || accepted["new:42"] == 0 {
		t.Errorf("accepted: %v", accepted)
	}
}

// grantOn makes a new grant through one of several stores, nil when somebody else was quicker.
func (w *world) grantOn(s *pgstore.Store, lease, principal string) *fence.Grant {
	newest, err := s.Newest(context.Background(), lease)
	if err != nil {
		w.t.Error(err)
		return nil
	}
	var floor fence.Token
	if newest != nil {
		floor = newest.First()
	}
	acquire := fence.AcquireDigest(principal, fmt.Sprint(floor, time.Now().UnixNano()))
	g, err := s.Certify(context.Background(), fence.Certificate{Lease: lease, Principal: principal, Holder: principal, Acquire: acquire, TTL: 30e9, Floor: floor})
	if err != nil {
		return nil
	}
	return g
}
