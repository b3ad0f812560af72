package pgstore_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/fencegate/fencegate/stores/pgstore"
)

// pageCost is how many blocks PostgreSQL looks at for a page of a list, and how many entries the page has, with a plan for this page or for any.
func (w *world) pageCost(plan, prefix, delimiter, after string, limit int) (blocks, entries int) {
	w.t.Helper()
	const page = "SELECT * FROM fence.list_objects('reports', $1, $2, $3, $4)"
	conn := w.connect()
	defer conn.Close(w.t.Context())
	if _, err := conn.Exec(w.t.Context(), "SELECT set_config('plan_cache_mode', $1, false)", plan); err != nil {
		w.t.Fatal(err)
	}
	// The first call of a session also reads catalogs.
	if _, err := conn.Exec(w.t.Context(), page, prefix, delimiter, after, limit); err != nil {
		w.t.Fatal(err)
	}
	var text string
	if err := conn.QueryRow(w.t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+page, prefix, delimiter, after, limit).Scan(&text); err != nil {
		w.t.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Hit  int     `json:"Shared Hit Blocks"`
			Read int     `json:"Shared Read Blocks"`
			Rows float64 `json:"Actual Rows"`
		}
	}
	if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) != 1 {
		w.t.Fatal(text, err)
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read, int(plans[0].Plan.Rows)
}

// What a page costs depends on what it shows, and neither on what the bucket holds nor on what PostgreSQL knows of that: a bucket that was
// just filled has no statistics, and a session that has asked often may keep a plan for any page.
func TestPageCostsWhatItShows(t *testing.T) {
	w, _ := objectWorld(t)
	w.exec(`ALTER TABLE fence.objects SET (autovacuum_enabled = false);
		INSERT INTO fence.blobs (id, bucket, principal, state) VALUES ('00000000-0000-0000-0000-000000000001', 'reports', 'p', 'committed');
		INSERT INTO fence.objects (bucket, key, blob, size, deleted, modified_at, token)
		SELECT 'reports', format('g%s/%s', to_char(i % 50, 'FM00'), to_char(i, 'FM0000000')), '00000000-0000-0000-0000-000000000001', 1, false, now(), 7
		FROM generate_series(1, 60000) i`)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			w.exec("ANALYZE fence.objects")
		}
		for name, p := range map[string]struct {
			prefix, delimiter, after string
			limit, entries           int
		}{
			"First":        {"", "", "", 1001, 1001},
			"Groups":       {"", "/", "", 1001, 50},
			"InAGroup":     {"g30/", "/", "g30/0000900", 20, 20},
			"EndOfAGroup":  {"g30/", "", "g30/0059900", 1001, 2},
			"FewInTheMid":  {"g10/00005", "", "", 1001, 2},
			"NoneInTheMid": {"g10/x", "/", "", 1001, 0},
		} {
			for _, plan := range []string{"force_custom_plan", "force_generic_plan"} {
				blocks, entries := w.pageCost(plan, p.prefix, p.delimiter, p.after, p.limit)
				most := entries + 60
				if p.delimiter != "" {
					most = 8 * (entries + 1) // each group is looked for
				}
				if entries != p.entries || blocks > most {
					t.Errorf("%s, analyzed: %t, %s: %d entries, want %d, for which %d blocks were looked at, allowed are %d",
						name, analyzed, plan, entries, p.entries, blocks, most)
				}
			}
		}
	}
}

// To look for what is deleted below a prefix is to look at one entry of an index, also when everything behind the prefix is deleted.
func TestAnyDeletedReadsLittle(t *testing.T) {
	w, _ := objectWorld(t)
	w.exec("INSERT INTO fence.objects (bucket, key, deleted, modified_at) SELECT 'reports', format('z/%s', i), true, now() FROM generate_series(1, 5000) i; ANALYZE fence.objects")
	s, err := pgstore.Open(pgstore.Config{URL: w.url, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 12 {
		for prefix, want := range map[string]bool{"a/": false, "z/": true, "": true, "z/x": false, "\U0010FFFF": false} {
			if found, err := s.AnyDeleted(t.Context(), "reports", prefix); err != nil || found != want {
				t.Fatalf("call %d below %q: %t, %v", i, prefix, found, err)
			}
		}
	}
	s.Close()
	// A session tells what it has read when it ends.
	read := 0
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := fmt.Sscan(w.text("SELECT (t.seq_tup_read + (SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid))::text FROM pg_stat_user_tables t WHERE t.relid = 'fence.objects'::regclass"), &read); err != nil {
			t.Fatal(err)
		}
		if read > 0 || time.Now().After(deadline) {
			break
		}
	}
	if read == 0 || read > 200 {
		t.Errorf("60 calls read %d rows or entries of indexes", read)
	}
}
