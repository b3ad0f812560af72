package pgstore_test

import (
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// One row has one name: every spelling of a key names the same resource or is refused.
func TestCanonicalKeys(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE SCHEMA "a.b"; CREATE TYPE mood AS ENUM ('ok', 'so so'); CREATE DOMAIN code AS varchar(8) CHECK (VALUE <> 'no')`)
	for _, c := range []struct {
		typ, want string
		same      []string
		refused   []string
	}{
		{"bigint", "42", []string{"42", "042", "+42", " 42"}, []string{"42x", "4 2", "1e3", "42.0", "99999999999999999999"}},
		{"smallint", "7", []string{"7", "07"}, []string{"70000"}},
		{"numeric", "1", []string{"1", "1.0", "+1.00", "1e0", "01"}, []string{"one"}},
		{"numeric(10,2)", "1.5", []string{"1.5", "1.50", "1.500"}, nil},
		{"uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", []string{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "{a0eebc999c0b4ef8bb6d6bb9bd380a11}"}, []string{"a0eebc99"}},
		{"text", "a%20b%2Fc%2C%C3%BC~", []string{"a b/c,ü~"}, nil},
		{"varchar(5)", "abcdefgh", []string{"abcdefgh"}, nil},
		{"char(6)", "ab", []string{"ab", "ab    "}, nil},
		{"bool", "true", []string{"true", "t", "TRUE", "1", "yes"}, []string{"maybe"}},
		{"date", "2026-11-29", []string{"2026-11-29", "20261129", "Nov 29 2026"}, []string{"2026-13-01", "now", " Today", "tomorrow 10:00"}},
		{"timestamptz", "2026-11-29%2010%3A00%3A00%2B00", []string{"2026-11-29 10:00:00+00", "2026-11-29T12:00:00+02", "2026-11-29T10:00:00Z"}, nil},
		{"bytea", "%5Cxab", []string{`\xab`, `\xAB`}, nil},
		{"inet", "10.0.0.1", []string{"10.0.0.1", "10.0.0.1/32"}, nil},
		{"mood", "so%20so", []string{"so so"}, []string{"bad"}},
		{"code", "abc", []string{"abc"}, nil},
	} {
		t.Run(c.typ, func(t *testing.T) {
			name := `"a.b"."T ` + c.typ + `"`
			w.exec(`CREATE TABLE ` + name + ` (k ` + c.typ + ` PRIMARY KEY, v int)`)
			if err := w.Protect(t.Context(), name, "k:{k}"); err != nil {
				t.Fatal(err)
			}
			// Another session's settings change no name.
			w.exec("SET timezone = 'Asia/Tokyo'; SET datestyle = 'German, DMY'; SET bytea_output = 'escape'")
			for _, s := range c.same {
				state, err := w.RowMark(t.Context(), fence.RowName{Table: name, Key: []string{s}})
				if err != nil {
					t.Errorf("%q: %v", s, err)
				} else if want := "rows/" + name + "/" + c.want; state.Resource != want {
					t.Errorf("%q: %s, want %s", s, state.Resource, want)
				}
			}
			for _, s := range c.refused {
				_, err := w.RowMark(t.Context(), fence.RowName{Table: name, Key: []string{s}})
				if e := wantCode(t, err, fence.CodeInvalidRequest); e.Field != "k" {
					t.Errorf("%q: field %q", s, e.Field)
				}
			}
		})
	}
}

func TestProtectRefuses(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE EXTENSION IF NOT EXISTS citext;
		CREATE TABLE c1 (k citext PRIMARY KEY); CREATE TABLE c2 (k float8 PRIMARY KEY); CREATE TABLE c3 (k interval PRIMARY KEY);
		CREATE TABLE c4 (k money PRIMARY KEY); CREATE TABLE c5 (k jsonb PRIMARY KEY); CREATE TABLE c6 (k int);
		CREATE TABLE parent (k int PRIMARY KEY) PARTITION BY RANGE (k); CREATE TABLE part PARTITION OF parent FOR VALUES FROM (0) TO (10);
		CREATE TABLE other (k int PRIMARY KEY) PARTITION BY RANGE (k); CREATE TABLE other1 PARTITION OF other FOR VALUES FROM (0) TO (10);
		CREATE VIEW v AS SELECT * FROM wallets`)
	ctx := t.Context()
	for _, c := range []struct{ table, template, says string }{
		{"c1", "x", "citext"}, {"c2", "x", "double precision"}, {"c3", "x", "interval"}, {"c4", "x", "money"}, {"c5", "x", "jsonb"},
		{"c6", "x", "no primary key"}, {"v", "x", "declare"}, {"fence.marks", "x", "not a table"},
		{"wallets", "wallet:{nope}", "{nope}"}, {"wallets", "wallet:{id", "brace"}, {"wallets", "", "1 to 1024"},
	} {
		err := w.Protect(ctx, c.table, c.template)
		if e := wantCode(t, err, fence.CodeInvalidRequest); !strings.Contains(e.Message, c.says) {
			t.Errorf("%s: %s", c.table, e.Message)
		}
	}
	wantCode(t, w.Protect(ctx, "nowhere", "x"), fence.CodeNotFound)
	wantCode(t, w.Protect(ctx, "parent", "x"), fence.CodeAccepted)
	wantCode(t, w.Protect(ctx, "part", "x"), fence.CodeInvalidRequest)
	wantCode(t, w.Protect(ctx, "other1", "x"), fence.CodeAccepted)
	wantCode(t, w.Protect(ctx, "other", "x"), fence.CodeInvalidRequest)
	wantCode(t, w.Protect(ctx, "wallets", "payment-export"), fence.CodeAccepted)
	for _, bucket := range []string{"", "A", "a", "a..b", "-a-", strings.Repeat("a", 64), "a/b"} {
		wantCode(t, w.ProtectBucket(ctx, bucket, "", "r:{key}"), fence.CodeInvalidRequest)
	}
	wantCode(t, w.ProtectBucket(ctx, "reports", "", "r:{id}"), fence.CodeInvalidRequest)
}

