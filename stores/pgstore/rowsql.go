package pgstore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }

// keyMatch is the condition on the primary key, with parameters from first on. Parameters are text, cast to the type
// that the table was protected with, as the resource's name is.
func keyMatch(t *table, first int) string {
	parts := make([]string, len(t.key))
	for i, col := range t.key {
		parts[i] = "t." + ident(col) + " OPERATOR(pg_catalog.=) " + keyValue(t, i, first)
	}
	return strings.Join(parts, " AND ")
}

// keyValue is one part of it. A time is read under the settings that name the row: a trigger can have left others in the session.
func keyValue(t *table, i, first int) string {
	switch typ := t.keyTypes[i]; typ {
	case "date", "timestamp without time zone", "timestamp with time zone", "time with time zone":
		return fmt.Sprintf("fence.canonical('%s', $%d::text)::%s", typ, first+i, typ)
	}
	return fmt.Sprintf("$%d::text::%s", first+i, t.keyTypes[i])
}

// keyArgs pads missing parts with nulls; the function that names the row reports them.
func keyArgs(t *table, key []string) []any {
	args := make([]any, len(t.key))
	for i := range args {
		if i < len(key) {
			args[i] = key[i]
		}
	}
	return args
}

// rowJSON renders the row t as one JSON object with every digit that PostgreSQL has.
func rowJSON(t *table, numbersAsText bool) string {
	if !numbersAsText {
		return "pg_catalog.row_to_json(t.*)::text"
	}
	fields := make([]string, len(t.columns))
	for i, c := range t.columns {
		fields[i] = "t." + ident(c.name)
		switch c.base {
		case "bigint", "numeric":
			fields[i] += "::text"
		case "bigint[]", "numeric[]":
			fields[i] += "::text[]"
		}
		fields[i] += " AS " + ident(c.name)
	}
	return "(SELECT pg_catalog.row_to_json(q.*)::text FROM (SELECT " + strings.Join(fields, ", ") + ") q)"
}

func readSQL(t *table, numbersAsText bool) string {
	return "SELECT " + verdictColumns + ", (SELECT " + rowJSON(t, numbersAsText) + " FROM " + t.name + " AS t WHERE " + keyMatch(t, 6) +
		") FROM fence.row_state($1, $2, $3, $4, $5) v"
}

// changeSQL is the statement that changes the data of an admitted write. It returns the row and whether it is new, or
// nothing when the write was not admitted; it raises when the write was admitted and nothing changed. $1 is the token,
// $2 the body, the key follows.
func changeSQL(t *table, w fence.RowWrite) (string, []any) {
	args := []any{int64(w.Token)}
	first := 2
	if w.Op != fence.OpDelete {
		args = append(args, string(w.Body))
		first = 3
	}
	args = append(args, keyArgs(t, w.Row.Key)...)
	where := keyMatch(t, first) + " AND fence.admitted($1)"
	if w.If.Absent && w.Op != fence.OpPut {
		where += " AND false" // there is nothing to change in a row that must not be there
	}
	switch w.Op {
	case fence.OpDelete:
		return "WITH d AS (DELETE FROM " + t.name + " AS t WHERE " + where + " RETURNING true AS same) " +
			"SELECT ''::text, false FROM d UNION ALL " + undoUnless("d"), args
	case fence.OpPatch:
		cols := settableIn(t, w.Columns)
		return "WITH " + bodyRecord(cols) + ", u AS (" + updateSQL(t, w.NumbersAsText, cols, nil, where, keyMatch(t, first)) + ") " +
			"SELECT j, false FROM u UNION ALL " + undoUnless("u"), args
	}
	return putSQL(t, w, first, where), args
}

