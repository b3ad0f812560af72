package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

const (
	// pageBytes is how many bytes of rows a page has before it ends: a thousand long rows are not held at once.
	pageBytes = 8 << 20
	// maxFilters and maxOrder bound a statement that a client makes up.
	maxFilters = 100
	maxOrder   = 16
)

// ListRows reads the rows of a table that pass filters, one page of them. Page and count are of one snapshot; two pages are
// of two: what is inserted, deleted or moved in between may be missed or, moved, seen twice. A token in the query is ignored,
// since a list is of no one lease.
func (s *Store) ListRows(ctx context.Context, q fence.RowQuery) (fence.RowPage, error) {
	var page fence.RowPage
	if err := checkBounds(q); err != nil {
		return page, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()
	err := s.onTable(ctx, q.Table, func(t *table) (fence.Code, error) {
		l, err := s.plan(ctx, t, q)
		if err != nil {
			return "", err
		}
		var code fence.Code
		page, code, err = s.page(ctx, l)
		return code, s.explainList(ctx, l, err)
	})
	return page, err
}

func checkBounds(q fence.RowQuery) error {
	switch {
	case q.Limit < 1 || q.Limit > fence.MaxRows:
		return fence.Errorf(fence.CodeInvalidRequest, "limit is a number from 1 to %d", fence.MaxRows).In("limit")
	case len(q.Filters) > maxFilters:
		return fence.Errorf(fence.CodeInvalidRequest, "a list has at most %d filters", maxFilters).In(q.Filters[maxFilters].Column)
	case len(q.Order) > maxOrder:
		return fence.Errorf(fence.CodeInvalidRequest, "a list is sorted by at most %d columns", maxOrder).In("order")
	}
	return nil
}

// listing is a query whose names were looked up in a table's description, and may be used.
type listing struct {
	table   *table
	query   fence.RowQuery
	shown   []column
	filters []filter
	order   []sortColumn
	// digest binds cursors to the query.
	digest []byte
	// after holds the values of order in the last row of the page before, nil for a null; none on the first page.
	after []*string
}

// filter is a condition on a column of the table.
type filter struct {
	column column
	by     comparison
	op     fence.FilterOp
	values []string
}

// sortColumn is a column that the rows are sorted by.
type sortColumn struct {
	column     column
	by         comparison
	descending bool
	nullsFirst bool
	// notNull tells that there are no nulls.
	notNull bool
}

// plan looks up what a query names. A column that may not be read is refused whether it exists or not.
func (s *Store) plan(ctx context.Context, t *table, q fence.RowQuery) (*listing, error) {
	l := &listing{table: t, query: q}
	var err error
	if l.shown, err = shownColumns(t, q); err != nil {
		return nil, err
	}
	for _, f := range q.Filters {
		c, err := usable(t, q, f.Column)
		if err != nil {
			return nil, err
		}
		l.filters = append(l.filters, filter{column: c, op: f.Op, values: f.Values})
	}
	if l.order, err = totalOrder(t, q); err != nil {
		return nil, err
	}
	if err := s.lookUpComparisons(ctx, l); err != nil {
		return nil, err
	}
	for _, f := range l.filters {
		if err := f.check(); err != nil {
			return nil, err
		}
	}
	l.digest = l.bound()
	if q.After != "" {
		if l.after, err = readCursor(q.After, l.digest, len(l.order)); err != nil {
			return nil, err
		}
		err = s.lookUpNulls(ctx, l)
	}
	return l, err
}

// lookUpNulls asks whether the first column of the order can be null, where an index cannot begin where the page does if it can.
func (s *Store) lookUpNulls(ctx context.Context, l *listing) error {
	o := &l.order[0]
	if o.notNull || o.nullsFirst || l.after[0] == nil {
		return nil
	}
	err := s.read(ctx, "SELECT a.attnotnull FROM pg_catalog.pg_attribute a WHERE a.attrelid = $1 AND a.attname = $2 AND NOT a.attisdropped",
		[]any{l.table.relation, o.column.name}, &o.notNull)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // the column is gone, as the list will find
	}
	return err
}

// usable returns a column that the query may use.
func usable(t *table, q fence.RowQuery, name string) (column, error) {
	if q.Shown != nil && !t.isKey(name) && !slices.Contains(q.Shown, name) {
		return column{}, fence.Errorf(fence.CodeForbidden, "this principal may not read the column %q of %s", clip(name), t.name).In(name)
	}
	c, ok := t.column(name)
	if !ok {
		return column{}, fence.Wrap(fence.CodeInvalidRequest, errUnknownColumn, "%s has no column %q", t.name, clip(name)).In(name)
	}
	return c, nil
}

