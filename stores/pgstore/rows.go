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
		v, body, err := s.readRow(ctx, t, r)
		switch {
		case err != nil:
			return "", s.explain(ctx, t, name, nil, err)
		case v.err(by) != nil:
			return v.Code(), v.err(by)
		case body == nil:
			return "", v.refusal(fence.CodeNotFound, by, "there is no such row")
		case *body == "":
			return "", tooLong(t.name)
		}
		row = fence.Row{State: v.State(), JSON: json.RawMessage(*body), Created: deref(v.created)}
		return v.Code(), nil
	})
	return row, err
}

// readRow reads a row and its state in one snapshot: in one statement, or under another role in two, of which the first is the
// ledger's.
func (s *Store) readRow(ctx context.Context, t *table, r fence.RowRead) (v verdict, body *string, err error) {
	row := "SELECT " + readJSON(rowJSON(t, r.NumbersAsText, r.Shown)) + " FROM " + t.name + " AS t WHERE "
	args, key := stateArgs(t, r.Row, r.Access), keyArgs(t, r.Row.Key)
	if r.As == (fence.Identity{}) {
		sql := "SELECT " + verdictColumns + ", (" + row + keyMatch(t, len(args)+1) + ") FROM fence.row_state($1, $2, $3, $4, $5) v"
		err = s.read(ctx, sql, append(args, key...), append(v.dest(), &body)...)
		return v, body, err
	}
	batch := &pgx.Batch{}
	batch.Queue(sqlRowState, args...)
	queued := queueBecome(batch, r.As)
	batch.Queue(row+keyMatch(t, 1), key...)
	err = s.readSnapshot(ctx, batch, func(results pgx.BatchResults) error {
		if err := results.QueryRow().Scan(v.dest()...); err != nil {
			return err
		}
		if err := becomes(results, queued, r.As); err != nil {
			return err
		}
		if err := results.QueryRow().Scan(&body); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return nil
	})
	return v, body, err
}

// RowMark reads the mark of a row whether the row exists or not; without a key, that of the table's own resource.
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
	if w.Op == fence.OpInsert {
		return s.insertRow(ctx, w)
	}
	var row fence.Row
	err := s.onTable(ctx, w.Row.Table, func(t *table) (fence.Code, error) {
		body, err := s.checkBody(ctx, t, w)
		if err != nil {
			row, err = s.replayedAnyway(ctx, t, w, err)
			return "", err
		}
		var code fence.Code
		if e := s.entryOf(t, w, body); e != nil {
			alone, leave, err := s.together(ctx, e)
			if err != nil {
				return "", s.explain(ctx, t, w.Row, &w, err)
			}
			if !alone {
				row, code, err = s.rowResult(ctx, e)
				return code, err
			}
			defer leave()
		}
		write := func(ctx context.Context) (err error) {
			row, code, err = s.writeRow(ctx, t, w, body)
			return err
		}
		err = s.retry(ctx, write)
		if mayHaveRaced(w, t, err) {
			err = s.retry(ctx, write)
		}
		if fence.CodeOf(err) == fence.CodeForbidden {
			// The rights to a statement are checked whether it does anything or not.
			row, err = s.replayedAnyway(ctx, t, w, err)
		}
		return code, err
	})
	if err == nil && row.Replayed && w.Op != fence.OpDelete {
		return s.replayedRow(ctx, w, row)
	}
	return row, err
}

// replayedAnyway looks whether a write that cannot be made, because the table was altered perhaps, was carried out before.
func (s *Store) replayedAnyway(ctx context.Context, t *table, w fence.RowWrite, bad error) (fence.Row, error) {
	var v verdict
	err := s.query(ctx, "SELECT "+verdictColumns+" FROM fence.replayed_row($1, $2, $3, $4, $5) v",
		[]any{t.name, w.Row.Key, int64(w.Token), w.Principal, digestArg(rowDigest(w))}, v.dest()...)
	if err != nil || v.Code() != fence.CodeReplayed {
		return fence.Row{}, bad
	}
	return fence.Row{State: v.State(), Created: deref(v.created), Replayed: true}, nil
}

// mayHaveRaced reports whether an undone write may succeed when it is tried once more: a writer that goes round the gateway inserted the row
// in between, so that it is there to be replaced; or a row that was absent came back before it was looked for. A trigger swallows
// the write again.
func mayHaveRaced(w fence.RowWrite, t *table, err error) bool {
	return w.Op == fence.OpPut && !w.If.Absent && violates(err, t.keyConstraint) || fence.CodeOf(err) == fence.CodeWriteSuppressed
}

// onTable runs f with the description of a table, and again with a fresh one while what it had was out of date.
func (s *Store) onTable(ctx context.Context, relation string, f func(*table) (fence.Code, error)) error {
	t, err := s.tables.get(ctx, relation, false)
	if err != nil {
		return err
	}
	code, err := f(t)
	if !outOfDate(code, err) {
		return err
	}
	return s.onFreshTables(ctx, []string{relation}, map[string]*table{relation: t}, err,
		func(tables map[string]*table) (fence.Code, error) { return f(tables[relation]) })
}

// outOfDate reports whether what f of onTables returned may be due to a description that is older than its table.
func outOfDate(code fence.Code, err error) bool {
	return code == codeBindingChanged || undefinedObject(err) || errors.Is(err, errUnknownColumn)
}

// descriptions bounds how often a fresh description is asked for: tables that are altered faster are contention.
const descriptions = 5

// onTables is onTable for several tables, by the names under which they are asked for.
func (s *Store) onTables(ctx context.Context, relations []string, f func(map[string]*table) (fence.Code, error)) error {
	tables := make(map[string]*table, len(relations))
	for _, relation := range relations {
		t, err := s.tables.get(ctx, relation, false)
		if err != nil {
			return err
		}
		tables[relation] = t
	}
	code, err := f(tables)
	if !outOfDate(code, err) {
		return err
	}
	return s.onFreshTables(ctx, relations, tables, err, f)
}

