package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// insertRow makes a row whose key the database completes. It spends the token on the table's own resource, and raises the
// mark of the new row, too, before the row is made.
func (s *Store) insertRow(ctx context.Context, w fence.RowWrite) (fence.Row, error) {
	var (
		row  fence.Row
		made []string
	)
	err := s.onTable(ctx, w.Row.Table, func(t *table) (fence.Code, error) {
		body, err := s.checkBody(ctx, t, w)
		if err != nil {
			row, made, err = s.replayedInsert(ctx, t, w, err)
			return "", err
		}
		var code fence.Code
		err = s.retry(ctx, func(ctx context.Context) (err error) {
			row, made, code, err = s.insert(ctx, t, w, body)
			return err
		})
		if fence.CodeOf(err) == fence.CodeForbidden || undefinedObject(err) {
			row, made, err = s.replayedInsert(ctx, t, w, err)
		}
		return code, err
	})
	if err != nil || made == nil {
		return row, err
	}
	w.Row.Key = made
	if row.Replayed {
		row, err = s.replayedRow(ctx, w, row)
	}
	if row.JSON != nil || !row.Replayed {
		row.Made = made
	}
	return row, err
}

// replayedInsert is replayedAnyway for an insert. It returns the key that was made.
func (s *Store) replayedInsert(ctx context.Context, t *table, w fence.RowWrite, bad error) (fence.Row, []string, error) {
	var (
		v    verdict
		made []string
	)
	err := s.query(ctx, "SELECT "+verdictColumns+", i.made FROM fence.replayed_insert($1, $2, $3, $4) i, LATERAL (SELECT (i.verdict).*) v",
		[]any{t.name, int64(w.Token), w.Principal, digestArg(rowDigest(w))}, append(v.dest(), &made)...)
	if err != nil || v.Code() != fence.CodeReplayed {
		return fence.Row{}, nil, bad
	}
	return fence.Row{State: v.State(), Created: true, Replayed: true}, made, nil
}

// insert sends, as one transaction: admit on the table's own resource, the making of the key, the row's mark, the row. The role
// changes between them, because defaults are the table's and marks the ledger's.
func (s *Store) insert(ctx context.Context, t *table, w fence.RowWrite, body string) (row fence.Row, made []string, code fence.Code, err error) {
	batch := &pgx.Batch{}
	batch.Queue("SELECT "+verdictColumns+", i.made FROM fence.admit_insert($1, $2, $3, $4, $5, $6, $7, $8, $9) i, LATERAL (SELECT (i.verdict).*) v",
		t.name, t.version, t.relation, t.shape, int64(w.Token), w.Principal, digestArg(rowDigest(w)), tokensArg(w.If.Match), tokensArg(w.If.NoneMatch))
	maker := w.As
	if t.keyIsIdentity {
		// An insert needs no right to the sequence of an identity column, but to ask for its next value does: the gateway has it.
		maker.Role = ""
	}
	first := queueBecome(batch, maker)
	sql, args := makeKeySQL(t, w, body)
	batch.Queue(sql, args...)
	if first > 0 {
		batch.Queue(sqlBecome, noClaims, roleNone)
	}
	batch.Queue("SELECT fence.admit_made($1, $2, $3)", t.name, int64(w.Token), w.Principal)
	second := queueBecome(batch, w.As)
	sql, args = changeSQL(t, w, body, "")
	batch.Queue(sql, args...)

	var (
		v       verdict
		text    *string
		created bool
		key     []*string
	)
	err = s.send(ctx, batch, func(results pgx.BatchResults) error {
		if err := results.QueryRow().Scan(append(v.dest(), &made)...); err != nil {
			return err
		}
		if err := becomes(results, first, maker); err != nil {
			return err
		}
		if err := results.QueryRow().Scan(&key); err != nil {
			return err
		}
		for range first + 1 {
			if _, err := results.Exec(); err != nil {
				return err
			}
		}
		if err := becomes(results, second, w.As); err != nil {
			return err
		}
		return scanChanged(results, &text, &created)
	})
	if err != nil {
		return row, nil, "", s.explainInsert(ctx, t, w, err)
	}
	code = v.Code()
	row = fence.Row{State: v.State(), Created: true, Replayed: code == fence.CodeReplayed}
	if code == fence.CodeAccepted {
		if made = make([]string, len(key)); text != nil {
			row.JSON = json.RawMessage(*text)
		}
		for i := range key {
			made[i] = deref(key[i])
		}
	}
	return row, made, code, v.err(w.Access)
}

// nameKey is nameField for a body that gives parts of the key.
func (s *Store) nameKey(ctx context.Context, t *table, w fence.RowWrite, e *fence.Error) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(w.Body, &members) != nil {
		return e
	}
	for i, name := range t.key {
		raw, given := members[name]
		var text string
		if given && fence.CodeOf(s.read(ctx, "SELECT fence.canonical($1, $2)", []any{t.keyTypes[i], scalarText(raw)}, &text)) == fence.CodeInvalidRequest {
			return e.In(name)
		}
	}
	return s.nameField(ctx, t, w.Row, &w, e)
}

// makeKeySQL makes the key of an admitted insert: parts that the body names are the body's, the others the columns' defaults. It
// leaves the key in the setting fence.made.
func makeKeySQL(t *table, w fence.RowWrite, body string) (string, []any) {
	args := []any{int64(w.Token), body}
	parts := make([]string, len(t.key))
	for i, name := range t.key {
		c, _ := t.column(name)
		args = append(args, name)
		given := fmt.Sprintf("($2::text::json OPERATOR(pg_catalog.->>) $%d::text)", len(args))
		made := "NULL"
		if c.defaultSQL != "" {
			made = "(" + c.defaultSQL + ")::" + c.typ + "::text"
		}
		parts[i] = "coalesce(" + given + ", " + made + ")"
	}
	return "WITH made AS MATERIALIZED (SELECT ARRAY[" + strings.Join(parts, ", ") + "] AS key WHERE fence.admitted($1)), " +
		"kept AS MATERIALIZED (SELECT pg_catalog.set_config('fence.made', pg_catalog.array_to_json(key)::text, true) FROM made) " +
		"SELECT (SELECT key FROM made WHERE (SELECT count(*) FROM kept) OPERATOR(pg_catalog.>) 0)", args
}

// madeKey are the values of the key that makeKeySQL made.
func madeKey(t *table) []string {
	values := make([]string, len(t.key))
	for i := range values {
		values[i] = keyValue(t, i, fmt.Sprintf("(NULLIF(pg_catalog.current_setting('fence.made', true), '')::json OPERATOR(pg_catalog.->>) %d)", i))
	}
	return values
}

// explainInsert is explain for an insert: the state that it adds is that of the table's own resource.
func (s *Store) explainInsert(ctx context.Context, t *table, w fence.RowWrite, err error) error {
	var e *fence.Error
	if !errors.As(err, &e) {
		return err
	}
	e.Token = w.Token
	switch e.Code {
	case fence.CodeInvalidRequest:
		switch {
		case sqlState(err) == stateOtherKey:
			return e.In(strings.Join(t.key, ","))
		case e.Field == "":
			return s.nameKey(ctx, t, w, e)
		}
		return err
	case fence.CodeUnavailable, fence.CodeOverloaded, fence.CodeOutcomeUnknown, fence.CodeContention:
		return err
	}
	if undefinedObject(err) {
		return s.blameValue(ctx, t, w, err)
	}
	if v, readErr := s.rowState(ctx, t, fence.RowName{Table: w.Row.Table}); readErr == nil {
		v.describe(e, w.Access)
	}
	return err
}
