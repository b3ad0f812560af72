package gateway

import (
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// verdictOnRead is what the preconditions make of a read.
type verdictOnRead int

const (
	readProceeds verdictOnRead = iota
	readNotModified
	readFails
)

// judgeRead applies the preconditions of a read of something that exists, in the order of RFC 9110, section
// 13.2.2: a tag outranks the date of the same kind. Dates that do not parse are ignored.
func judgeRead(h http.Header, mark fence.Token, modified time.Time) (verdictOnRead, error) {
	c, err := conditions(h)
	if err != nil {
		return readFails, err
	}
	modified = modified.Truncate(time.Second)
	date := func(name string) (time.Time, bool) {
		t, err := http.ParseTime(h.Get(name))
		return t, err == nil && !modified.IsZero()
	}
	if c.Match != nil || c.Exists {
		if !(fence.Condition{Match: c.Match}).Holds(mark) {
			return readFails, nil
		}
	} else if t, ok := date("If-Unmodified-Since"); ok && modified.After(t) {
		return readFails, nil
	}
	if len(h.Values("If-None-Match")) > 0 {
		if c.Absent || !(fence.Condition{NoneMatch: c.NoneMatch}).Holds(mark) {
			return readNotModified, nil
		}
	} else if t, ok := date("If-Modified-Since"); ok && !modified.After(t) {
		return readNotModified, nil
	}
	return readProceeds, nil
}

// rangeStands reports whether If-Range lets the range count. A date never does: it has seconds, and two bodies
// published in one second would be mixed (I6).
func rangeStands(h http.Header, mark fence.Token) bool {
	lines := h.Values("If-Range")
	if len(lines) == 0 {
		return true
	}
	t, rest, err := cutTag(lines[0])
	m, ok := t.mark()
	return len(lines) == 1 && err == nil && rest == "" && !t.weak && ok && m == mark
}
