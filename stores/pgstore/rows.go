package pgstore

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// Row reads a row and its mark in one statement. A row that does not exist is CodeNotFound with its State.
func (s *Store) Row(ctx context.Context, r fence.RowRead) (fence.Row, error) {
	var row fence.Row
	name, by := r.Row, r.Access
	err := s.onTable(ctx, name.Table, func(t *table) (fence.Code, error) {
		var (
			v    verdict
			body *string
		)
		args := append(stateArgs(t, name, by), keyArgs(t, name.Key)...)
		err := s.read(ctx, readSQL(t, r.NumbersAsText), args, append(v.dest(), &body)...)
		switch {
		case err != nil:
			return "", s.explain(ctx, t, name, nil, err)
		case v.err(by) != nil:
			return v.Code(), v.err(by)
		case body == nil:
			return "", v.refusal(fence.CodeNotFound, by, "there is no such row")
		}
		row = fence.Row{State: v.State(), JSON: json.RawMessage(*body)}
		return v.Code(), nil
	})
	return row, err
}

// RowMark reads the mark of a row whether the row exists or not.
func (s *Store) RowMark(ctx context.Context, name fence.RowName) (fence.State, error) {
	var state fence.State
	err := s.onTable(ctx, name.Table, func(t *table) (fence.Code, error) {
		v, err := s.rowState(ctx, t, name)
		if err != nil {
			return "", s.explain(ctx, t, name, nil, err)
		}
		state = v.State()
		return v.Code(), v.err(fence.Access{})
	})
	return state, err
}

// WriteRow admits the write and changes the row, in one transaction.
func (s *Store) WriteRow(ctx context.Context, w fence.RowWrite) (fence.Row, error) {
	var row fence.Row
	err := s.onTable(ctx, w.Row.Table, func(t *table) (fence.Code, error) {
		if err := s.checkColumns(ctx, t, w); err != nil {
			return "", err
		}
		var code fence.Code
		write := func(ctx context.Context) (err error) {
			row, code, err = s.writeRow(ctx, t, w)
			return err
		}
		err := s.retry(ctx, write)
		switch {
		case w.Op == fence.OpPut && !w.If.Absent && violates(err, t.keyConstraint):
			// A writer that goes round the gateway inserted the row in between: replace it.
			err = s.retry(ctx, write)
		case fence.CodeOf(err) == fence.CodeWriteSuppressed:
			// A row that was absent can have come back before it was looked for. A trigger swallows the write again.
			err = s.retry(ctx, write)
		}
		return code, err
	})
	if err == nil && row.Replayed && w.Op != fence.OpDelete {
		return s.replayedRow(ctx, w, row)
	}
	return row, err
}

// onTable runs f with the description of a table, and once more with a fresh one when the first was out of date.
func (s *Store) onTable(ctx context.Context, relation string, f func(*table) (fence.Code, error)) error {
	for fresh := false; ; fresh = true {
		t, err := s.tables.get(ctx, relation, fresh)
		if err != nil {
			return err
		}
		code, err := f(t)
		if code != codeBindingChanged && !undefinedObject(err) && !errors.Is(err, errUnknownColumn) {
			return err
		}
		if fresh {
			if code == codeBindingChanged {
				return fence.Errorf(fence.CodeContention, "the protection of %s is being changed", t.name)
			}
			return err
		}
	}
}

// writeRow sends admit and change as one implicit transaction.
func (s *Store) writeRow(ctx context.Context, t *table, w fence.RowWrite) (fence.Row, fence.Code, error) {
	batch := &pgx.Batch{}
	queueRowWrite(batch, t, w)
	var (
		v       verdict
		body    *string
		created bool
	)
	err := s.send(ctx, batch, func(results pgx.BatchResults) error {
		if err := results.QueryRow().Scan(v.dest()...); err != nil {
			return err
		}
		// No row is no error here: nothing was admitted.
		if err := results.QueryRow().Scan(&body, &created); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return nil
	})
	if err != nil {
		return fence.Row{}, "", s.explain(ctx, t, w.Row, &w, err)
	}
	row := fence.Row{State: v.State(), Created: created, Replayed: v.Code() == fence.CodeReplayed}
	if row.Replayed {
		row.Created = deref(v.created)
	}
	if body != nil && w.Op != fence.OpDelete {
		row.JSON = json.RawMessage(*body)
	}
	return row, v.Code(), v.err(w.Access)
}

// queueAdmitAndChange queues mark and data, in this order and as two statements: the second needs a snapshot that is
// newer than every write the first has waited for.
func queueAdmitAndChange(batch *pgx.Batch, t *table, w fence.RowWrite) {
	batch.Queue("SELECT "+verdictColumns+" FROM fence.admit_row($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) v", admitRowArgs(t, w)...)
	sql, args := changeSQL(t, w)
	batch.Queue(sql, args...)
}

func admitRowArgs(t *table, w fence.RowWrite) []any {
	return []any{t.name, t.version, t.relation, t.shape, w.Row.Key, int64(w.Token), w.Principal, digestArg(rowDigest(w)), tokensArg(w.If.Match), tokensArg(w.If.NoneMatch)}
}

// replayedRow answers a replay with the row as it stands now; a row that is gone leaves JSON empty.
func (s *Store) replayedRow(ctx context.Context, w fence.RowWrite, row fence.Row) (fence.Row, error) {
	now, err := s.Row(ctx, fence.RowRead{Row: w.Row, Access: fence.Access{Principal: w.Principal}, NumbersAsText: w.NumbersAsText})
	switch fence.CodeOf(err) {
	case fence.CodeAccepted:
		row.JSON, row.State = now.JSON, now.State
	case fence.CodeNotFound:
	default:
		// The write is known to have been applied; only its row could not be read.
		return row, err
	}
	return row, nil
}

func (s *Store) rowState(ctx context.Context, t *table, name fence.RowName) (verdict, error) {
	var v verdict
	err := s.read(ctx, "SELECT "+verdictColumns+" FROM fence.row_state($1, $2, $3, $4, $5) v", stateArgs(t, name, fence.Access{}), v.dest()...)
	return v, err
}

func stateArgs(t *table, name fence.RowName, by fence.Access) []any {
	return []any{t.name, t.version, name.Key, tokenArg(by.Token), by.Principal}
}

// rowDigest identifies the request. The resource is not part of it: the digest is kept in the resource's own mark.
func rowDigest(w fence.RowWrite) fence.Digest {
	return fence.DigestOf("row", string(w.Op), conditionText(w.If), string(w.Body))
}
