package pgstore

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fence"
)

//go:embed comparisons.sql
var comparisonsSQL string

// comparison holds the operators of a type, qualified; empty where it has none.
type comparison struct{ eq, lt, lte, gt, gte, like string }

// comparisonOf returns the operators of a type of PostgreSQL's own. Another type's name has a schema, and so a dot.
func comparisonOf(base string) (by comparison, own bool) {
	switch strings.TrimSuffix(base, "[]") {
	case "text", "character varying", "bpchar", "character", "name":
		by = comparisonBy("")
		if !strings.HasSuffix(base, "[]") {
			by.like = operator("pg_catalog.~~")
		}
	case "bigint", "integer", "smallint", "numeric", "real", "double precision", "money", "oid", "xid8", "pg_lsn", "tid",
		"boolean", "uuid", `"char"`, "bytea", `"bit"`, "bit", "bit varying", "jsonb", "tsvector", "tsquery",
		"date", "time without time zone", "time with time zone", "timestamp without time zone", "timestamp with time zone", "interval",
		"inet", "cidr", "macaddr", "macaddr8",
		"int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange",
		"int4multirange", "int8multirange", "nummultirange", "datemultirange", "tsmultirange", "tstzmultirange":
		by = comparisonBy("")
	}
	return by, !strings.Contains(base, ".")
}

func operator(name string) string { return " OPERATOR(" + name + ") " }

func comparisonBy(like string) comparison {
	c := comparison{
		eq: operator("pg_catalog.="), lt: operator("pg_catalog.<"), lte: operator("pg_catalog.<="),
		gt: operator("pg_catalog.>"), gte: operator("pg_catalog.>="),
	}
	if like != "" {
		c.like = operator(like)
	}
	return c
}

// lookUpComparisons finds how the columns that are filtered and sorted by are compared. The catalogue is asked only about
// types that are not PostgreSQL's own.
func (s *Store) lookUpComparisons(ctx context.Context, l *listing) error {
	var foreign []string
	l.compared(func(base string) comparison {
		by, own := comparisonOf(base)
		if !own && !slices.Contains(foreign, base) {
			foreign = append(foreign, base)
		}
		return by
	})
	if len(foreign) > 0 {
		found, err := s.foreignComparisons(ctx, foreign)
		if err != nil {
			return err
		}
		l.compared(func(base string) comparison {
			if by, ok := found[base]; ok {
				return by
			}
			by, _ := comparisonOf(base)
			return by
		})
	}
	for _, o := range l.order {
		if o.by.eq == "" {
			return fence.Errorf(fence.CodeInvalidRequest, "rows cannot be sorted by the column %q: %s has no order", o.column.name, o.column.typ).In(o.column.name)
		}
	}
	return nil
}

// compared sets the comparison of each column that is compared.
func (l *listing) compared(by func(base string) comparison) {
	for i := range l.filters {
		l.filters[i].by = by(l.filters[i].column.base)
	}
	for i := range l.order {
		l.order[i].by = by(l.order[i].column.base)
	}
}

func (s *Store) foreignComparisons(ctx context.Context, types []string) (map[string]comparison, error) {
	found := map[string]comparison{}
	err := s.withConn(ctx, func(conn *pgxpool.Conn) error {
		batch := &pgx.Batch{}
		batch.Queue(comparisonsSQL, types)
		return s.sendOn(ctx, conn, batch, func(results pgx.BatchResults) error {
			rows, err := results.Query()
			if err != nil {
				return err
			}
			var (
				name string
				own  bool
				ops  []string
				like *string
			)
			_, err = pgx.ForEachRow(rows, []any{&name, &own, &ops, &like}, func() error {
				switch {
				case own:
					found[name] = comparisonBy("")
				case len(ops) == 5:
					c := comparison{lt: operator(ops[0]), lte: operator(ops[1]), eq: operator(ops[2]), gte: operator(ops[3]), gt: operator(ops[4])}
					if like != nil {
						c.like = operator(*like)
					}
					found[name] = c
				}
				return nil
			})
			return err
		})
	})
	return found, classifyRead(err)
}

// check refuses a filter that the column's type cannot answer, and a value that PostgreSQL would take for something else.
func (f filter) check() error {
	name := f.column.name
	if f.op != fence.FilterIn && len(f.values) != 1 {
		return fence.Errorf(fence.CodeInvalidRequest, "the filter %s takes one value", f.op).In(name)
	}
	switch f.op {
	case fence.FilterIs:
		return f.checkIs()
	case fence.FilterLike:
		switch pattern := f.values[0]; {
		case f.by.like == "":
			return fence.Errorf(fence.CodeInvalidRequest, "like is for text, and the column %q is %s", name, f.column.typ).In(name)
		case (len(pattern)-len(strings.TrimRight(pattern, `\`)))%2 == 1:
			// PostgreSQL says so only of a text that it has compared up to there.
			return fence.Errorf(fence.CodeInvalidRequest, "a pattern must not end in the backslash that takes the meaning from the next character").In(name)
		}
		return nil
	case fence.FilterEq, fence.FilterNeq, fence.FilterLt, fence.FilterLte, fence.FilterGt, fence.FilterGte, fence.FilterIn:
	default:
		return fence.Errorf(fence.CodeInvalidRequest, "there is no filter %q", clip(string(f.op))).In(name)
	}
	if f.by.eq == "" {
		return fence.Errorf(fence.CodeInvalidRequest, "the column %q cannot be compared: %s has no equality", name, f.column.typ).In(name)
	}
	for _, v := range f.values {
		if f.column.base == "bytea" && !strings.HasPrefix(v, `\x`) {
			return fence.Errorf(fence.CodeInvalidRequest, `the column %q takes bytes as \x and hex digits`, name).In(name)
		}
		if err := keepsOffset(f.column, f.column.base, v); err != nil {
			return err
		}
	}
	return nil
}

func (f filter) checkIs() error {
	name, what := f.column.name, f.values[0]
	if what == "null" || what == "not_null" {
		return nil
	}
	if truths()[what] == "" {
		return fence.Errorf(fence.CodeInvalidRequest, "is takes null, not_null, true, false or unknown, not %q", clip(what)).In(name)
	}
	if f.column.base != "boolean" {
		return fence.Errorf(fence.CodeInvalidRequest, "is.%s is for boolean columns, and %q is %s", what, name, f.column.typ).In(name)
	}
	return nil
}
