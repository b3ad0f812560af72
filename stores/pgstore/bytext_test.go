package pgstore_test

import "testing"

// The two ways in which members are read are one: see byText.
func TestMembersByText(t *testing.T) {
	w := newWorld(t)
	for _, typ := range []string{"smallint", "integer", "bigint", "numeric", "boolean", "text", "uuid", "date", "timestamp with time zone", "timestamp without time zone"} {
		for _, v := range []string{`1`, `"1"`, `-0`, `1.0`, `1e2`, `1E+400`, `"1_0"`, `true`, `"t"`, `"yes"`, `null`, `"null"`, `{}`, `{"a" : [1,  2]}`, `[ 1 ,2]`, `"é"`, `"\u00e9"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\u0000"`, `""`,
			`" 5 "`, `"\t5\n"`, `"NaN"`, `"Infinity"`, `"epoch"`, `"2026-01-02"`, `"2026-01-02T03:04:05.1234567+05:30"`, `"2026-01-02T03:04:05Z"`, `"{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}"`, `"0x1F"`, `1,"c":2`, `{"c":3},"c":"4"`, `4,"\u0063":null`} {
			body := `{"c":` + v + `}`
			read := func(sql string) string {
				var s *string
				if err := w.db.QueryRow(t.Context(), sql, body).Scan(&s); err != nil {
					return "error"
				}
				if s == nil {
					return "null"
				}
				return "=" + *s
			}
			a := read("SELECT c::text FROM pg_catalog.json_to_record($1::text::json) AS r(c " + typ + ")")
			b := read("SELECT (b ->> E'c')::" + typ + "::text FROM (SELECT $1::text::json AS b OFFSET 0) x")
			if a != b {
				t.Errorf("%s of %s: %s, %s", typ, body, a, b)
			}
		}
	}
}
