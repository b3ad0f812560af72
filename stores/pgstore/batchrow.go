package pgstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// rowEntry is a write of a row in a batch, and what it returned.
type rowEntry struct {
	t    *table
	w    fence.RowWrite
	text string // what PostgreSQL reads of the body

	json             *string
	created, changed bool
}

// rowEntryOf makes an entry of a write, or nil for one that goes alone: whose name is not to be had without asking, and one
// that must not be there to be changed.
func rowEntryOf(t *table, w fence.RowWrite, text string) *entry {
	resource, lease, ok := rowName(t, w.Row.Key)
	switch {
	case !ok, w.If.Absent && w.Op != fence.OpPut, strings.IndexByte(w.Principal, 0) >= 0:
		return nil
	case t.active && (w.As != (fence.Identity{}) || w.Op == fence.OpPut):
		// A trigger could give the next row the gateway's own role, or another key than that by which an inserted row is found again.
		return nil
	}
	if len(w.Columns) > 1 {
		w.Columns = slices.Sorted(slices.Values(w.Columns)) // in any order they are one statement
	}
	e := &entry{
		resource: resource, lease: lease, size: len(w.Body),
		write: writeArgs{token: int64(w.Token), principal: w.Principal, digest: rowDigest(w), cond: w.If},
		row:   &rowEntry{t: t, w: w, text: text},
	}
	if t.active || t.secured || w.As != (fence.Identity{}) {
		// Code of somebody's runs in the transaction: it may leave settings in it, and take its time. One statement is all there is.
		e.company = fmt.Sprintf("%q %q %q %t %t", []string{t.name, t.shape, w.As.Role, w.As.Claims, string(w.Op)}, w.Columns, w.Shown, w.Shown == nil, w.NumbersAsText)
	}
	return e
}

func (e *entry) binding() binding {
	if e.row != nil {
		t := e.row.t
		return binding{name: "rows/" + t.name, version: &t.version, relation: t.relation, shape: t.shape}
	}
	return binding{name: "objects/" + e.object.w.Object.Bucket}
}

// rowGroup is the writes of a batch that one statement can make.
type rowGroup struct {
	like    *rowEntry
	entries []*entry
	places  []int32 // in the batch, from 1
	of      int     // how many writes the batch has
}

// groupRows groups the rows of a batch by what their statements would be.
func groupRows(entries []*entry) []*rowGroup {
	var groups []*rowGroup
	for i, e := range entries {
		if e.row == nil {
			continue
		}
		at := slices.IndexFunc(groups, func(g *rowGroup) bool { return g.like.sameStatement(e.row) })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &rowGroup{like: e.row, of: len(entries)})
		}
		groups[at].entries, groups[at].places = append(groups[at].entries, e), append(groups[at].places, int32(i+1))
	}
	return groups
}

func (r *rowEntry) sameStatement(o *rowEntry) bool {
	a, b := &r.w, &o.w
	return (r.t == o.t || r.t.sameAs(o.t)) && a.Op == b.Op && a.NumbersAsText == b.NumbersAsText && (a.Shown == nil) == (b.Shown == nil) && slices.Equal(a.Shown, b.Shown) &&
		slices.Equal(a.Columns, b.Columns) && (a.Op != fence.OpPut || a.If.Absent == b.If.Absent && a.If.Exists == b.If.Exists)
}

// batchParams counts the parameters before those of the key.
const batchParams = 4

// args are the places, resources, tokens and bodies of the writes, the parts of their keys, and how long a row may be that is answered.
func (g *rowGroup) args() []any {
	var (
		n         = len(g.entries)
		resources = make([]string, n)
		tokens    = make([]int64, n)
		bodies    = make([]string, n)
		keys      = make([][]string, len(g.like.t.key))
	)
	for k := range keys {
		keys[k] = make([]string, n)
	}
	for i, e := range g.entries {
		resources[i], tokens[i], bodies[i] = e.resource, e.write.token, cmp.Or(e.row.text, "{}")
		for k := range keys {
			keys[k][i] = e.row.w.Row.Key[k]
		}
	}
	args := []any{g.places, resources, tokens, bodies}
	for _, parts := range keys {
		args = append(args, parts)
	}
	return append(args, int32(maxRow/g.of)) // what is left out of the answer is read later
}

