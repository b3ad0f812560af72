package pgstore_test

import (
	"fmt"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// Of what PostgreSQL reads as a time without a zone, that is refused, and that only, which it reads as the same moment wherever it is.
func TestOffsetsAreNotDropped(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE things (id int PRIMARY KEY, ts timestamp, tr tsrange, tss timestamp[], d date, dr daterange, ti time, tms tsmultirange);
		INSERT INTO things VALUES (1); SELECT fence.protect('things', 'things')`)
	token := w.grant("things", "p", "1").First()
	write := func(column, value string) error {
		token++
		_, err := w.WriteRow(t.Context(), rowWrite(fence.OpPatch, "things", "1", fmt.Sprintf(`{%q:%q}`, column, value), token))
		return err
	}
	for _, stamp := range []string{
		"2026-01-02", "2026-01-02 03:04", "2026-01-02T03:04:05.5", "2026-01-02T030405", "20260102T030405", "20260102 030405.25", "2026-01-02 0304", "20260102", "January 8, 1999",
		"Jan 8 1999 04:05:06", "Mon Jan 8 04:05:06 1999", "8 January 1999", "8-Jan-1999 10:00", "1999-Jan-08", "0099-01-08 BC", "2026-01-02 03:04:05 PM", "0044-01-02 03:04:05 BC", "J2451187", "2026.002", "1999 Jan 08",
		"2026-01-02T03:04:05Z", "2026-01-02T030405Z", "20260102T030405+02", "20260102T030405.5 +02", "20260102 030405 EST", "2026-01-02 0304-08", "20260102T030405-0800", "2026-01-02 03:04 Europe/Berlin",
		"2026-01-02 03:04:05 PM PST", "January 8, 1999 04:05:06 PST", "2026-01-02 03:04:05+02:30", "2026-01-02T03:04:05 z", "J2451187 040506Z", "20260102T0304Z", "  2026-01-02 03:04:05 UTC",
	} {
		w.exec("SET timezone = 'Asia/Tokyo'")
		var there string
		err := w.db.QueryRow(t.Context(), "SELECT extract(epoch FROM $1::text::timestamptz)::text", stamp).Scan(&there)
		w.exec("SET timezone = 'UTC'")
		if err != nil {
			t.Logf("%q is no timestamp: %v", stamp, err)
			wantCode(t, write("ts", stamp), fence.CodeInvalidRequest)
			continue
		}
		want := fence.CodeInvalidRequest
		if here := w.text("SELECT extract(epoch FROM $1::text::timestamptz)::text", stamp); here != there {
			want = fence.CodeAccepted
		}
		for column, value := range map[string]string{"ts": stamp, "tr": `["` + stamp + `",)`, "tss": `{"2026-01-02 03:04:05","` + stamp + `"}`, "d": stamp, "dr": `[,"` + stamp + `")`, "tms": `{["1990-01-01 10:00","` + stamp + `"]}`} {
			err := write(column, value)
			if got := fence.CodeOf(err); got != want && !(column == "tms" && want == fence.CodeAccepted) {
				t.Errorf("%s = %s: %q (%v), want %q", column, value, got, err, want)
			}
		}
	}
	for clock, want := range map[string]fence.Code{"03:04": fence.CodeAccepted, "030405": fence.CodeAccepted, "030405+02": fence.CodeInvalidRequest, "0304 PM": fence.CodeAccepted, "03:04 PM": fence.CodeAccepted, "03:04:05Z": fence.CodeInvalidRequest} {
		if got := fence.CodeOf(write("ti", clock)); got != want {
			t.Errorf("ti = %s: %q, want %q", clock, got, want)
		}
	}
}