func shownColumns(t *table, q fence.RowQuery) ([]column, error) {
	var shown []column
	if q.Columns == nil {
		for _, c := range t.columns {
			if q.Shown == nil || t.isKey(c.name) || slices.Contains(q.Shown, c.name) {
				shown = append(shown, c)
			}
		}
		return shown, nil
	}
	for i, name := range q.Columns {
		c, err := usable(t, q, name)
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(q.Columns[:i], name):
			return nil, fence.Errorf(fence.CodeInvalidRequest, "the column %q is selected twice", clip(name)).In("select")
		}
		shown = append(shown, c)
	}
	if len(shown) == 0 {
		return nil, fence.Errorf(fence.CodeInvalidRequest, "at least one column is selected").In("select")
	}
	return shown, nil
}

// totalOrder completes the query's order by the columns of the key, in the direction of the last one of its own: an index on
// both serves it.
func totalOrder(t *table, q fence.RowQuery) ([]sortColumn, error) {
	var order []sortColumn
	add := func(o fence.OrderBy) error {
		c, err := usable(t, q, o.Column)
		if err != nil {
			return err
		}
		by := sortColumn{column: c, descending: o.Descending, nullsFirst: o.Descending, notNull: t.neverNull(c)}
		switch {
		case slices.ContainsFunc(order, func(s sortColumn) bool { return s.column.name == c.name }):
			return fence.Errorf(fence.CodeInvalidRequest, "the rows are sorted by the column %q twice", clip(c.name)).In("order")
		case o.Nulls != "" && o.Nulls != "first" && o.Nulls != "last":
			return fence.Errorf(fence.CodeInvalidRequest, "nulls come first or last").In("order")
		case o.Nulls != "" && !by.notNull: // where there are none an index need not know
			by.nullsFirst = o.Nulls == "first"
		}
		order = append(order, by)
		return nil
	}
	for _, o := range q.Order {
		if err := add(o); err != nil {
			return nil, err
		}
	}
	down := len(order) > 0 && order[len(order)-1].descending
	for _, k := range t.key {
		if slices.ContainsFunc(order, func(s sortColumn) bool { return s.column.name == k }) {
			continue
		}
		if err := add(fence.OrderBy{Column: k, Descending: down}); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// neverNull reports a column of a primary key. A view's key is declared only.
func (t *table) neverNull(c column) bool { return t.keyConstraint != "" && t.isKey(c.name) }

// page runs the statements of a list. Its snapshot also tells whether the table is protected as it was when it was described.
func (s *Store) page(ctx context.Context, l *listing) (fence.RowPage, fence.Code, error) {
	batch := &pgx.Batch{}
	limit := s.cfg.ReadTimeout * 9 / 10
	if l.query.Count {
		limit /= 2
	}
	// The server gives up before this side does, which would cost the connection.
	batch.Queue("SELECT pg_catalog.set_config('statement_timeout', $1, true)", strconv.FormatInt(max(1, limit.Milliseconds()), 10))
	batch.Queue("SELECT EXISTS (SELECT FROM fence.protected p WHERE p.kind = 'table' AND p.name = $1 AND p.prefix = '' AND p.version = $2)", l.table.name, l.table.version)
	queued := queueBecome(batch, l.query.As)
	queue(batch, l.pageSQL())
	if l.query.Count {
		queue(batch, l.countSQL())
	}
	var (
		page fence.RowPage
		same bool
	)
	err := s.readSnapshot(ctx, batch, func(results pgx.BatchResults) error {
		if _, err := results.Exec(); err != nil {
			return err
		}
		if err := results.QueryRow().Scan(&same); err != nil || !same {
			return err
		}
		if err := becomes(results, queued, l.query.As); err != nil {
			return err
		}
		rows, err := results.Query()
		if err != nil {
			return err
		}
		if page, err = l.collect(rows); err != nil || !l.query.Count {
			return err
		}
		page.Count = new(int64)
		return results.QueryRow().Scan(page.Count)
	})
	if err == nil && !same {
		return page, codeBindingChanged, nil
	}
	return page, fence.CodeAccepted, err
}

func queue(batch *pgx.Batch, s statement) { batch.Queue(s.sql, s.args...) }

// collect takes rows until the page is full. The statement asks for one more than the page has, which tells that another
// follows.
func (l *listing) collect(rows pgx.Rows) (fence.RowPage, error) {
	defer rows.Close()
	page := fence.RowPage{Rows: []json.RawMessage{}}
	var row string
	last, size := make([]*string, len(l.order)), 0
	dest := []any{&row}
	for i := range last {
		dest = append(dest, &last[i])
	}
	for rows.Next() {
		if len(page.Rows) == l.query.Limit || size >= pageBytes {
			next, err := l.cursor(last)
			page.Next = next
			return page, err
		}
		if err := rows.Scan(dest...); err != nil {
			return page, err
		}
		if row == "" {
			return page, tooLong(l.table.name)
		}
		size += len(row)
		page.Rows = append(page.Rows, json.RawMessage(row))
	}
	return page, rows.Err()
}
