package gateway

import (
	"net/http"
	"slices"
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

// validator is what a read's preconditions are held against: the mark under which the bytes were published, and for those that never
// were the store's own tag as well.
type validator struct {
	mark fence.Token
	tag  string
}

func (v validator) entityTag() string { return objectTag(v.tag != "", v.tag, v.mark) }

func (v validator) is(t etag) bool {
	m, ok := t.mark()
	return ok && m == v.mark || v.tag != "" && t.value == v.tag
}

// judgeRead applies the preconditions of a read of something that exists, in the order of RFC 9110, section
// 13.2.2: a tag outranks the date of the same kind. Dates that do not parse are ignored.
func judgeRead(h http.Header, v validator, modified time.Time) (verdictOnRead, error) {
	match, matchAny, err := parseTags("If-Match", h.Values("If-Match"))
	if err != nil {
		return readFails, err
	}
	noneMatch, noneAny, err := parseTags("If-None-Match", h.Values("If-None-Match"))
	if err != nil {
		return readFails, err
	}
	modified = modified.Truncate(time.Second)
	date := func(name string) (time.Time, bool) {
		t, err := http.ParseTime(h.Get(name))
		return t, err == nil && !modified.IsZero()
	}
	if match != nil || matchAny {
		if !matchAny && !slices.ContainsFunc(match, func(t etag) bool { return !t.weak && v.is(t) }) {
			return readFails, nil
		}
	} else if t, ok := date("If-Unmodified-Since"); ok && modified.After(t) {
		return readFails, nil
	}
	if noneMatch != nil || noneAny {
		if noneAny || slices.ContainsFunc(noneMatch, v.is) {
			return readNotModified, nil
		}
	} else if t, ok := date("If-Modified-Since"); ok && !modified.After(t) {
		return readNotModified, nil
	}
	return readProceeds, nil
}

// rangeStands reports whether If-Range lets the range count. A date never does: it has seconds, and two bodies
// published in one second would be mixed (I6).
func rangeStands(h http.Header, v validator) bool {
	lines := h.Values("If-Range")
	if len(lines) == 0 {
		return true
	}
	t, rest, err := cutTag(lines[0])
	return len(lines) == 1 && err == nil && rest == "" && !t.weak && v.is(t)
}
