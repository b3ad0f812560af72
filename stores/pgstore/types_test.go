package pgstore_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// What goes in comes out, digit for digit.
func TestEveryType(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TYPE mood AS ENUM ('happy', 'it''s "so-so"'); CREATE DOMAIN price AS numeric(50,20) CHECK (VALUE >= 0); CREATE DOMAIN stamp AS timestamp;
		CREATE TABLE things (id int PRIMARY KEY, i8 int8, i2 int2, n numeric, n2 numeric(20,5), p price, f4 real, f8 double precision, t text, v varchar(5), c char(4), b bytea,
			j json, jb jsonb, u uuid, m mood, ms mood[], d date, ts timestamp, tz timestamptz, st stamp, ti time, iv interval, arr int8[], texts text[], nested int[], nums numeric[], bs bytea[], tss timestamp[],
			r int4range, nr numrange, tr tstzrange, mr int4multirange, ip inet, net cidr, bo boolean, bi bit(4), x xml, pt point,
			gen int GENERATED ALWAYS AS (i2 * 2) STORED, ident bigint GENERATED ALWAYS AS IDENTITY);
		SELECT fence.protect('things', 'things')`)
	token := w.grant("things", "p", "1").First()
	big := "12345678901234567890123456789012345678.12"
	for i, c := range []struct{ column, in, out string }{ // out is in when it is empty
		{"i8", "8200357849092798618", ""}, {"i8", "-9223372036854775808", ""}, {"i2", "7", ""},
		{"n", big, ""}, {"n", "0.10", ""}, {"n", `"NaN"`, ""}, {"n", `"Infinity"`, ""}, {"n", `"-Infinity"`, ""}, {"n", "1e3", "1000"},
		{"n2", "1.5", "1.50000"}, {"p", "0.00000000000000000001", ""},
		{"f8", "0.1", ""}, {"f8", "1.7976931348623157e+308", ""}, {"f8", `"NaN"`, ""}, {"f8", `"Infinity"`, ""}, {"f4", "3.4028235e+38", ""},
		{"t", `"a\"b\\c\u00e9\n<&>"`, `"a\"b\\cé\n<&>"`}, {"t", `""`, ""}, {"t", "null", ""}, {"c", `"ab"`, `"ab  "`}, {"v", `"abcde"`, ""},
		{"b", `"\\x00ff"`, ""}, {"b", `{"$base64":"AP8="}`, `"\\x00ff"`}, {"b", `"\\x"`, ""}, {"b", `{"$base64":""}`, `"\\x"`},
		{"j", `{"b": 1,  "a":[1.10, 123456789012345678]}`, ""}, {"jb", `{"a": 123456789012345678, "b": 1.10}`, ""},
		{"u", `"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"`, `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`},
		{"m", `"it's \"so-so\""`, ""}, {"ms", `["happy","it's \"so-so\""]`, ""},
		{"d", `"2026-02-28"`, ""}, {"d", `"infinity"`, ""}, {"ts", `"2026-01-02T03:04:05.000001"`, ""}, {"ts", `"2026-01-02 03:04:05"`, `"2026-01-02T03:04:05"`}, {"ts", `"2026-01-02 03:04:05 PM"`, `"2026-01-02T15:04:05"`}, {"ts", `"0044-01-02 03:04:05 BC"`, `"0044-01-02T03:04:05 BC"`},
		{"tz", `"2026-01-02T03:04:05+02:00"`, `"2026-01-02T01:04:05+00:00"`}, {"tz", `"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05+00:00"`}, {"st", `"2026-01-02T03:04:05"`, ""},
		{"ti", `"23:59:59.5"`, ""}, {"iv", `"1 mon 2 days 03:00:00"`, `"1 mon 2 days 03:00:00"`},
		{"arr", "[]", ""}, {"arr", "[null]", ""}, {"arr", "[8200357849092798618,null,-1]", ""}, {"nested", "[[1,2],[3,4]]", ""}, {"texts", `["a,b","","null",null,"\"","{}"]`, ""},
		{"nums", "[1.10,\"NaN\"]", ""}, {"bs", `["\\x00",{"$base64":"/w=="},null]`, `["\\x00","\\xff",null]`}, {"tss", `["2026-01-02T03:04:05",null]`, ""},
		{"r", `"[1,5)"`, ""}, {"r", `"empty"`, ""}, {"nr", `"(0.5,1.50]"`, ""}, {"mr", `"{[1,3),[5,7)}"`, ""}, {"tr", `"[\"2026-01-01 00:00:00+00\",)"`, ""},
		{"ip", `"192.168.0.1"`, ""}, {"net", `"10.0.0.0/8"`, ""}, {"bo", "true", ""}, {"bi", `"0101"`, ""}, {"x", `"<a/>"`, ""}, {"pt", `"(1,2)"`, ""},
	} {
		want := c.out
		if want == "" {
			want = c.in
		}
		row, err := w.WriteRow(t.Context(), rowWrite(fence.OpPut, "things", "1", fmt.Sprintf(`{%q:%s}`, c.column, c.in), token+fence.Token(i)))
		if err != nil {
			t.Errorf("%s = %s: %v", c.column, c.in, err)
			continue
		}
		read, err := w.Row(t.Context(), fence.RowRead{Row: fence.RowName{Table: "things", Key: []string{"1"}}})
		if err != nil {
			t.Fatal(err)
		}
		for what, text := range map[string]json.RawMessage{"written": row.JSON, "read": read.JSON} {
			var got map[string]json.RawMessage
			if err := json.Unmarshal(text, &got); err != nil || string(got[c.column]) != want {
				t.Errorf("%s = %s is %s as %s", c.column, c.in, got[c.column], what)
			}
		}
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE DOMAIN stamp AS timestamp; CREATE TABLE things (id int PRIMARY KEY, b bytea, bs bytea[], ts timestamp, tss timestamp[], st stamp, ti time, jp jsonpath, rc regclass, i int, n numeric(3,1), v varchar(2), m int[],
			gen int GENERATED ALWAYS AS (i * 2) STORED, ident bigint GENERATED ALWAYS AS IDENTITY);
		INSERT INTO things VALUES (1); SELECT fence.protect('things', 'things')`)
	token := w.grant("things", "p", "1").First()
	for _, c := range []struct{ column, in string }{
		{"b", `"AP8="`}, {"b", `{"$base64":"AP8"}`}, {"b", `{"$base64":"AP8=","x":"y"}`}, {"b", `{"base64":"AP8="}`}, {"b", `7`}, {"b", `["\\x00"]`}, {"b", `"\\xzz"`}, {"bs", `["AP8="]`},
		{"ts", `"2026-01-02T03:04:05Z"`}, {"ts", `"2026-01-02T03:04:05+01:00"`}, {"ts", `"2026-01-02 03:04:05 UTC"`}, {"tss", `["2026-01-02T03:04:05Z"]`}, {"st", `"2026-01-02T03:04:05-01"`}, {"ts", `"2026-01-02 03:04:05 Europe/Berlin"`}, {"ts", `"2026-01-02 03:04:05 EST"`}, {"ti", `"03:04+02"`},
		{"jp", `"$$$"`}, {"rc", `"no_such"`},
		{"i", `1.5`}, {"i", `"x"`}, {"i", `99999999999`}, {"i", `{}`}, {"n", `100`}, {"v", `"abc"`}, {"m", `{}`}, {"m", `[[1],[2,3]]`}, {"gen", "1"}, {"ident", "1"}, {"none", "1"},
	} {
		_, err := w.WriteRow(t.Context(), rowWrite(fence.OpPatch, "things", "1", fmt.Sprintf(`{%q:%s}`, c.column, c.in), token))
		var e *fence.Error
		if fence.CodeOf(err) != fence.CodeInvalidRequest {
			t.Errorf("%s = %s: %v", c.column, c.in, err)
		} else if e, _ = err.(*fence.Error); e == nil || e.Field != c.column {
			t.Errorf("%s = %s: the field is not named: %v", c.column, c.in, err)
		}
	}
	if w.mark("rows/public.things/1") != "0" {
		t.Error("the mark was raised")
	}
}

