package pgstore

import (
	"context"

	"github.com/fencegate/fencegate/fence"
)

// PageSQL returns the statement of a page and its parameters.
func (s *Store) PageSQL(ctx context.Context, q fence.RowQuery) (string, []any, error) {
	t, err := s.tables.get(ctx, q.Table, true)
	if err != nil {
		return "", nil, err
	}
	l, err := s.plan(ctx, t, q)
	if err != nil {
		return "", nil, err
	}
	page := l.pageSQL()
	return page.sql, page.args, nil
}
