package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/singleflight"

	"github.com/fencegate/fencegate/fence"
)

// table describes a protected table as it stood when it was read.
type table struct {
	// name is the canonical name, quoted for SQL: public.wallets.
	name    string
	version int64
	// relation and shape change when the table is made anew or its columns are changed.
	relation      uint32
	shape         string
	key           []string
	keyTypes      []string
	keyConstraint string
	// keyIsIdentity says that a column of the key is an identity column.
	keyIsIdentity bool
	// template is that of the leases of its rows.
	template string
	// active says that a write of the table can lead to code of somebody's, secured that policies choose its rows.
	active, secured bool
	columns         []column
	// statements are the texts of statements that write the table.
	statements texts
}

// column is one column. Types are qualified; base is the type below a domain, without modifiers.
type column struct {
	name, typ, base string
	// defaultSQL is the column's default, as an expression; empty when it has none.
	defaultSQL string
	// looked says that columnValue looks at what is written.
	looked bool
	// settable is false for generated columns and for identity columns GENERATED ALWAYS.
	settable bool
}

func (t *table) column(name string) (column, bool) {
	for _, c := range t.columns {
		if c.name == name {
			return c, true
		}
	}
	return column{}, false
}

// maxTexts bounds the texts that are kept for a table: clients choose the columns.
const maxTexts = 64

// texts remembers statements.
type texts struct {
	mu   sync.Mutex // guards what follows
	kept map[statementKey]string
}

// get returns the text of a key, and makes it if need be.
func (c *texts) get(key statementKey, text func() string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.kept[key]; ok {
		return s
	}
	if len(c.kept) >= maxTexts || c.kept == nil {
		c.kept = make(map[statementKey]string)
	}
	s := text()
	c.kept[key] = s
	return s
}

// sameAs reports whether both were read of one and the same state of the table.
func (t *table) sameAs(other *table) bool {
	return other != nil && t.version == other.version && t.relation == other.relation && t.shape == other.shape && slices.Equal(t.columns, other.columns)
}

func (t *table) isKey(name string) bool { return slices.Contains(t.key, name) }

// isActive is whether a relation has triggers, other than those of foreign keys and of the guard, or rules or children, is no table, or has
// checks, defaults, generated columns or indexes with functions that are not PostgreSQL's own (which it keeps no dependencies on), columns of domains, or
// rows that others are deleted or changed with.
const isActive = `view OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = relation AND (c.relkind <> 'r' OR c.relhassubclass OR c.relhasrules OR c.relispartition))
	OR EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = relation AND NOT g.tgisinternal AND g.tgfoid <> 'fence.refuse_unadmitted'::pg_catalog.regproc)
	OR EXISTS (SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type y ON y.oid = a.atttypid WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND y.typtype = 'd')
	OR EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.confrelid = relation AND (k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd')))
	OR EXISTS (SELECT FROM (SELECT k.tableoid AS class, k.oid AS object FROM pg_catalog.pg_constraint k WHERE k.conrelid = relation
		UNION ALL SELECT f.tableoid, f.oid FROM pg_catalog.pg_attrdef f WHERE f.adrelid = relation
		UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, x.indexrelid FROM pg_catalog.pg_index x WHERE x.indrelid = relation OFFSET 0) o
		JOIN pg_catalog.pg_depend d ON d.classid = o.class AND d.objid = o.object AND d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass)`

func (s *Store) describeTable(ctx context.Context, relation string) (*table, error) {
	var (
		t                   table
		names, types, bases []string
		settable            []bool
		constraint          *string
		defaults            []*string
	)
	err := s.read(ctx, `SELECT name, version, relation, shape, key_columns, key_types, key_constraint, columns, types, settable, base_types, default_exprs,
			EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = relation AND a.attname = ANY (key_columns) AND a.attidentity <> ''), template,
			`+isActive+`, row_security
		FROM (SELECT * FROM fence.describe_table($1) LIMIT 1) d`, []any{relation},
		&t.name, &t.version, &t.relation, &t.shape, &t.key, &t.keyTypes, &constraint, &names, &types, &settable, &bases, &defaults, &t.keyIsIdentity, &t.template, &t.active, &t.secured)
	if errors.Is(err, pgx.ErrNoRows) || sqlState(err) == stateNotProtected {
		return nil, fence.Wrap(fence.CodeNotFound, err, "the table %s is not protected, or there is none, or its key was altered since: protect it again", clip(relation))
	}
	if err != nil {
		return nil, err
	}
	t.keyConstraint = deref(constraint)
	for i := range names {
		t.columns = append(t.columns, column{name: names[i], typ: types[i], base: bases[i], settable: settable[i], looked: isLooked(bases[i]), defaultSQL: deref(defaults[i])})
	}
	return &t, nil
}

func clip(s string) string {
	const shown = 80
	if len(s) > shown {
		return s[:shown] + "…"
	}
	return s
}

// maxTables bounds the cache: names come from clients.
const maxTables = 1024

// tableCache remembers descriptions for a short time, by the name that the client used.
type tableCache struct {
	ttl  time.Duration
	load func(context.Context, string) (*table, error)
	// loads are those under way, by the age and name that they are for.
	loads singleflight.Group

	mu      sync.Mutex // guards what follows
	entries map[string]tableEntry
	// age counts how often everything was forgotten. What was asked for before the last time is out of date when it arrives.
	age uint64
}

type tableEntry struct {
	table *table
	read  time.Time
}

// forget makes the cache ask anew.
func (c *tableCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
	c.age++
}

func newTableCache(ttl time.Duration, load func(context.Context, string) (*table, error)) *tableCache {
	return &tableCache{ttl: ttl, load: load, entries: make(map[string]tableEntry)}
}

// get returns a description; fresh asks for one that is read now.
func (c *tableCache) get(ctx context.Context, relation string, fresh bool) (*table, error) {
	c.mu.Lock()
	entry, ok := c.entries[relation]
	age := c.age
	c.mu.Unlock()
	switch {
	case fresh:
		return c.read(ctx, relation, age)
	case ok && time.Since(entry.read) < c.ttl:
		return entry.table, nil
	}
	// Under load many find it too old at once. One asks for all of them, unless everything was forgotten in between.
	loaded := c.loads.DoChan(fmt.Sprint(age, " ", relation), func() (any, error) { return c.read(context.WithoutCancel(ctx), relation, age) })
	select {
	case r := <-loaded:
		t, _ := r.Val.(*table)
		return t, ownError(r.Err)
	case <-ctx.Done():
		return nil, classifyRead(ctx.Err())
	}
}

// read asks for a description, and remembers it if nothing was forgotten since age.
func (c *tableCache) read(ctx context.Context, relation string, age uint64) (*table, error) {
	read := time.Now()
	t, err := c.load(ctx, relation)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= maxTables {
		clear(c.entries)
	}
	if c.age == age {
		c.entries[relation] = tableEntry{table: t, read: read}
	}
	return t, nil
}
