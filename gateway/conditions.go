package gateway

import (
	"net/http"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// etag is an entity tag (RFC 9110, section 8.8.3).
type etag struct {
	value string
	weak  bool
}

// mark returns the mark that the tag stands for. A tag of another form is valid and matches nothing.
func (t etag) mark() (fence.Token, bool) {
	if t.value == "0" {
		return 0, true
	}
	m, err := fence.ParseToken(t.value)
	return m, err == nil
}

// conditions reads If-Match and If-None-Match. If-Match compares strongly, so a weak tag matches nothing;
// If-None-Match compares weakly.
func conditions(h http.Header) (fence.Condition, error) {
	var c fence.Condition
	tags, star, err := parseTags("If-Match", h["If-Match"])
	if err != nil {
		return fence.Condition{}, err
	}
	c.Exists = star
	if tags != nil {
		c.Match = []fence.Token{}
	}
	for _, t := range tags {
		if m, ok := t.mark(); ok && !t.weak {
			c.Match = append(c.Match, m)
		}
	}
	tags, star, err = parseTags("If-None-Match", h["If-None-Match"])
	if err != nil {
		return fence.Condition{}, err
	}
	c.Absent = star
	for _, t := range tags {
		if m, ok := t.mark(); ok {
			c.NoneMatch = append(c.NoneMatch, m)
		}
	}
	return c, nil
}

// writeConditions is conditions for a write. A date is refused rather than ignored: it is too coarse to protect
// a write, and the client believes that it does.
func writeConditions(h http.Header) (fence.Condition, error) {
	for _, name := range []string{"If-Unmodified-Since", "If-Modified-Since"} {
		if lines := h[name]; len(lines) > 0 && lines[0] != "" {
			return fence.Condition{}, fence.Errorf(fence.CodeInvalidRequest, "a write cannot depend on a date, use If-Match").In(name)
		}
	}
	return conditions(h)
}

// parseTags reads "*" or a list of entity tags. Empty elements are allowed, an empty list is not.
func parseTags(name string, lines []string) (tags []etag, star bool, err error) {
	if len(lines) == 0 {
		return nil, false, nil
	}
	malformed := fence.Errorf(fence.CodeInvalidRequest, `%s is * or a list of entity tags such as "1001"`, name).In(name)
	rest := strings.Join(lines, ",")
	if strings.Trim(rest, " \t") == "*" {
		return nil, true, nil
	}
	for {
		rest = strings.TrimLeft(rest, " \t,")
		if rest == "" {
			break
		}
		var t etag
		t, rest, err = cutTag(rest)
		if err != nil {
			return nil, false, malformed
		}
		tags = append(tags, t)
		rest = strings.TrimLeft(rest, " \t")
		if rest != "" && rest[0] != ',' {
			return nil, false, malformed
		}
	}
	if tags == nil {
		return nil, false, malformed
	}
	return tags, false, nil
}

// cutTag reads the entity tag that s begins with.
func cutTag(s string) (t etag, rest string, err error) {
	s, t.weak = strings.CutPrefix(s, "W/")
	if !strings.HasPrefix(s, `"`) {
		return etag{}, "", fence.Errorf(fence.CodeInvalidRequest, "an entity tag is quoted")
	}
	value, rest, found := strings.Cut(s[1:], `"`)
	if !found || strings.ContainsFunc(value, notTagRune) {
		return etag{}, "", fence.Errorf(fence.CodeInvalidRequest, "the entity tag is malformed")
	}
	t.value = value
	return t, rest, nil
}

func notTagRune(r rune) bool { return r <= ' ' || r == 0x7f }
