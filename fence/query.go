package fence

import (
	"encoding/json"
	"strings"
)

// FilterOp is how a filter compares a column.
type FilterOp string

// The comparisons. FilterIn takes what the column is one of, which may be nothing, FilterIs one of null, not_null, true, false
// and unknown, FilterLike a pattern of SQL's LIKE. A null passes FilterIs only.
const (
	FilterEq   FilterOp = "eq"
	FilterNeq  FilterOp = "neq"
	FilterLt   FilterOp = "lt"
	FilterLte  FilterOp = "lte"
	FilterGt   FilterOp = "gt"
	FilterGte  FilterOp = "gte"
	FilterIn   FilterOp = "in"
	FilterIs   FilterOp = "is"
	FilterLike FilterOp = "like"
)

// MaxRows is how many rows a page can have.
const MaxRows = 1000

// Filter is a condition on one column. Values are text as PostgreSQL reads it for the column's type: one, or any number for
// FilterIn.
type Filter struct {
	Column string
	Op     FilterOp
	Values []string
}

// OrderBy is one column that rows are sorted by. Nulls come last, or first when the order is descending, as in PostgreSQL,
// unless Nulls says otherwise.
type OrderBy struct {
	Column     string
	Descending bool
	// Nulls is first, last, or empty.
	Nulls string
}

// RowQuery is a read of many rows of one table.
type RowQuery struct {
	Table string
	Access
	// Filters all hold for the rows that are read.
	Filters []Filter
	// Columns are shown, in this order; nil shows all that Shown allows.
	Columns []string
	// Shown is as in RowRead. A query may use no other column, not even to filter or sort by.
	Shown []string
	// Order is completed by the columns of the key, in the direction of the last of its own, so that it is total.
	Order []OrderBy
	// Limit is how many rows a page has at most, 1 to MaxRows. It has fewer where they are long.
	Limit int
	// After is the Next of the page before.
	After string
	// Count asks for the number of all rows that the filters let through.
	Count         bool
	NumbersAsText bool
}

// RowPage is one page of a query's rows.
type RowPage struct {
	// Rows are JSON objects with every digit that PostgreSQL has.
	Rows []json.RawMessage
	// Next is where the next page begins; empty on the last one.
	Next string
	// Count is nil when it was not asked for.
	Count *int64
}

// CutColumn cuts a column's name off the front of s, as SQL writes it: one in quotes stands as it is (a quote is doubled), another
// is folded to lower case and ends before a comma or dot, or at the end of s. ok is false where there is no name.
func CutColumn(s string) (name, rest string, ok bool) {
	if quote, found := strings.CutPrefix(s, `"`); found {
		name, rest, err := quoted(s, quote)
		return name, rest, err == nil && name != "" && strings.IndexByte(name, 0) < 0
	}
	end := strings.IndexAny(s, ",.")
	if end < 0 {
		end = len(s)
	}
	name = fold(s[:end])
	return name, s[end:], plain(name)
}

// QuoteColumn writes a column's name as CutColumn reads it, with quotes where they are needed.
func QuoteColumn(name string) string { return quoteIdentifier(name) }