// putSQL updates first and inserts what was not there: an INSERT ... ON CONFLICT would fire the insert triggers of a
// replacement, and cannot tell the two apart on a partitioned table.
func putSQL(t *table, w fence.RowWrite, first int, where string) string {
	cols := settableIn(t, w.Columns)
	var left []column
	for _, c := range t.columns {
		if c.settable && !t.isKey(c.name) && !slices.Contains(cols, c) {
			left = append(left, c)
		}
	}
	names, values := make([]string, 0, len(t.key)+len(cols)), make([]string, 0, len(t.key)+len(cols))
	for i, k := range t.key {
		names, values = append(names, ident(k)), append(values, keyValue(t, i, first))
	}
	for _, c := range cols {
		names, values = append(names, ident(c.name)), append(values, "r."+ident(c.name))
	}
	update := updateSQL(t, w.NumbersAsText, cols, left, where, keyMatch(t, first))
	insertIf := "NOT EXISTS (SELECT 1 FROM u)"
	switch {
	case w.If.Absent:
		update = "SELECT NULL::text AS j, true AS same WHERE false"
		insertIf = "NOT EXISTS (SELECT 1 FROM " + t.name + " AS t WHERE " + keyMatch(t, first) + ")"
	case w.If.Exists:
		insertIf = "false"
	}
	return "WITH " + bodyRecord(cols) + ", u AS (" + update + "), i AS (INSERT INTO " + t.name + " AS t (" + strings.Join(names, ", ") + ")" +
		" OVERRIDING SYSTEM VALUE SELECT " + strings.Join(values, ", ") + " FROM r WHERE fence.admitted($1) AND " + insertIf +
		" RETURNING " + rowJSON(t, w.NumbersAsText) + " AS j, " + keyMatch(t, first) + " AS same) " +
		"SELECT j, false FROM u UNION ALL SELECT j, fence.note_created() FROM i UNION ALL " + undoUnless("u", "i")
}

// updateSQL sets cols from the record r and left to their defaults. With nothing to set the row is only locked.
func updateSQL(t *table, numbersAsText bool, cols, left []column, where, same string) string {
	set := make([]string, 0, len(cols)+len(left))
	for _, c := range cols {
		set = append(set, ident(c.name)+" = r."+ident(c.name))
	}
	for _, c := range left {
		set = append(set, ident(c.name)+" = DEFAULT")
	}
	if len(set) == 0 {
		return "SELECT " + rowJSON(t, numbersAsText) + " AS j, true AS same FROM " + t.name + " AS t WHERE " + where + " FOR UPDATE"
	}
	return "UPDATE " + t.name + " AS t SET " + strings.Join(set, ", ") + " FROM r WHERE " + where + " RETURNING " + rowJSON(t, numbersAsText) + " AS j, " + same + " AS same"
}

// bodyRecord turns the JSON body into a record r with the columns' own types: digits, json texts and arrays arrive as
// they were sent.
func bodyRecord(cols []column) string {
	if len(cols) == 0 {
		return "r AS (SELECT $2::text)"
	}
	defs := make([]string, len(cols))
	for i, c := range cols {
		defs[i] = ident(c.name) + " " + c.typ
	}
	return "r AS (SELECT * FROM pg_catalog.json_to_record($2::text::json) AS r(" + strings.Join(defs, ", ") + "))"
}

// undoUnless undoes the write unless exactly one row changed and still has the key that names it: a column's precision
// or a trigger may store another key, and a table altered since it was protected may have several such rows.
func undoUnless(ctes ...string) string {
	return "SELECT NULL, fence.undo(n) FROM (SELECT coalesce(sum(CASE WHEN same THEN 1 ELSE 2 END), 0) AS n FROM (SELECT same FROM " +
		strings.Join(ctes, " UNION ALL SELECT same FROM ") + ") changed) s WHERE fence.admitted($1) AND n <> 1"
}

// settableIn are the body's columns that are set; key columns never are.
func settableIn(t *table, names []string) []column {
	var cols []column
	for _, n := range names {
		if c, ok := t.column(n); ok && !t.isKey(n) {
			cols = append(cols, c)
		}
	}
	return cols
}
