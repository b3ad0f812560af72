package gateway

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// query holds the parameters of a request, each of them given once.
type query map[string]string

// readQuery reads the parameters that a path takes. One that it does not know is refused, and so is one that is given
// twice: to ignore either would answer another question than the client asked.
func readQuery(raw string, known ...string) (query, error) {
	q := query{}
	if raw == "" {
		return q, nil
	}
	for pair := range strings.SplitSeq(raw, "&") {
		rawName, rawValue, valued := strings.Cut(pair, "=")
		name, err := unescapeQuery("query", rawName)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(known, name) {
			return nil, fence.Errorf(fence.CodeInvalidRequest, "there is no parameter %q here (known: %s)",
				clip(name, maxField), strings.Join(known, ", ")).In(cmp.Or(name, "query"))
		}
		if !valued {
			return nil, fence.Errorf(fence.CodeInvalidRequest, "the parameter %s has no value: write %s=…", name, name).In(name)
		}
		if _, twice := q[name]; twice {
			return nil, fence.Errorf(fence.CodeInvalidRequest, "the parameter %s is given twice", name).In(name)
		}
		if q[name], err = unescapeQuery(name, rawValue); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// unescapeQuery decodes percent-encoding once, and + as a space, as forms do.
func unescapeQuery(what, s string) (string, error) {
	return unescape(what, strings.ReplaceAll(s, "+", " "))
}

// number returns a parameter that is a number between least and most, 0 when it is not given.
func (q query) number(name string, least, most int) (int, error) {
	s, given := q[name]
	if !given {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || int(n) < least || int(n) > most {
		return 0, fence.Errorf(fence.CodeInvalidRequest, "%s is a number from %d to %d", name, least, most).In(name)
	}
	return int(n), nil
}
