package gateway

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// span is a run of bytes of a body.
type span struct{ offset, length int64 }

// contentRange is the value of Content-Range for the span of a body of size bytes.
func (s span) contentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", s.offset, s.offset+s.length-1, size)
}

// rangeOf reads a Range header against a body of size bytes. A header that is malformed or of another unit is
// ignored, as RFC 9110 has it: the answer is then the whole body (partial is false).
func rangeOf(lines []string, size int64) (s span, partial bool, err error) {
	whole := span{0, size}
	if len(lines) != 1 {
		return whole, false, nil
	}
	unit, set, found := strings.Cut(lines[0], "=")
	if !found || !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return whole, false, nil
	}
	var spans []span
	for spec := range strings.SplitSeq(set, ",") {
		if spec = strings.Trim(spec, " \t"); spec == "" {
			continue
		}
		one, ok := parseSpan(spec, size)
		if !ok {
			return whole, false, nil
		}
		spans = append(spans, one)
	}
	switch {
	case len(spans) == 0:
		return whole, false, nil
	case len(spans) > 1:
		return span{}, false, fence.Errorf(fence.CodeRangeNotSatisfiable, "ask for one range at a time, got %d", len(spans)).In("Range")
	case spans[0].length <= 0:
		return span{}, false, fence.Errorf(fence.CodeRangeNotSatisfiable, "the range lies outside the body, which has %d bytes", size).In("Range")
	}
	return spans[0], true, nil
}

// parseSpan reads first-last, first- or -suffix. A span that lies outside the body has no length.
func parseSpan(spec string, size int64) (span, bool) {
	first, last, found := strings.Cut(spec, "-")
	if !found {
		return span{}, false
	}
	if first == "" {
		n, ok := parseOffset(last)
		n = min(n, size)
		return span{size - n, n}, ok
	}
	from, ok := parseOffset(first)
	if !ok {
		return span{}, false
	}
	to := int64(math.MaxInt64)
	if last != "" {
		if to, ok = parseOffset(last); !ok || to < from {
			return span{}, false
		}
	}
	if from >= size {
		return span{from, 0}, true
	}
	return span{from, min(to, size-1) - from + 1}, true
}

// parseOffset reads decimal digits. What is too large for an int64 lies beyond every body.
func parseOffset(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, _ := strconv.ParseInt(s, 10, 64) // the largest int64 when out of range
	return n, true
}