// onFreshTables goes on with onTables after f had failed with the descriptions used.
func (s *Store) onFreshTables(ctx context.Context, relations []string, used map[string]*table, failed error, f func(map[string]*table) (fence.Code, error)) error {
	stood := 0 // how often nothing had changed
	for i := 1; ; i++ {
		tables := make(map[string]*table, len(relations))
		same := failed != nil
		for _, relation := range relations {
			if tables[relation] != nil {
				continue
			}
			t, err := s.tables.get(ctx, relation, true)
			if err != nil {
				return err
			}
			tables[relation] = t
			same = same && t.sameAs(used[relation])
		}
		if same {
			stood++
		}
		switch {
		case same && (stood > 2 || errors.Is(failed, errUnknownColumn)):
			// Not for the age of the descriptions. It may have been for that of a plan, or a name may have been gone and back.
			return ownersFault(failed)
		case i == descriptions:
			return fence.Wrap(fence.CodeContention, failed, "a table, or its protection, is being changed")
		}
		code, err := f(tables)
		if !outOfDate(code, err) {
			return err
		}
		used, failed = tables, err
	}
}

// writeRow sends admit and change as one implicit transaction. text is what PostgreSQL reads of the body.
func (s *Store) writeRow(ctx context.Context, t *table, w fence.RowWrite, text string) (fence.Row, fence.Code, error) {
	batch := &pgx.Batch{}
	queued := queueRowWrite(batch, t, w, text)
	var (
		v       verdict
		body    *string
		created bool
	)
	err := s.send(ctx, batch, func(results pgx.BatchResults) error {
		if err := results.QueryRow().Scan(v.dest()...); err != nil {
			return err
		}
		if err := becomes(results, queued, w.As); err != nil {
			return err
		}
		return scanChanged(results, &body, &created)
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

// scanChanged reads what a change returned. No row is no error here: nothing was admitted.
func scanChanged(results pgx.BatchResults, body **string, created *bool) error {
	if err := results.QueryRow().Scan(body, created); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return nil
}

// queueAdmitAndChange queues mark and data, in this order and as two statements: the second needs a snapshot that is
// newer than every write the first has waited for. Between them, as many statements as it returns change the role.
func queueAdmitAndChange(batch *pgx.Batch, t *table, w fence.RowWrite, text string) int {
	batch.Queue("SELECT "+verdictColumns+" FROM fence.admit_row($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) v", admitRowArgs(t, w)...)
	queued := queueBecome(batch, w.As)
	sql, args := changeSQL(t, w, text, "")
	batch.Queue(sql, args...)
	return queued
}

func admitRowArgs(t *table, w fence.RowWrite) []any {
	return []any{t.name, t.version, t.relation, t.shape, w.Row.Key, int64(w.Token), w.Principal, digestArg(rowDigest(w)), tokensArg(w.If.Match), tokensArg(w.If.NoneMatch)}
}

// replayedRow answers a replay with the row as it stands now; a row that is gone leaves JSON empty.
func (s *Store) replayedRow(ctx context.Context, w fence.RowWrite, row fence.Row) (fence.Row, error) {
	now, err := s.rowNow(ctx, w, fence.Access{Principal: w.Principal, As: w.As})
	if err != nil {
		// The write is known to have been applied; only its row could not be read.
		return row, err
	}
	row.JSON = now.JSON
	if w.Op != fence.OpInsert && now.JSON != nil {
		row.State = now.State
	}
	return row, nil
}

// rowNow is the row of a write that was carried out before, as it stands now: without JSON when it is gone, when it was deleted by
// the write, and when the writer may not read it any more.
func (s *Store) rowNow(ctx context.Context, w fence.RowWrite, by fence.Access) (fence.Row, error) {
	if w.Op == fence.OpDelete {
		state, err := s.RowMark(ctx, w.Row)
		return fence.Row{State: state}, err
	}
	row, err := s.Row(ctx, fence.RowRead{Row: w.Row, Access: by, NumbersAsText: w.NumbersAsText, Shown: w.Shown})
	switch fence.CodeOf(err) {
	case fence.CodeNotFound:
		var e *fence.Error
		if errors.As(err, &e) && e.State != nil {
			row.State = *e.State
		}
		return row, nil
	case fence.CodeForbidden, fence.CodeInvalidRequest, fence.CodeConstraintViolation, fence.CodeTooLarge:
		state, err := s.RowMark(ctx, w.Row)
		return fence.Row{State: state}, err
	}
	return row, err
}

const sqlRowState = "SELECT " + verdictColumns + " FROM fence.row_state($1, $2, $3, $4, $5) v"

func (s *Store) rowState(ctx context.Context, t *table, name fence.RowName) (verdict, error) {
	var v verdict
	if name.Key == nil {
		err := s.read(ctx, "SELECT "+verdictColumns+" FROM fence.table_state($1, $2, NULL, NULL) v", []any{t.name, t.version}, v.dest()...)
		return v, err
	}
	err := s.read(ctx, sqlRowState, stateArgs(t, name, fence.Access{}), v.dest()...)
	return v, err
}

func stateArgs(t *table, name fence.RowName, by fence.Access) []any {
	return []any{t.name, t.version, name.Key, tokenArg(by.Token), by.Principal}
}

// rowDigest identifies the request. The resource is not part of it: the digest is kept in the resource's own mark.
func rowDigest(w fence.RowWrite) fence.Digest {
	return fence.DigestOf("row", string(w.Op), conditionText(w.If), string(w.Body))
}
