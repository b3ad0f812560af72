package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// explain completes an error of a write or read: it names the key part or column that PostgreSQL could not read, tells
// why an admitted write changed nothing, and adds the resource's state. The transaction was undone, so what it reads is
// what stands. w is nil for a read.
func (s *Store) explain(ctx context.Context, t *table, name fence.RowName, w *fence.RowWrite, err error) error {
	var e *fence.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case fence.CodeInvalidRequest:
		if sqlState(err) == stateOtherKey {
			return e.In(strings.Join(t.key, ","))
		}
		if e.Field == "" {
			return s.nameField(ctx, t, name, w, e)
		}
		return err
	case fence.CodeUnavailable, fence.CodeOverloaded, fence.CodeOutcomeUnknown, fence.CodeContention:
		if w != nil {
			e.Token = w.Token
		}
		return err
	}
	if w == nil {
		return err
	}
	if undefinedObject(err) {
		return s.blameValue(ctx, t, *w, err)
	}
	return s.explainUndone(ctx, t, *w, e)
}

// explainUndone tells apart why an admitted write was undone.
func (s *Store) explainUndone(ctx context.Context, t *table, w fence.RowWrite, e *fence.Error) error {
	v, exists, err := s.whatStands(ctx, t, w)
	if err != nil {
		return e
	}
	state := sqlState(e)
	sameKey := violates(e, t.keyConstraint)
	switch {
	case state != stateChangedNothing && !sameKey:
	case w.If.Absent && exists:
		e = fence.Wrap(fence.CodePreconditionFailed, e.Err, "the row exists")
	case w.If.Exists && !exists:
		e = fence.Wrap(fence.CodePreconditionFailed, e.Err, "the row does not exist")
	case exists:
		e = fence.Wrap(fence.CodeWriteSuppressed, e.Err, "a trigger or rule of the table swallowed the write")
	case w.Op == fence.OpPut && !sameKey:
		e = fence.Wrap(fence.CodeWriteSuppressed, e.Err, "a trigger or rule of the table swallowed the insert")
	case !sameKey:
		e = fence.Wrap(fence.CodeNotFound, e.Err, "there is no such row")
	}
	v.describe(e, w.Access)
	return e
}

// blameValue tells an error of a value (a regclass of no table, a jsonpath that cannot be read) from one of a table that is not as it was
// described: a column whose type can be used, and not with this value.
func (s *Store) blameValue(ctx context.Context, t *table, w fence.RowWrite, err error) error {
	if w.Op == fence.OpDelete {
		return err
	}
	for _, c := range settableIn(t, w.Columns) {
		var one int
		sql := "SELECT 1 FROM pg_catalog.json_to_record($1::text::json) AS r(" + ident(c.name) + " " + c.typ + ")"
		if bad := s.read(ctx, sql, []any{string(w.Body)}, &one); !undefinedObject(bad) || s.read(ctx, sql, []any{"{}"}, &one) != nil {
			continue
		}
		return fence.Errorf(fence.CodeInvalidRequest, "the value of %s is not %s", c.name, c.typ).In(c.name)
	}
	return err
}

// whatStands reads a row's state, and whether the writer sees a row that it may change: one that row security hides from it, or
// from its changes, is absent to it.
func (s *Store) whatStands(ctx context.Context, t *table, w fence.RowWrite) (v verdict, exists bool, err error) {
	find := "EXISTS (SELECT 1 FROM " + t.name + " AS t WHERE " + keyMatch(t, 1)
	seen := "SELECT " + find + ")"
	switch {
	case w.As == (fence.Identity{}):
	case w.Op == fence.OpDelete:
		// No lock is subject to the policies of deletes. A table without triggers and rules swallows nothing, so it is they.
		seen = fmt.Sprintf(`SELECT %s) AND (NOT pg_catalog.row_security_active(%d::oid)
			OR EXISTS (SELECT 1 FROM pg_catalog.pg_trigger g WHERE g.tgrelid = %[2]d AND NOT g.tgisinternal AND g.tgenabled <> 'D' AND g.tgtype & 8 <> 0))`, find, t.relation)
	default:
		seen = fmt.Sprintf("SELECT CASE WHEN pg_catalog.row_security_active(%d::oid) THEN %s FOR UPDATE) ELSE %[2]s) END", t.relation, find)
	}
	batch := &pgx.Batch{}
	batch.Queue(sqlRowState, stateArgs(t, w.Row, fence.Access{Principal: w.Principal})...)
	queued := queueBecome(batch, w.As)
	batch.Queue(seen, keyArgs(t, w.Row.Key)...)
	err = s.send(ctx, batch, func(results pgx.BatchResults) error {
		if err := results.QueryRow().Scan(v.dest()...); err != nil {
			return err
		}
		if err := becomes(results, queued, w.As); err != nil {
			return err
		}
		return results.QueryRow().Scan(&exists)
	})
	return v, exists, err
}

// nameField finds which key part or column PostgreSQL could not read, by asking for each alone.
func (s *Store) nameField(ctx context.Context, t *table, name fence.RowName, w *fence.RowWrite, e *fence.Error) error {
	for i, typ := range t.keyTypes {
		if i >= len(name.Key) {
			break
		}
		var text string
		err := s.read(ctx, "SELECT fence.canonical($1, $2)", []any{typ, name.Key[i]}, &text)
		if fence.CodeOf(err) == fence.CodeInvalidRequest {
			e.Message = fmt.Sprintf("the key part %s is not %s: %s", t.key[i], typ, e.Message)
			return e.In(t.key[i])
		}
	}
	if w == nil || w.Op == fence.OpDelete {
		return e
	}
	for _, c := range settableIn(t, w.Columns) {
		var one int
		err := s.read(ctx, "SELECT 1 FROM pg_catalog.json_to_record($1::text::json) AS r("+ident(c.name)+" "+c.typ+")", []any{string(w.Body)}, &one)
		if fence.CodeOf(err) == fence.CodeInvalidRequest {
			e.Message = fmt.Sprintf("the value of %s is not %s: %s", c.name, c.typ, e.Message)
			return e.In(c.name)
		}
	}
	return e
}
