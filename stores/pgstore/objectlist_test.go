package pgstore_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// fill makes objects of keys, past the gateway.
func (w *world) fill(keys []string, deleted bool) {
	w.t.Helper()
	_, err := w.db.Exec(w.t.Context(), `WITH b AS (INSERT INTO fence.blobs (bucket, principal, state) SELECT 'reports', 'p', 'committed' FROM unnest($1::text[]) RETURNING id),
		n AS (SELECT id, row_number() OVER () AS i FROM b)
		INSERT INTO fence.objects (bucket, key, blob, size, deleted, modified_at, token) SELECT 'reports', k.key, CASE WHEN NOT $2 THEN n.id END, 1, $2, now(), 7
		FROM unnest($1::text[]) WITH ORDINALITY k(key, i) JOIN n USING (i)`, keys, deleted)
	if err != nil {
		w.t.Fatal(err)
	}
}

// Every page of every query has what the keys one by one would give, in the order of their bytes.
func TestListObjects(t *testing.T) {
	w, _ := objectWorld(t)
	random := rand.New(rand.NewPCG(1, 2))
	live := map[string]bool{}
	var kept, gone []string
	for range 400 {
		key := ""
		for range 1 + random.IntN(6) {
			key += []string{"a", "b", "/", "//", "é", "\U0010FFFF", "퟿", "\uE000", "~", "%2F", " ", "A"}[random.IntN(12)]
		}
		if _, twice := live[key]; twice {
			continue
		}
		if live[key] = random.IntN(4) > 0; live[key] {
			kept = append(kept, key)
		} else {
			gone = append(gone, key)
		}
	}
	w.fill(kept, false)
	w.fill(gone, true)
	slices.Sort(kept)
	for _, prefix := range []string{"", "a", "a/", "/", "//", "é", "\U0010FFFF", "a퟿", "none"} {
		for _, delimiter := range []string{"", "/", "//", "b", "\U0010FFFF"} {
			var want []fence.ObjectEntry
			for _, key := range kept {
				rest, below := strings.CutPrefix(key, prefix)
				if !below {
					continue
				}
				e := fence.ObjectEntry{Key: key}
				if head, _, found := strings.Cut(rest, delimiter); delimiter != "" && found {
					e = fence.ObjectEntry{Key: prefix + head + delimiter, Group: true}
				}
				if len(want) == 0 || want[len(want)-1] != e {
					want = append(want, e)
				}
			}
			for _, limit := range []int{3, 1000} {
				var got []fence.ObjectEntry
				for q := (fence.ObjectQuery{Bucket: "reports", Prefix: prefix, Delimiter: delimiter, Limit: limit}); ; q.After = got[len(got)-1].Key {
					page, err := w.ListObjects(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range page.Entries {
						if e.Group == (e.Size == 1) || e.Group == (e.Version == 7) {
							t.Errorf("%+v", e)
						}
						got = append(got, fence.ObjectEntry{Key: e.Key, Group: e.Group})
					}
					if !page.More {
						break
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("prefix %q, delimiter %q, limit %d: %v\nwant %v", prefix, delimiter, limit, got, want)
				}
			}
		}
	}
}

// A page reads an index from where it begins: what lies before, in groups that are passed over, or is deleted is not looked at.
func TestListObjectsReadsLittle(t *testing.T) {
	w, _ := objectWorld(t)
	w.exec(`INSERT INTO fence.objects (bucket, key, deleted, modified_at) SELECT 'reports', format('dir%s/%s', i % 50, i), true, now() FROM generate_series(1, 20000) i;
		INSERT INTO fence.blobs (id, bucket, principal, state) VALUES ('00000000-0000-0000-0000-000000000001', 'reports', 'p', 'committed');
		INSERT INTO fence.objects (bucket, key, blob, deleted, modified_at) SELECT 'reports', format('group%s/%s', i % 50, i), '00000000-0000-0000-0000-000000000001', false, now() FROM generate_series(1, 20000) i;
		ANALYZE fence.objects; SELECT pg_stat_force_next_flush()`)
	read := func() (n int) {
		w.exec("SELECT pg_stat_force_next_flush()")
		if _, err := fmt.Sscan(w.text("SELECT (sum(idx_tup_fetch) + sum(seq_tup_read))::text FROM pg_stat_user_tables WHERE schemaname = 'fence' AND relname = 'objects'"), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	db := w.connect()
	before := read()
	rows, err := db.Query(t.Context(), "SELECT name FROM fence.list_objects('reports', '', '/', '', 1000)")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rows.Next() {
		n++
	}
	if _, err := db.Exec(t.Context(), "SELECT pg_stat_force_next_flush()"); err != nil || n != 50 {
		t.Fatalf("%d groups, %v", n, err)
	}
	if got := read() - before; got > 200 {
		t.Errorf("a list of 50 groups read %d rows", got)
	}
}
