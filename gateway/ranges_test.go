package gateway

import (
	"net/http"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
)

func TestRangeOf(t *testing.T) {
	for _, tc := range []struct {
		header  string
		size    int64
		want    span
		partial bool
		code    fence.Code
	}{
		{"bytes=0-3", 10, span{0, 4}, true, fence.CodeAccepted},
		{"bytes=4-", 10, span{4, 6}, true, fence.CodeAccepted},
		{"bytes=-3", 10, span{7, 3}, true, fence.CodeAccepted},
		{"bytes=-30", 10, span{0, 10}, true, fence.CodeAccepted},
		{"bytes=9-99", 10, span{9, 1}, true, fence.CodeAccepted},
		{"Bytes=0-0", 10, span{0, 1}, true, fence.CodeAccepted},
		{"bytes=0-99999999999999999999", 10, span{0, 10}, true, fence.CodeAccepted},
		{"bytes=, 1-2 ,", 10, span{1, 2}, true, fence.CodeAccepted},
		{"bytes=10-", 10, span{}, false, fence.CodeRangeNotSatisfiable},
		{"bytes=-0", 10, span{}, false, fence.CodeRangeNotSatisfiable},
		{"bytes=99999999999999999999-", 10, span{}, false, fence.CodeRangeNotSatisfiable},
		{"bytes=0-", 0, span{}, false, fence.CodeRangeNotSatisfiable},
		{"bytes=-1", 0, span{}, false, fence.CodeRangeNotSatisfiable},
		{"bytes=0-1,3-4", 10, span{}, false, fence.CodeRangeNotSatisfiable},
		{"bytes=3-1", 10, span{0, 10}, false, fence.CodeAccepted},
		{"bytes=x-1", 10, span{0, 10}, false, fence.CodeAccepted},
		{"bytes=-", 10, span{0, 10}, false, fence.CodeAccepted},
		{"bytes=5", 10, span{0, 10}, false, fence.CodeAccepted},
		{"bytes=+1-2", 10, span{0, 10}, false, fence.CodeAccepted},
		{"bytes=", 10, span{0, 10}, false, fence.CodeAccepted},
		{"lines=0-3", 10, span{0, 10}, false, fence.CodeAccepted},
	} {
		got, partial, err := rangeOf([]string{tc.header}, tc.size)
		if got != tc.want || partial != tc.partial || fence.CodeOf(err) != tc.code {
			t.Errorf("%s of %d: got %+v, %v, %v", tc.header, tc.size, got, partial, err)
		}
	}
}

func FuzzRange(f *testing.F) {
	f.Add("bytes=0-3", int64(10))
	f.Add("bytes=-9223372036854775808", int64(1))
	f.Add("bytes=9223372036854775807-", int64(9223372036854775807))
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		s, partial, err := rangeOf([]string{header}, size)
		if err != nil {
			return
		}
		if s.offset < 0 || s.length < 0 || s.offset > size-s.length || partial && s.length == 0 {
			t.Fatalf("%q of %d: %+v is outside", header, size, s)
		}
	})
}

func TestJudgeRead(t *testing.T) {
	modified := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	at := func(d time.Duration) string { return modified.Add(d).Format(http.TimeFormat) }
	type h = map[string]string
	for _, tc := range []struct {
		name   string
		header h
		want   verdictOnRead
	}{
		{"None", h{}, readProceeds},
		{"Match", h{"If-Match": `"7"`}, readProceeds},
		{"MatchStar", h{"If-Match": `*`}, readProceeds},
		{"MatchOther", h{"If-Match": `"6", "abc"`}, readFails},
		{"MatchWeak", h{"If-Match": `W/"7"`}, readFails},
		{"MatchOutranksUnmodified", h{"If-Match": `"7"`, "If-Unmodified-Since": at(-time.Hour)}, readProceeds},
		{"UnmodifiedSince", h{"If-Unmodified-Since": at(0)}, readProceeds},
		{"ModifiedSinceThen", h{"If-Unmodified-Since": at(-time.Second)}, readFails},
		{"NoneMatch", h{"If-None-Match": `"6"`}, readProceeds},
		{"NoneMatchHit", h{"If-None-Match": `"6","7"`}, readNotModified},
		{"NoneMatchWeakHit", h{"If-None-Match": `W/"7"`}, readNotModified},
		{"NoneMatchStar", h{"If-None-Match": `*`}, readNotModified},
		{"NoneMatchOutranksModified", h{"If-None-Match": `"6"`, "If-Modified-Since": at(0)}, readProceeds},
		{"ForeignTagOutranksModified", h{"If-None-Match": `"abc"`, "If-Modified-Since": at(0)}, readProceeds},
		{"NotModifiedSince", h{"If-Modified-Since": at(0)}, readNotModified},
		{"Modified", h{"If-Modified-Since": at(-time.Second)}, readProceeds},
		{"BadDate", h{"If-Modified-Since": "yesterday", "If-Unmodified-Since": "1"}, readProceeds},
		{"MatchFailsBeforeNoneMatch", h{"If-Match": `"6"`, "If-None-Match": `"7"`}, readFails},
	} {
		t.Run(tc.name, func(t *testing.T) {
			header := http.Header{}
			for k, v := range tc.header {
				header.Set(k, v)
			}
			if got, err := judgeRead(header, validator{mark: 7}, modified); err != nil || got != tc.want {
				t.Fatalf("got %v, %v", got, err)
			}
		})
	}
}

func TestRangeStands(t *testing.T) {
	for value, want := range map[string]bool{
		`"7"`: true, `"6"`: false, `W/"7"`: false, `"7" x`: false, `7`: false,
		"Fri, 02 Jan 2026 03:04:05 GMT": false,
	} {
		if got := rangeStands(http.Header{"If-Range": {value}}, validator{mark: 7}); got != want {
			t.Errorf("%s: %v", value, got)
		}
	}
	if !rangeStands(http.Header{}, validator{mark: 7}) {
		t.Error("without If-Range the range counts")
	}
}