// statementKey is what the text of a group's statement depends on, but for its table.
type statementKey struct {
	op                                  fence.Op
	columns, shown                      string
	all, numbers, absent, exists, asked bool
}

// sql is the statement that changes the rows of those writes that were admitted. It returns the place of each and its row, and raises
// when not exactly one row of each changed.
func (g *rowGroup) sql() string {
	t, w := g.like.t, &g.like.w
	key := statementKey{
		op: w.Op, columns: strings.Join(w.Columns, "\x00"), shown: strings.Join(w.Shown, "\x00"), all: w.Shown == nil,
		numbers: w.NumbersAsText, absent: w.If.Absent, exists: w.If.Exists, asked: w.As != (fence.Identity{}),
	}
	return t.statements.get(key, func() string { return batchSQL(t, *w) })
}

func batchSQL(t *table, w fence.RowWrite) string {
	key := make([]string, len(t.key))
	columns := "item, resource, token, body"
	arrays := "$1::integer[], $2::text[], $3::bigint[], $4::text[]::json[]"
	for k := range key {
		key[k] = fmt.Sprintf("g.k%d::%s", k, t.keyTypes[k])
		columns += fmt.Sprintf(", k%d", k)
		arrays += fmt.Sprintf(", $%d::text[]", batchParams+k+1)
	}
	admitted := "SELECT v.* FROM unnest(" + arrays + ") v(" + columns + ") JOIN fence.marks m ON m.resource OPERATOR(pg_catalog.=) v.resource" +
		" AND m.token OPERATOR(pg_catalog.=) v.token AND fence.raised_now(m.xid, m.xmin)"
	if w.As != (fence.Identity{}) {
		admitted = "SELECT v.* FROM unnest(" + arrays + ") WITH ORDINALITY v(" + columns + ", pos)" +
			" JOIN pg_catalog.unnest((SELECT fence.admitted_of($2, $3))) a(pos) ON a.pos OPERATOR(pg_catalog.=) v.pos"
	}
	c := &batchChange{t: t, w: w, key: key, cols: settableIn(t, w.Columns)}
	return "WITH g AS MATERIALIZED (" + admitted + "), " + c.sql()
}

// read reads what the statement returned.
func (g *rowGroup) read(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			item    int32
			body    *string
			created bool
		)
		if err := rows.Scan(&item, &body, &created); err != nil {
			return err
		}
		at, ok := slices.BinarySearch(g.places, item)
		if !ok {
			return fmt.Errorf("a statement speaks of write %d of a batch that has it not", item)
		}
		r := g.entries[at].row
		r.json, r.created, r.changed = body, created, true
	}
	return rows.Err()
}

// entryOf is rowEntryOf, if writes go together.
func (s *Store) entryOf(t *table, w fence.RowWrite, text string) *entry {
	if s.lanes == nil {
		return nil
	}
	return rowEntryOf(t, w, text)
}

// rowResult is the row as the write left it. One that the batch had no room for in its answer is read again.
func (s *Store) rowResult(ctx context.Context, e *entry) (fence.Row, fence.Code, error) {
	v, r := &e.outcome.verdict, e.row
	row := fence.Row{State: v.State(), Created: r.created, Replayed: v.Code() == fence.CodeReplayed}
	if row.Replayed {
		row.Created = deref(v.created)
	}
	if r.json != nil && r.w.Op != fence.OpDelete {
		row.JSON = json.RawMessage(*r.json)
	}
	if v.Code() == fence.CodeAccepted && !r.changed {
		return row, v.Code(), fence.Errorf(fence.CodeInternal, "the write was admitted, and its row is not in the answer")
	}
	if v.Code() == fence.CodeAccepted && row.JSON == nil && r.w.Op != fence.OpDelete {
		// The write is known to have been applied, so that no error of this is one of it.
		if now, err := s.rowNow(ctx, r.w, fence.Access{Principal: r.w.Principal, As: r.w.As}); err == nil && now.Mark == r.w.Token {
			row.JSON = now.JSON
		}
	}
	return row, v.Code(), v.err(r.w.Access)
}
