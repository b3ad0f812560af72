package pgstore_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/stores/pgstore"
)

// TestRowNames holds the names that the store puts together by itself to those of fence.row_name, for keys of every spelling: where it
// has a name, it is the ledger's.
func TestRowNames(t *testing.T) {
	w := newWorld(t)
	texts := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"a", "A b", "x/y", "é", "%41", ",", "\u0085", "\u00a0", "~.-_", strings.Repeat("k", 900), strings.Repeat("é", 700), "{id}", "{a}{b}"}))
	parts := map[string]*rapid.Generator[string]{
		"bigint": rapid.OneOf(rapid.Map(rapid.Int64(), func(n int64) string { return fmt.Sprint(n) }),
			rapid.SampledFrom([]string{"0", "-0", "00", "+1", "01", "-1", "-01", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e3", "1_0", " 1", "0x1", ""})),
		"smallint":          rapid.SampledFrom([]string{"0", "32767", "32768", "-32768", "-32769", "007"}),
		"integer":           rapid.SampledFrom([]string{"2147483647", "2147483648", "-2147483648", "5"}),
		"text":              texts,
		"character varying": texts,
		"uuid": rapid.SampledFrom([]string{"00000000-0000-0000-0000-000000000000", "A0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
			"{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1g", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1"}),
		"numeric": rapid.SampledFrom([]string{"1", "1.0", "1.50"}),
	}
	own, asked := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		columns := []string{"id"}
		templates := []string{"wallet:{id}", "{id}", "{id}/{id}", "constant", "a:{id}:b"}
		if rapid.Bool().Draw(t, "composite") {
			columns, templates = []string{"a", "b"}, []string{"{a}", "{b}-{a}", "{a}{b}{a}", "constant"}
		}
		types, key := make([]string, len(columns)), make([]string, len(columns))
		for i := range columns {
			types[i] = rapid.SampledFrom([]string{"bigint", "smallint", "integer", "text", "character varying", "uuid", "numeric"}).Draw(t, "type")
			key[i] = parts[types[i]].Draw(t, "part")
		}
		template := rapid.SampledFrom(templates).Draw(t, "template")
		resource, lease, ok := pgstore.RowName("public.wallets", columns, types, template, key)
		asked++
		if !ok {
			return
		}
		own++
		var wantResource, wantLease string
		err := w.db.QueryRow(t.Context(), `SELECT n.resource, n.lease FROM fence.row_name(ROW('table', 'public.wallets', '', $1::text, $2::text[], $3::text[], 1, false, false, '{}')::fence.protected, $4::text[]) n`,
			template, columns, types, key).Scan(&wantResource, &wantLease)
		if err != nil {
			t.Fatalf("the store names the row %s, the ledger says: %v", resource, err)
		}
		if resource != wantResource || lease != wantLease {
			t.Fatalf("the store says %q and %q, the ledger %q and %q", resource, lease, wantResource, wantLease)
		}
	})
	if own < asked/5 {
		t.Errorf("the store had a name for %d of %d keys", own, asked)
	}
}