func TestLeaseNames(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for _, p := range []struct{ prefix, template string }{{"", "report:{key}"}, {"daily/", "daily:{key:2}"}, {"daily/x/", "const"}} {
		if err := w.ProtectBucket(ctx, "reports", p.prefix, p.template); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("ü", 512) // 1024 bytes
	for key, want := range map[string]string{
		"2026/a.csv":        "report:2026/a.csv",
		"daily/29/a":        "daily:29",
		"daily/29":          "daily:29",
		"daily/x/29":        "const",
		"{key}":             "report:{key}",
		"//a/../+%2F":       "report://a/../+%2F",
		"tab\there":         "report:tabhere~sha256:" + w.text("SELECT encode(sha256(convert_to(E'report:tab\\there', 'UTF8')), 'hex')"),
		long:                "report:" + strings.Repeat("ü", 446) + "~sha256:" + w.text("SELECT encode(sha256(convert_to('report:' || $1, 'UTF8')), 'hex')", long),
		long[:1016]:         "report:" + long[:1016],
		"nfc\u00e9/e\u0301": "report:nfc\u00e9/e\u0301",
	} {
		state, err := w.ObjectMark(ctx, fence.ObjectName{Bucket: "reports", Key: key})
		if err != nil {
			t.Errorf("%q: %v", key, err)
		} else if state.Lease != want || state.Resource != "objects/reports/"+key {
			t.Errorf("%q: lease %q, want %q; resource %q", key, state.Lease, want, state.Resource)
		}
	}
	if err := w.ProtectBucket(ctx, "first", "", "{key:1}"); err != nil {
		t.Fatal(err)
	}
	_, err := w.ObjectMark(ctx, fence.ObjectName{Bucket: "first", Key: "/a"})
	if e := wantCode(t, err, fence.CodeInvalidRequest); e.Field != "key" {
		t.Errorf("field %q", e.Field)
	}
	w.exec("CREATE TABLE blank (k char(3) PRIMARY KEY); SELECT fence.protect('blank', '{k}')")
	_, err = w.RowMark(ctx, fence.RowName{Table: "blank", Key: []string{" "}})
	if e := wantCode(t, err, fence.CodeInvalidRequest); e.Field != "k" {
		t.Errorf("field %q", e.Field)
	}
	_, err = w.ObjectMark(ctx, fence.ObjectName{Bucket: "other", Key: "a"})
	wantCode(t, err, fence.CodeNotFound)
	_, err = w.RowMark(ctx, fence.RowName{Table: "wallets", Key: []string{"42"}})
	wantCode(t, err, fence.CodeAccepted)
	w.exec("CREATE TABLE txt (k text PRIMARY KEY); SELECT fence.protect('txt', 't:{k}')")
	_, err = w.RowMark(ctx, fence.RowName{Table: "txt", Key: []string{strings.Repeat("%", 900)}})
	wantCode(t, err, fence.CodeInvalidRequest)
}
