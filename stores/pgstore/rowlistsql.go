package pgstore

import (
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// statement is SQL that is being written. Everything in it is ours or from the catalogue; what a client sent is in args.
type statement struct {
	sql  string
	args []any
}

// param adds a parameter and returns its place.
func (s *statement) param(v any) string {
	s.args = append(s.args, v)
	return "$" + strconv.Itoa(len(s.args))
}

// value is a text as PostgreSQL reads it for the type below a column's domain: a value that a domain would not store is
// compared all the same, and its precision does not round it.
func (s *statement) value(c column, text string) string { return s.param(text) + "::text::" + c.base }

// pageSQL selects each row as JSON and what it is sorted by as text, one more than the page has.
func (l *listing) pageSQL() statement {
	var s statement
	values, order := make([]string, len(l.order)), make([]string, len(l.order))
	for i, o := range l.order {
		// What the type's output says, where a cast to text could leave something out. An empty row is not a null here. One that is cut
		// short is too long for a cursor.
		values[i] = "CASE WHEN NOT (" + o.ref() + isNull + ") THEN pg_catalog.left(pg_catalog.format('%s', " + o.ref() + "), " + strconv.Itoa(maxCursor) + ") END"
		order[i] = o.sql()
	}
	where := l.where(&s)
	if l.after != nil {
		where = append(where, l.behind(&s))
	}
	s.sql = "SELECT " + readJSON(rowOf(l.shown, l.query.NumbersAsText)) + ", " + strings.Join(values, ", ") + " FROM " + l.table.name + " AS t" + conjunction(where) +
		" ORDER BY " + strings.Join(order, ", ") + " LIMIT " + s.param(l.query.Limit+1) + "::bigint"
	return s
}

func (l *listing) countSQL() statement {
	var s statement
	s.sql = "SELECT pg_catalog.count(*) FROM " + l.table.name + " AS t" + conjunction(l.where(&s))
	return s
}

func conjunction(conditions []string) string {
	if len(conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(conditions, " AND ")
}

// rowOf renders columns of the row t as rowJSON does all of them.
func rowOf(columns []column, numbersAsText bool) string {
	fields := make([]string, len(columns))
	for i, c := range columns {
		fields[i] = fieldSQL(c, numbersAsText) + " AS " + ident(c.name)
	}
	return "(SELECT pg_catalog.row_to_json(q.*)::text FROM (SELECT " + strings.Join(fields, ", ") + ") q)"
}

// isNull is IS NULL for rows too: an empty one is none, and sorts as none.
const isNull = " IS NOT DISTINCT FROM NULL"

func (l *listing) where(s *statement) []string {
	var conditions []string
	for _, f := range l.filters {
		conditions = append(conditions, f.sql(s))
	}
	return conditions
}

func (f filter) sql(s *statement) string {
	ref := "t." + ident(f.column.name)
	switch f.op {
	case fence.FilterEq:
		return ref + f.by.eq + s.value(f.column, f.values[0])
	case fence.FilterNeq:
		return "NOT (" + ref + f.by.eq + s.value(f.column, f.values[0]) + ")"
	case fence.FilterLt:
		return ref + f.by.lt + s.value(f.column, f.values[0])
	case fence.FilterLte:
		return ref + f.by.lte + s.value(f.column, f.values[0])
	case fence.FilterGt:
		return ref + f.by.gt + s.value(f.column, f.values[0])
	case fence.FilterGte:
		return ref + f.by.gte + s.value(f.column, f.values[0])
	case fence.FilterLike:
		return ref + f.by.like + s.value(f.column, f.values[0])
	case fence.FilterIn:
		list := s.param(f.values) + "::text[]"
		if f.column.isArray() { // an array of arrays is one array
			return ref + f.by.eq + "ANY (SELECT v.v::" + f.column.base + " FROM pg_catalog.unnest(" + list + ") AS v(v))"
		}
		return ref + f.by.eq + "ANY (" + list + "::" + f.column.base + "[])"
	case fence.FilterIs:
		switch f.values[0] {
		case "null":
			return ref + isNull
		case "not_null":
			return "NOT (" + ref + isNull + ")"
		}
		return ref + " IS " + truths()[f.values[0]]
	}
	return "false" // check lets no other through
}

// truths are what is asks of a boolean column, and its SQL.
func truths() map[string]string {
	return map[string]string{"true": "TRUE", "false": "FALSE", "unknown": "UNKNOWN"}
}

func (c column) isArray() bool { return strings.HasSuffix(c.base, "[]") }

func (o sortColumn) ref() string { return "t." + ident(o.column.name) }

func (o sortColumn) sql() string {
	switch {
	case !o.descending && !o.nullsFirst:
		return o.ref() + " ASC"
	case !o.descending:
		return o.ref() + " ASC NULLS FIRST"
	case o.nullsFirst:
		return o.ref() + " DESC"
	}
	return o.ref() + " DESC NULLS LAST"
}

// behind is the condition that a row comes behind the one of the cursor: it is equal in the first columns, and behind in the
// one that follows them.
func (l *listing) behind(s *statement) string {
	places := make([]string, len(l.order))
	for i, o := range l.order {
		if v := l.after[i]; v != nil {
			places[i] = s.value(o.column, *v)
		}
	}
	if l.comparesAsRow() {
		return l.rowBehind(places)
	}
	var either, same []string
	for i, o := range l.order {
		if behind := o.behind(places[i]); behind != "" {
			either = append(either, strings.Join(append(same[:len(same):len(same)], behind), " AND "))
		}
		same = append(same, o.same(places[i]))
	}
	if len(either) == 0 {
		return "false"
	}
	return l.order[0].bound(places[0]) + "(" + strings.Join(either, " OR ") + ")"
}

// comparesAsRow reports an order that a comparison of rows says, which an index on its columns answers.
func (l *listing) comparesAsRow() bool {
	for i, o := range l.order {
		if !o.notNull || l.after[i] == nil || o.descending != l.order[0].descending || o.by.gt != l.order[0].by.gt {
			return false
		}
	}
	return true
}

func (l *listing) rowBehind(places []string) string {
	refs := make([]string, len(l.order))
	for i, o := range l.order {
		refs[i] = o.ref()
	}
	op := l.order[0].by.gt
	if l.order[0].descending {
		op = l.order[0].by.lt
	}
	return "ROW(" + strings.Join(refs, ", ") + ")" + op + "ROW(" + strings.Join(places, ", ") + ")"
}

// behind is the condition that a row comes behind a value in this column, empty when none can. The empty place is a null.
func (o sortColumn) behind(place string) string {
	if place == "" {
		if o.nullsFirst {
			return "NOT (" + o.ref() + isNull + ")"
		}
		return ""
	}
	op := o.by.gt
	if o.descending {
		op = o.by.lt
	}
	if o.nullsFirst || o.notNull {
		return o.ref() + op + place
	}
	return "(" + o.ref() + op + place + " OR " + o.ref() + isNull + ")"
}

func (o sortColumn) same(place string) string {
	if place == "" {
		return o.ref() + isNull
	}
	return o.ref() + o.by.eq + place
}

// bound says of the first column what follows from the whole condition, so that an index on it can begin where the page does;
// empty where nulls are still to come behind the others.
func (o sortColumn) bound(place string) string {
	switch {
	case place == "" && !o.nullsFirst:
		return o.ref() + isNull + " AND "
	case place == "" || !o.nullsFirst && !o.notNull:
		return ""
	case o.descending:
		return o.ref() + o.by.lte + place + " AND "
	}
	return o.ref() + o.by.gte + place + " AND "
}
