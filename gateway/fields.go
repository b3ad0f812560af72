package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// fields are the members of a small JSON object, still encoded.
type fields map[string]json.RawMessage

// readFields reads an optional JSON body whose members are among those allowed. A body of nothing is an object
// without members.
func (g *Gateway) readFields(w http.ResponseWriter, r *http.Request, allowed ...string) (fields, error) {
	body, err := g.readBody(w, r)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	if err := requireJSON(r.Header); err != nil {
		return nil, err
	}
	names, err := scanObject(body, g.cfg.MaxDepth)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if !slices.Contains(allowed, n) {
			known := cmp.Or(strings.Join(allowed, ", "), "none")
			return nil, fence.Errorf(fence.CodeInvalidRequest, "unknown field %q (known: %s)", n, known).In(n)
		}
	}
	var f fields
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, fence.Wrap(fence.CodeInvalidRequest, err, "the body is not a JSON object")
	}
	return f, nil
}

// text returns a member that is a string, and whether it is given.
func (f fields) text(name string) (string, bool, error) {
	raw, given := f[name]
	if !given {
		return "", false, nil
	}
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", true, fence.Errorf(fence.CodeInvalidRequest, "%s is a string", name).In(name)
	}
	return s, true, nil
}

// duration returns a member that is a duration between least and most, 0 when it is not given.
func (f fields) duration(name string, least, most time.Duration) (time.Duration, error) {
	s, given, err := f.text(name)
	if err != nil {
		return 0, fence.Errorf(fence.CodeInvalidRequest, `%s is a duration in a string, such as "30s"`, name).In(name)
	}
	if !given {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fence.Errorf(fence.CodeInvalidRequest, `%s is a duration such as "300ms", "30s" or "1h"`, name).In(name)
	}
	if d < least || d > most {
		return 0, fence.Errorf(fence.CodeInvalidRequest, "%s is between %v and %v, got %v", name, least, most, d).In(name)
	}
	return d, nil
}
