package gateway

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

const (
	// maxQuery is how long the query of a list is, maxFilters, maxValues (of one in) and maxOrder what it holds.
	maxQuery   = 48 << 10
	maxFilters = 100
	maxValues  = 1000
	maxOrder   = 16
)

// readRowQuery reads the query of a list of rows: the parameters select, order, limit and after, and a filter for every other,
// which names a column. Columns are written as in SQL in every place, so that one that is called select is "select".
func readRowQuery(raw string) (fence.RowQuery, error) {
	q := fence.RowQuery{Limit: defaultPage}
	if len(raw) > maxQuery {
		return q, fence.Errorf(fence.CodeInvalidRequest, "the query of a list has at most %d bytes, this one has %d", maxQuery, len(raw)).In("query")
	}
	if raw == "" {
		return q, nil
	}
	given := map[string]bool{}
	for pair := range strings.SplitSeq(raw, "&") {
		rawName, rawValue, valued := strings.Cut(pair, "=")
		name, err := unescapeQuery("query", rawName)
		if err != nil {
			return q, err
		}
		if !valued {
			return q, fence.Errorf(fence.CodeInvalidRequest, "the parameter %s has no value: write %s=…", clip(name, maxField), clip(name, maxField)).In(fieldOf(name))
		}
		value, err := unescapeQuery(fieldOf(name), rawValue)
		if err != nil {
			return q, err
		}
		if given[name] && reserved(name) {
			return q, fence.Errorf(fence.CodeInvalidRequest, "the parameter %s is given twice", name).In(name)
		}
		given[name] = true
		if err := readParameter(&q, name, value); err != nil {
			return q, err
		}
	}
	return q, nil
}

// fieldOf names a parameter in a refusal.
func fieldOf(name string) string {
	if name == "" {
		return "query"
	}
	return name
}

func reserved(name string) bool {
	return slices.Contains([]string{"select", "order", "limit", "after"}, name)
}

func readParameter(q *fence.RowQuery, name, value string) (err error) {
	switch name {
	case "select":
		q.Columns, err = readSelect(value)
	case "order":
		q.Order, err = readOrder(value)
	case "limit":
		q.Limit, err = query{"limit": value}.number("limit", 1, fence.MaxRows)
	case "after":
		q.After = value
	default:
		var f fence.Filter
		if f, err = readFilter(name, value); err != nil {
			return err
		}
		if len(q.Filters) == maxFilters {
			return fence.Errorf(fence.CodeInvalidRequest, "a list has at most %d filters", maxFilters).In(f.Column)
		}
		q.Filters = append(q.Filters, f)
	}
	return err
}

func readSelect(s string) ([]string, error) {
	var names []string
	for {
		name, rest, ok := fence.CutColumn(s)
		switch {
		case !ok || rest != "" && rest[0] != ',':
			return nil, fence.Errorf(fence.CodeInvalidRequest, `select takes columns separated by commas, quoted as in SQL where they need it: id,"User Id"`).In("select")
		case slices.Contains(names, name):
			return nil, fence.Errorf(fence.CodeInvalidRequest, "the column %q is selected twice", clip(name, maxField)).In("select")
		}
		names = append(names, name)
		if rest == "" {
			return names, nil
		}
		s = rest[1:]
	}
}

func readOrder(s string) ([]fence.OrderBy, error) {
	var order []fence.OrderBy
	for {
		name, rest, ok := fence.CutColumn(s)
		o := fence.OrderBy{Column: name}
		// An identifier in quotes may hold a comma, what follows it may not.
		how, more, another := strings.Cut(rest, ",")
		if ok {
			ok = readDirection(&o, how)
		}
		switch {
		case !ok:
			return nil, fence.Errorf(fence.CodeInvalidRequest,
				`order takes columns separated by commas, each with .asc or .desc and .nullsfirst or .nullslast behind it where wanted: owner.desc.nullslast,"User Id"`).In("order")
		case slices.ContainsFunc(order, func(other fence.OrderBy) bool { return other.Column == name }):
			return nil, fence.Errorf(fence.CodeInvalidRequest, "the rows are sorted by the column %q twice", clip(name, maxField)).In("order")
		case len(order) == maxOrder:
			return nil, fence.Errorf(fence.CodeInvalidRequest, "a list is sorted by at most %d columns", maxOrder).In("order")
		}
		order = append(order, o)
		if !another {
			return order, nil
		}
		s = more
	}
}

