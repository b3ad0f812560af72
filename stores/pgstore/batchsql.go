package pgstore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// batchChange is a statement that changes the rows of many writes, as change does of one. The admitted writes are the rows of g.
type batchChange struct {
	t    *table
	w    fence.RowWrite // one of them
	key  []string       // the values of the key, which are SQL
	cols []column       // that are set
}

// sql is what stands behind g. Each of its rows is a write's place, its row and whether that is new.
func (c *batchChange) sql() string {
	switch c.w.Op {
	case fence.OpDelete:
		return "u AS (DELETE FROM " + c.t.name + " AS t USING g WHERE " + keyEquals(c.t, c.key) + " RETURNING g.item, ''::text AS j, true AS same, false AS created) " + c.answer("u")
	case fence.OpPatch:
		return "u AS (" + c.update(nil) + ") " + c.answer("u")
	}
	return c.put()
}

// byText lists the types whose values json_to_record reads from the text of a member, and that text can be cast to with the same result: they
// have no modifier that a cast would follow in another way. To read one or two members like this is faster.
func byText(cols []column) bool {
	const few = 4
	return len(cols) <= few && !slices.ContainsFunc(cols, func(c column) bool {
		switch c.typ {
		case "smallint", "integer", "bigint", "numeric", "boolean", "text", "uuid", "date", "timestamp with time zone", "timestamp without time zone":
			return false
		}
		return true
	})
}

// value is what a column is set to.
func (c *batchChange) value(col column) string {
	if byText(c.cols) {
		return "(g.body OPERATOR(pg_catalog.->>) " + quoteText(col.name) + ")::" + col.typ
	}
	return "r." + ident(col.name)
}

// quoteText is a text constant.
func quoteText(s string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, "'", `''`).Replace(s) + "'"
}

// record reads the body of a write of g as the record r, as bodyRecord does.
func (c *batchChange) record() string {
	if len(c.cols) == 0 || byText(c.cols) {
		return ""
	}
	defs := make([]string, len(c.cols))
	for i, col := range c.cols {
		defs[i] = ident(col.name) + " " + col.typ
	}
	return " CROSS JOIN LATERAL pg_catalog.json_to_record(g.body) AS r(" + strings.Join(defs, ", ") + ")"
}

func (c *batchChange) update(left []column) string {
	var set []string
	for _, col := range c.cols {
		set = append(set, ident(col.name)+" = "+c.value(col))
	}
	for _, col := range left {
		set = append(set, ident(col.name)+" = DEFAULT")
	}
	if len(set) == 0 {
		return "SELECT g.item, " + c.json() + " AS j, true AS same, false AS created FROM " + c.t.name + " AS t JOIN g ON " + keyEquals(c.t, c.key) + " FOR UPDATE OF t"
	}
	return "UPDATE " + c.t.name + " AS t SET " + strings.Join(set, ", ") + " FROM g" + c.record() + " WHERE " + keyEquals(c.t, c.key) +
		" RETURNING g.item, " + c.json() + " AS j, " + keyEquals(c.t, c.key) + " AS same, false AS created"
}

func (c *batchChange) json() string { return rowJSON(c.t, c.w.NumbersAsText, c.w.Shown) }

// put updates first and inserts what was not there, as change.put does. What an insert returns does not name the write: it is found
// again by its key.
func (c *batchChange) put() string {
	update, insertIf := c.update(leftOut(c.t, c.w)), "NOT EXISTS (SELECT 1 FROM u WHERE u.item OPERATOR(pg_catalog.=) g.item)"
	switch {
	case c.w.If.Absent:
		update = "SELECT NULL::integer AS item, NULL::text AS j, true AS same, false AS created WHERE false"
		insertIf = "NOT EXISTS (SELECT 1 FROM " + c.t.name + " AS t WHERE " + keyEquals(c.t, c.key) + ")"
	case c.w.If.Exists:
		insertIf = "false"
	}
	names, values := make([]string, 0, len(c.t.columns)), make([]string, 0, len(c.t.columns))
	returned, found := make([]string, len(c.t.key)), make([]string, len(c.t.key))
	for i, k := range c.t.key {
		names, values = append(names, ident(k)), append(values, c.key[i])
		returned[i] = fmt.Sprintf("t.%s AS k%d", ident(k), i)
		found[i] = fmt.Sprintf("i.k%d OPERATOR(pg_catalog.=) %s", i, c.key[i])
	}
	for _, col := range c.cols {
		names, values = append(names, ident(col.name)), append(values, c.value(col))
	}
	return "u AS (" + update + "), i AS (INSERT INTO " + c.t.name + " AS t (" + strings.Join(names, ", ") + ") OVERRIDING SYSTEM VALUE SELECT " + strings.Join(values, ", ") +
		" FROM g" + c.record() + " WHERE " + insertIf + " RETURNING " + c.json() + " AS j, " + strings.Join(returned, ", ") + ")," +
		" n AS (SELECT g.item, i.j, true AS same, true AS created, g.resource FROM i JOIN g ON " + strings.Join(found, " AND ") + "), " +
		"noted AS MATERIALIZED (SELECT fence.note_created(pg_catalog.array_agg(n.resource)) AS ok FROM n HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 0), " +
		"b AS (SELECT * FROM u UNION ALL SELECT n.item, n.j, n.same, n.created FROM n WHERE (SELECT ok FROM noted)) " + c.answer("b")
}

// answer lists what changed, without rows that are longer than the last parameter says, and undoes the batch unless exactly one row of each
// write changed and still has the key that names it.
func (c *batchChange) answer(changed string) string {
	return fmt.Sprintf("SELECT item, CASE WHEN pg_catalog.octet_length(j) OPERATOR(pg_catalog.<=) $%d::integer THEN j END, created FROM %s"+
		" UNION ALL SELECT NULL, NULL, fence.undo_batch(ARRAY(SELECT g.item FROM g LEFT JOIN %[2]s c ON c.item OPERATOR(pg_catalog.=) g.item"+
		" GROUP BY g.item HAVING pg_catalog.count(c.item) OPERATOR(pg_catalog.<>) 1 OR NOT pg_catalog.bool_and(c.same)))"+
		" WHERE (SELECT pg_catalog.count(*) OPERATOR(pg_catalog.<>) pg_catalog.count(DISTINCT item) FILTER (WHERE same) FROM %[2]s)"+
		" OR (SELECT pg_catalog.count(*) FROM %[2]s) OPERATOR(pg_catalog.<>) (SELECT pg_catalog.count(*) FROM g)", batchParams+len(c.t.key)+1, changed)
}
