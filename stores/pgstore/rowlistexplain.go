package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencegate/fencegate/fence"
)

// SQLSTATEs of what is gone since a table's description was read.
const (
	stateUndefinedTable  = "42P01"
	stateUndefinedColumn = "42703"
	stateUndefinedType   = "42704"
	stateNoSchema        = "3F000"
)

// explainList completes the error of a list: it names the filter or cursor whose value PostgreSQL could not read, and makes of
// what no query of a client's may cause, an internal error, what it is.
func (s *Store) explainList(ctx context.Context, l *listing, err error) error {
	state := sqlState(err)
	if state != stateNotSupported && ownersFault(err) != err {
		return err // which onTable tells, unless a fresh description helps
	}
	switch state {
	case "":
		return err
	case stateCanceled:
		return fence.Wrap(fence.CodeOverloaded, err, "the list took longer than it may: narrow it by filters, or sort by the key or by what has an index")
	case stateNoSchema:
		err = errors.Join(errUnknownColumn, err) // for onTable to look again
		fallthrough
	case stateUndefinedTable, stateUndefinedColumn, stateUndefinedType:
		return fence.Wrap(fence.CodeContention, err, "the table %s is being altered", l.table.name)
	case stateForbidden:
		return err
	}
	switch state[:2] {
	case "22", "23", "54", "42", "0A":
		return s.blame(ctx, l, err)
	}
	return err
}

// blame finds which value PostgreSQL cannot read, by asking for each alone. Where it can read all, the query asks for what the
// types cannot do (such as to compare rows with a json in them, or LIKE in a collation that ignores case).
func (s *Store) blame(ctx context.Context, l *listing, err error) error {
	for _, f := range l.filters {
		if f.op == fence.FilterIs {
			continue
		}
		if e := s.unreadable(ctx, f.column, f.values); e != nil {
			e.Message = fmt.Sprintf("the value of the filter %s on %s is not %s: %s", f.op, f.column.name, f.column.base, e.Message)
			return e.In(f.column.name)
		}
	}
	for i, v := range l.after {
		if v == nil {
			continue
		}
		if e := s.unreadable(ctx, l.order[i].column, []string{*v}); e != nil {
			return fence.Wrap(fence.CodeInvalidRequest, e, "after is no cursor that this gateway made").In("after")
		}
	}
	var e *fence.Error
	if errors.As(err, &e) && e.Code == fence.CodeInvalidRequest {
		return e
	}
	return fence.Wrap(fence.CodeInvalidRequest, err, "PostgreSQL cannot answer this query")
}

// unreadable returns the error of reading values for a column's type, nil when PostgreSQL can.
func (s *Store) unreadable(ctx context.Context, c column, values []string) *fence.Error {
	var n int64
	err := s.read(ctx, "SELECT pg_catalog.count(pg_catalog.format('%s', v.v::"+c.base+")) FROM pg_catalog.unnest($1::text[]) AS v(v)", []any{values}, &n)
	var e *fence.Error
	if errors.As(err, &e) && sqlState(err) != "" && (e.Code == fence.CodeInvalidRequest || e.Code == fence.CodeConstraintViolation) {
		return fence.Wrap(fence.CodeInvalidRequest, e.Err, "%s", e.Message)
	}
	return nil
}