func TestEveryNumberAsText(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE DOMAIN price AS numeric; CREATE TABLE things (id int8 PRIMARY KEY, n numeric, p price, i int, arr int8[], f float8); INSERT INTO things VALUES (8200357849092798618, 1.10, 'NaN', 7, '{1,null}', 1.5);
		SELECT fence.protect('things', 'things')`)
	read := fence.RowRead{Row: fence.RowName{Table: "things", Key: []string{"8200357849092798618"}}, NumbersAsText: true}
	row, err := w.Row(t.Context(), read)
	if want := `{"id":"8200357849092798618","n":"1.10","p":"NaN","i":7,"arr":["1",null],"f":1.5}`; err != nil || string(row.JSON) != want {
		t.Errorf("%s, %v", row.JSON, err)
	}
	read.Shown = []string{"n"}
	if row, err = w.Row(t.Context(), read); err != nil || string(row.JSON) != `{"id":"8200357849092798618","n":"1.10"}` {
		t.Errorf("%s, %v", row.JSON, err)
	}
}

// Names that need quotes, in a second schema, and a key of two columns (pREST 200, PostgREST 2890).
func TestOddNames(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE SCHEMA "a.b"; CREATE TABLE "a.b"."Reply" ("User Id" int, "k,2" text, "select" text, "q""t" numeric, PRIMARY KEY ("User Id", "k,2"));
		SELECT fence.protect('"a.b"."Reply"', 'reply:{User Id}')`)
	token := w.grant("reply:7", "p", "1").First()
	put := fence.RowWrite{
		Op: fence.OpPut, Row: fence.RowName{Table: `"a.b"."Reply"`, Key: []string{"7", "x,y/%"}}, Access: fence.Access{Principal: "p", Token: token},
		Columns: []string{"select", `q"t`, "User Id"}, Body: json.RawMessage(`{"select":"; DROP TABLE wallets --","q\"t":1.50,"User Id":7}`),
	}
	row, err := w.WriteRow(t.Context(), put)
	wantCode(t, err, fence.CodeAccepted)
	if row.Resource != `rows/"a.b"."Reply"/7,x%2Cy%2F%25` || !strings.Contains(string(row.JSON), `"q\"t":1.50`) {
		t.Errorf("%s: %s", row.Resource, row.JSON)
	}
	again, err := w.WriteRow(t.Context(), put)
	if err != nil || !again.Replayed {
		t.Errorf("%+v, %v", again, err)
	}
}