// readDirection reads what stands behind a column: nothing, or a direction, the place of the nulls, or both.
func readDirection(o *fence.OrderBy, s string) bool {
	if rest, found := strings.CutPrefix(s, ".asc"); found {
		s = rest
	} else if rest, found := strings.CutPrefix(s, ".desc"); found {
		s, o.Descending = rest, true
	}
	switch s {
	case "":
	case ".nullsfirst":
		o.Nulls = "first"
	case ".nullslast":
		o.Nulls = "last"
	default:
		return false
	}
	return true
}

// readFilter reads column=op.value. The value is what stands behind the first dot, as it is; only in has values with a syntax.
func readFilter(name, s string) (fence.Filter, error) {
	column, rest, ok := fence.CutColumn(name)
	switch {
	case !ok || rest != "":
		return fence.Filter{}, fence.Errorf(fence.CodeInvalidRequest,
			`%q is no column: quote its name as in SQL where it needs it, as in "User Id"=eq.1`, clip(name, maxField)).In(fieldOf(name))
	case reserved(column) && name[0] != '"':
		return fence.Filter{}, fence.Errorf(fence.CodeInvalidRequest, `write the parameter %s in lower case, or a column of that name in quotes`, column).In(name)
	}
	op, value, dotted := strings.Cut(s, ".")
	f := fence.Filter{Column: column, Op: fence.FilterOp(op), Values: []string{value}}
	known := slices.Contains(filterOps(), f.Op)
	switch {
	case !dotted || !known:
		return f, fence.Errorf(fence.CodeInvalidRequest, "a filter is %s=op.value, with an op of %s, not %q", clip(name, maxField), opNames(), clip(s, maxField)).In(column)
	case f.Op == fence.FilterIn:
		var err error
		f.Values, err = readList(value)
		if err != nil {
			return f, fence.Errorf(fence.CodeInvalidRequest, "%v", err).In(column)
		}
	case f.Op == fence.FilterIs && !slices.Contains([]string{"null", "not_null", "true", "false", "unknown"}, value):
		return f, fence.Errorf(fence.CodeInvalidRequest, "is takes null, not_null, true, false or unknown, not %q", clip(value, maxField)).In(column)
	}
	return f, nil
}

func filterOps() []fence.FilterOp {
	return []fence.FilterOp{
		fence.FilterEq, fence.FilterNeq, fence.FilterLt, fence.FilterLte, fence.FilterGt, fence.FilterGte, fence.FilterIn, fence.FilterIs, fence.FilterLike,
	}
}

func opNames() string {
	var names []string
	for _, op := range filterOps() {
		names = append(names, string(op))
	}
	return strings.Join(names, ", ")
}

type listError string

func (e listError) Error() string { return string(e) }

const malformedList = listError(`in takes values in parentheses, separated by commas: in.(a,"b,c"). One that is empty, begins or ends with a space, ` +
	`or has a comma, parenthesis, quote or backslash stands in quotes, with a backslash before each quote and backslash in it`)

// readList reads (a,"b,c"), or () for no value at all.
func readList(s string) ([]string, error) {
	s, opened := strings.CutPrefix(s, "(")
	s, closed := strings.CutSuffix(s, ")")
	if !opened || !closed {
		return nil, malformedList
	}
	if s == "" {
		return nil, nil
	}
	var values []string
	for {
		value, rest, ok := cutValue(s)
		if !ok || rest != "" && rest[0] != ',' {
			return nil, malformedList
		}
		if len(values) == maxValues {
			return nil, listError("in takes at most " + strconv.Itoa(maxValues) + " values")
		}
		values = append(values, value)
		if rest == "" {
			return values, nil
		}
		s = rest[1:]
	}
}

// cutValue cuts one value off the front of a list.
func cutValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexByte(s+",", ',')
		value = s[:end]
		return value, s[end:], value != "" && strings.Trim(value, " \t\r\n") == value && !strings.ContainsAny(value, `()"\`)
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
