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
func keyMatch(t *table, first int) string { return keyEquals(t, keyParams(t, first)) }

// keyEquals is the condition that the key has the values, which are SQL.
func keyEquals(t *table, values []string) string {
	parts := make([]string, len(t.key))
	for i, col := range t.key {
		parts[i] = "t." + ident(col) + " OPERATOR(pg_catalog.=) " + values[i]
	}
	return strings.Join(parts, " AND ")
}

func keyParams(t *table, first int) []string {
	values := make([]string, len(t.key))
	for i := range values {
		values[i] = keyValue(t, i, fmt.Sprintf("$%d", first+i))
	}
	return values
}

// keyValue is the value of one part of the key. A time is read under the settings that name the row: a trigger can have left others in the session.
func keyValue(t *table, i int, text string) string {
	switch typ := t.keyTypes[i]; typ {
	case "date", "timestamp without time zone", "timestamp with time zone", "time with time zone":
		return fmt.Sprintf("fence.canonical('%s', %s::text)::%s", typ, text, typ)
	}
	return fmt.Sprintf("%s::text::%s", text, t.keyTypes[i])
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

// maxRow is how many bytes of JSON a row may have that is answered: a few kilobytes of a numeric array can be a hundred megabytes.
const maxRow = 8 << 20

// bounded is the JSON of a row, which the column j of a subquery is, or otherwise where it is too long to be answered.
func bounded(j, otherwise string) string {
	return fmt.Sprintf("CASE WHEN pg_catalog.octet_length(%s) <= %d THEN %[1]s ELSE %[3]s END", j, maxRow, otherwise)
}

// readJSON is the JSON of a row that is read, empty where it is too long. The OFFSET keeps it from being made twice.
func readJSON(row string) string {
	return "(SELECT " + bounded("b.j", "''") + " FROM (SELECT " + row + " AS j OFFSET 0) b)"
}

// tooLong refuses to answer a row.
func tooLong(table string) error {
	return fence.Errorf(fence.CodeTooLarge, "a row is longer than %d MiB as JSON: list fewer columns of %s with select", maxRow>>20, table)
}

// rowJSON renders the row t as one JSON object with every digit that PostgreSQL has. shown lists the columns beside those of the
// key; nil is all.
func rowJSON(t *table, numbersAsText bool, shown []string) string {
	if !numbersAsText && shown == nil {
		return "pg_catalog.row_to_json(t.*)::text"
	}
	var fields []string
	for _, c := range t.columns {
		if shown != nil && !t.isKey(c.name) && !slices.Contains(shown, c.name) {
			continue
		}
		fields = append(fields, fieldSQL(c, numbersAsText)+" AS "+ident(c.name))
	}
	return "(SELECT pg_catalog.row_to_json(q.*)::text FROM (SELECT " + strings.Join(fields, ", ") + ") q)"
}

// fieldSQL is one column of the row t as its JSON shows it.
func fieldSQL(c column, numbersAsText bool) string {
	field := "t." + ident(c.name)
	if numbersAsText {
		switch c.base {
		case "bigint", "numeric":
			field += "::text"
		case "bigint[]", "numeric[]":
			field += "::text[]"
		}
	}
	return field
}

// change is the statement that changes the data of an admitted write.
type change struct {
	t *table
	w fence.RowWrite
	// args are the parameters so far. gate is the condition that the write was admitted, asked once, before any trigger; asked is the
	// query that asks. created is the call that remembers that the write made its row, key the values of the key, and where the
	// condition on the key and the gate.
	args                                []any
	asked, gate, created, where, record string
	key                                 []string
}

// changeSQL is the statement that changes the data of an admitted write. It returns the row and whether it is new, or
// nothing when the write was not admitted; it raises when the write was admitted and nothing changed. body is what PostgreSQL reads
// of the body. admitted is the resource of a write that is known to be admitted; else the statement asks.
func changeSQL(t *table, w fence.RowWrite, body, admitted string) (string, []any) {
	c := &change{t: t, w: w, gate: "true"}
	if admitted == "" {
		c.asked, c.gate = "g AS MATERIALIZED (SELECT fence.admitted("+c.param(int64(w.Token))+") AS ok), ", "(SELECT ok FROM g)"
		c.created = "fence.note_created()"
	} else if w.Op == fence.OpPut {
		c.created = "fence.note_created(" + c.param(admitted) + "::text)"
	}
	if w.Op != fence.OpDelete {
		c.record = bodyRecord(c.param(body), settableIn(t, w.Columns))
	}
	if w.Op == fence.OpInsert {
		c.key = madeKey(t)
	} else {
		c.key = keyParams(t, len(c.args)+1)
		c.args = append(c.args, keyArgs(t, w.Row.Key)...)
	}
	c.where = keyEquals(t, c.key) + " AND " + c.gate
	if w.If.Absent && w.Op != fence.OpPut {
		c.where += " AND false" // there is nothing to change in a row that must not be there
	}
	return "WITH " + c.asked + c.sql(), c.args
}

// param adds a parameter and returns its placeholder.
func (c *change) param(v any) string {
	c.args = append(c.args, v)
	return fmt.Sprintf("$%d", len(c.args))
}

func (c *change) sql() string {
	switch c.w.Op {
	case fence.OpDelete:
		return "d AS (DELETE FROM " + c.t.name + " AS t WHERE " + c.where + " RETURNING true AS same) " +
			"SELECT ''::text, false FROM d UNION ALL " + c.undoUnless("d")
	case fence.OpPatch:
		return c.record + ", u AS (" + c.update(nil) + ") SELECT " + bounded("j", "NULL") + ", false FROM u UNION ALL " + c.undoUnless("u")
	case fence.OpInsert:
		return c.record + ", i AS (" + c.insert("true") + ") SELECT " + bounded("j", "NULL") + ", " + c.created + " FROM i UNION ALL " + c.undoUnless("i")
	}
	return c.put()
}

// put updates first and inserts what was not there: an INSERT ... ON CONFLICT would fire the insert triggers of a
// replacement, and cannot tell the two apart on a partitioned table.
func (c *change) put() string {
	update, insertIf := c.update(leftOut(c.t, c.w)), "NOT EXISTS (SELECT 1 FROM u)"
	switch {
	case c.w.If.Absent:
		update = "SELECT NULL::text AS j, true AS same WHERE false"
		insertIf = "NOT EXISTS (SELECT 1 FROM " + c.t.name + " AS t WHERE " + keyEquals(c.t, c.key) + ")"
	case c.w.If.Exists:
		insertIf = "false"
	}
	return c.record + ", u AS (" + update + "), i AS (" + c.insert(insertIf) + ") " +
		"SELECT " + bounded("j", "NULL") + ", false FROM u UNION ALL SELECT " + bounded("j", "NULL") + ", " + c.created + " FROM i UNION ALL " + c.undoUnless("u", "i")
}

// insert inserts the record r under the key.
func (c *change) insert(when string) string {
	names, values := make([]string, 0, len(c.t.columns)), make([]string, 0, len(c.t.columns))
	for i, k := range c.t.key {
		names, values = append(names, ident(k)), append(values, c.key[i])
	}
	for _, col := range settableIn(c.t, c.w.Columns) {
		names, values = append(names, ident(col.name)), append(values, "r."+ident(col.name))
	}
	return "INSERT INTO " + c.t.name + " AS t (" + strings.Join(names, ", ") + ") OVERRIDING SYSTEM VALUE SELECT " + strings.Join(values, ", ") +
		" FROM r WHERE " + c.gate + " AND " + when + " RETURNING " + c.json() + " AS j, " + keyEquals(c.t, c.key) + " AS same"
}

// update sets the columns of the body from the record r, and left to their defaults. With nothing to set the row is only locked.
func (c *change) update(left []column) string {
	var set []string
	for _, col := range settableIn(c.t, c.w.Columns) {
		set = append(set, ident(col.name)+" = r."+ident(col.name))
	}
	for _, col := range left {
		set = append(set, ident(col.name)+" = DEFAULT")
	}
	if len(set) == 0 {
		return "SELECT " + c.json() + " AS j, true AS same FROM " + c.t.name + " AS t WHERE " + c.where + " FOR UPDATE"
	}
	return "UPDATE " + c.t.name + " AS t SET " + strings.Join(set, ", ") + " FROM r WHERE " + c.where +
		" RETURNING " + c.json() + " AS j, " + keyEquals(c.t, c.key) + " AS same"
}

func (c *change) json() string { return rowJSON(c.t, c.w.NumbersAsText, c.w.Shown) }

// undoUnless undoes the write unless exactly one row changed and still has the key that names it: a column's precision
// or a trigger may store another key, and a table altered since it was protected may have several such rows.
func (c *change) undoUnless(ctes ...string) string {
	return "SELECT NULL, fence.undo(n) FROM (SELECT coalesce(sum(CASE WHEN same THEN 1 ELSE 2 END), 0) AS n FROM (SELECT same FROM " +
		strings.Join(ctes, " UNION ALL SELECT same FROM ") + ") changed) s WHERE " + c.gate + " AND n <> 1"
}

// bodyRecord turns the JSON body into a record r with the columns' own types: digits, json texts and arrays arrive as
// they were sent.
func bodyRecord(body string, cols []column) string {
	if len(cols) == 0 {
		return "r AS (SELECT " + body + "::text)"
	}
	defs := make([]string, len(cols))
	for i, c := range cols {
		defs[i] = ident(c.name) + " " + c.typ
	}
	return "r AS (SELECT * FROM pg_catalog.json_to_record(" + body + "::text::json) AS r(" + strings.Join(defs, ", ") + "))"
}

// leftOut are the columns that a put resets, because its body does not name them.
func leftOut(t *table, w fence.RowWrite) []column {
	var left []column
	for _, c := range t.columns {
		if c.settable && !t.isKey(c.name) && !slices.Contains(w.Columns, c.name) {
			left = append(left, c)
		}
	}
	return left
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
