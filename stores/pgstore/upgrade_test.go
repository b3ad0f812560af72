package pgstore_test

import (
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// A ledger that has been in use since the first version of its schema keeps every row through all migrations, and goes on where it stood.
func TestMigrationsKeepWhatIsThere(t *testing.T) {
	url := testenv.Database(t)
	migrateTo(t, url, 1)
	w := &world{t: t, url: url}
	w.db = w.connect()
	w.exec(`CREATE TABLE wallets (id bigint PRIMARY KEY, owner text NOT NULL, balance numeric NOT NULL CHECK (balance >= 0)); INSERT INTO wallets VALUES (42, 'alice', 100);
		CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount int);
		SELECT setval('fence.blocks', 7);
		INSERT INTO fence.protected (kind, name, prefix, template, key_columns, key_types) VALUES ('table', 'public.wallets', '', 'wallet:{id}', '{id}', '{bigint}'),
			('table', 'public.payments', '', 'payments', '{id}', '{bigint}'), ('bucket', 'reports', '', 'report:{key}', '{}', '{}');
		INSERT INTO fence.grants VALUES ('wallet:42', 5000, '{[5000,6000)}', sha256('id'), sha256('acquire'), 'p', 'p', 30000, '2026-01-01', NULL, NULL),
			('report:a', 6000, '{[6000,7000)}', sha256('id2'), sha256('acquire2'), 'p', 'p', 30000, '2026-01-01', '2026-01-02', 'released');
		INSERT INTO fence.marks (resource, token, lease, principal, digest, created, xid, written_at) VALUES ('rows/public.wallets/42', 5003, 'wallet:42', 'p', '\x01', true, '700', '2026-01-01');
		INSERT INTO fence.blobs (id, bucket, principal, state) VALUES ('00000000-0000-0000-0000-000000000001', 'reports', 'p', 'committed'),
			('00000000-0000-0000-0000-000000000002', 'reports', 'p', 'pending'), ('00000000-0000-0000-0000-000000000003', 'reports', 'p', 'garbage');
		INSERT INTO fence.objects VALUES ('reports', 'a', '00000000-0000-0000-0000-000000000001', 3, '\x02', '{"content_type":"text/csv"}', false, '2026-01-01')`)
	// Columns that a migration adds are none of what was there.
	kept := func() string {
		return w.text(`SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM (
			SELECT json_build_array(lease, first, blocks::text, id_hash, acquire_hash, principal, holder, ttl_ms, granted_at, ended_at, ended_why) AS r FROM fence.grants
			UNION ALL SELECT json_build_array(resource, token, lease, principal, digest, created, xid::text, written_at) FROM fence.marks
			UNION ALL SELECT json_build_array(id, bucket, principal, state, deletions) FROM fence.blobs
			UNION ALL SELECT json_build_array(bucket, key, blob, size, sha256, header, deleted, modified_at) FROM fence.objects
			UNION ALL SELECT json_build_array(kind, name, prefix, template, key_columns, key_types, version) FROM fence.protected
			UNION ALL SELECT json_build_array(ledger_id, inner_key, outer_key) FROM fence.settings) x`)
	}
	before := kept()
	for version := int64(2); version <= pgstore.SchemaVersion(); version++ {
		migrateTo(t, url, version)
		if after := kept(); after != before {
			t.Fatalf("after migration %d:\n%s\nbefore:\n%s", version, after, before)
		}
	}
	w.Store = w.another(pgstore.Config{})
	row, err := w.Row(t.Context(), fence.RowRead{Row: fence.RowName{Table: "wallets", Key: []string{"42"}}})
	if err != nil || row.Mark != 5003 || row.MarkedBy != "p" {
		t.Fatalf("%+v, %v", row, err)
	}
	if _, err := w.WriteRow(t.Context(), patch("wallets", "42", `{"balance":1}`, 5004)); err != nil {
		t.Errorf("the holder goes on: %v", err)
	}
	_, err = w.WriteRow(t.Context(), patch("wallets", "42", `{"balance":1}`, 5002))
	wantCode(t, err, fence.CodeStaleToken)
	o, err := w.Object(t.Context(), fence.ObjectName{Bucket: "reports", Key: "a"}, fence.Access{})
	if err != nil || o.Size != 3 || o.Header.ContentType != "text/csv" {
		t.Errorf("%+v, %v", o, err)
	}
	if first := w.grant("payments", "p", "1").First(); first != 8000 {
		t.Errorf("the next grant begins at %d", first)
	}
	if _, err := w.WriteRow(t.Context(), insertInto("payments", `{"amount":1}`, 8000)); err != nil {
		t.Error(err)
	}
	list, err := w.Collectable(t.Context(), 0, 10)
	if err != nil || len(list) != 1 || list[0].ID != "00000000-0000-0000-0000-000000000003" {
		t.Errorf("%v, %v", list, err)
	}
}
