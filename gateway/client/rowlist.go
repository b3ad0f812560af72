package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// RowQuery is which rows of a table are wanted, and how.
type RowQuery struct {
	// Filters all hold for the rows that are told. Defaults to none.
	Filters []fence.Filter
	// Columns are those that are told, in this order. Defaults to all that the caller may read.
	Columns []string
	// Order is completed by the columns of the key. Defaults to the order of the key.
	Order []fence.OrderBy
	// PageSize is how many rows are asked for at once, up to fence.MaxRows. Defaults to 100.
	PageSize int
	// NumbersAsText renders int8 and numeric values as JSON strings.
	NumbersAsText bool
}

// Where is a filter: Where("owner", fence.FilterEq, "ann"), Where("id", fence.FilterIn, "1", "2"), Where("note", fence.FilterIs, "null").
// Values are text, as PostgreSQL reads it for the column's type.
func Where(column string, op fence.FilterOp, values ...string) fence.Filter {
	return fence.Filter{Column: column, Op: op, Values: values}
}

// Rows tells the rows of a table that pass a query's filters, page by page, each as a JSON object with every digit that PostgreSQL
// has. It ends with the last row, or with an error. Pages are read one after another: a row that is inserted, deleted or moved
// meanwhile may be missed, and one that is moved told twice.
func (c *Client) Rows(ctx context.Context, table string, q RowQuery) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		list := fence.RowQuery{
			Table: table, Filters: q.Filters, Columns: q.Columns, Order: q.Order, Limit: q.PageSize, NumbersAsText: q.NumbersAsText,
		}
		for {
			page, err := c.ListRows(ctx, list)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, row := range page.Rows {
				if !yield(row, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			list.After = page.Next
		}
	}
}

// ListRows reads one page of a table's rows. Its token, identity and Shown are ignored: a list is of no one lease, and the gateway
// knows the others. A limit of 0 is the gateway's own.
func (c *Client) ListRows(ctx context.Context, q fence.RowQuery) (fence.RowPage, error) {
	path, err := listPath(q)
	if err != nil {
		return fence.RowPage{}, err
	}
	var prefer []string
	if q.NumbersAsText {
		prefer = append(prefer, "numbers=string")
	}
	if q.Count {
		prefer = append(prefer, "count=exact")
	}
	header := http.Header{}
	if prefer != nil {
		header.Set("Prefer", strings.Join(prefer, ", "))
	}
	var answer struct {
		Rows  []json.RawMessage `json:"rows"`
		Next  string            `json:"next"`
		Count *int64            `json:"count"`
	}
	err = c.do(ctx, &request{what: "rows.list", method: http.MethodGet, path: path, header: header, limit: c.within}, func(resp *http.Response) error {
		err := c.answer(resp, &answer)
		switch {
		case err != nil:
			return err
		case answer.Rows == nil:
			return errors.New("the answer is no list of rows")
		case answer.Next != "" && answer.Next == q.After:
			return errors.New("the answer's next page is the page itself")
		}
		return nil
	})
	if err != nil {
		return fence.RowPage{}, err
	}
	return fence.RowPage{Rows: answer.Rows, Next: answer.Next, Count: answer.Count}, nil
}

func listPath(q fence.RowQuery) (string, error) {
	if q.Table == "" {
		return "", fence.Errorf(fence.CodeInvalidRequest, "the table has no name").In("table")
	}
	v := url.Values{}
	for _, f := range q.Filters {
		if f.Op != fence.FilterIn && len(f.Values) != 1 {
			return "", fence.Errorf(fence.CodeInvalidRequest, "the filter %s takes one value", f.Op).In(f.Column)
		}
		v.Add(parameter(f.Column), string(f.Op)+"."+filterValue(f))
	}
	if q.Columns != nil {
		v.Set("select", commas(q.Columns, fence.QuoteColumn))
	}
	if q.Order != nil {
		v.Set("order", commas(q.Order, orderBy))
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.After != "" {
		v.Set("after", q.After)
	}
	return withQuery("/v1/rows/"+escape(q.Table), v), nil
}

// parameter names a column in a query. One that is called as a parameter is stands in quotes.
func parameter(column string) string {
	if slices.Contains([]string{"select", "order", "limit", "after"}, column) {
		return `"` + column + `"`
	}
	return fence.QuoteColumn(column)
}

func filterValue(f fence.Filter) string {
	if f.Op != fence.FilterIn {
		return f.Values[0]
	}
	escaped := strings.NewReplacer(`"`, `\"`, `\`, `\\`)
	return "(" + commas(f.Values, func(v string) string { return `"` + escaped.Replace(v) + `"` }) + ")"
}

func orderBy(o fence.OrderBy) string {
	by := fence.QuoteColumn(o.Column)
	if o.Descending {
		by += ".desc"
	}
	if o.Nulls != "" {
		by += ".nulls" + o.Nulls
	}
	return by
}

func commas[T any](list []T, write func(T) string) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = write(v)
	}
	return strings.Join(parts, ",")
}