// A partitioned parent is one table to the gateway (PostgREST 1253), whose rows stay where they belong.
func TestPartitions(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE days (day date, id int, n int, PRIMARY KEY (day, id)) PARTITION BY RANGE (day);
		CREATE TABLE jan PARTITION OF days FOR VALUES FROM ('2026-01-01') TO ('2026-02-01'); CREATE TABLE feb PARTITION OF days FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
		SELECT fence.protect('days', 'day:{day}')`)
	token := w.grant("day:2026-02-03", "p", "1").First()
	for i, want := range []bool{true, false} {
		row, err := w.WriteRow(t.Context(), rowWrite(fence.OpPut, "days", "2026-02-03,1", fmt.Sprintf(`{"n":%d}`, i), token+fence.Token(i)))
		if err != nil || row.Created != want || string(row.JSON) != fmt.Sprintf(`{"day":"2026-02-03","id":1,"n":%d}`, i) {
			t.Errorf("%+v, %v", row, err)
		}
	}
	if got := w.text("SELECT count(*)::text FROM feb"); got != "1" {
		t.Errorf("feb has %s rows", got)
	}
	other := w.grant("day:2027-01-01", "p", "1").First()
	_, err := w.WriteRow(t.Context(), rowWrite(fence.OpPut, "days", "2027-01-01,1", `{"n":1}`, other))
	wantCode(t, err, fence.CodeConstraintViolation) // no partition
}

// Three rows that leave a column with a volatile default out have three values (PostgREST 2966).
func TestVolatileDefaults(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE things (id int PRIMARY KEY, u uuid DEFAULT gen_random_uuid(), no bigint GENERATED BY DEFAULT AS IDENTITY, at timestamptz DEFAULT clock_timestamp()); SELECT fence.protect('things', 'things')`)
	token := w.grant("things", "worker-a", "1").First()
	var writes []fence.CommitWrite
	for i := range 3 {
		put := rowOf(fence.OpPut, "things", fmt.Sprint(i), token, `{}`)
		writes = append(writes, fence.CommitWrite{Row: &put})
	}
	if _, err := w.commit(writes...); err != nil {
		t.Fatal(err)
	}
	if got := w.text("SELECT count(DISTINCT u) || ' ' || count(DISTINCT no) || ' ' || count(DISTINCT at) FROM things"); got != "3 3 3" {
		t.Errorf("distinct values: %s", got)
	}
}
