package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// Tables names the protected tables, in the order of their names' bytes.
func (s *Store) Tables(ctx context.Context) ([]fence.TableName, error) {
	return readRows(ctx, s, func(row pgx.CollectableRow) (fence.TableName, error) {
		var name string
		if err := row.Scan(&name); err != nil {
			return fence.TableName{}, err
		}
		return fence.ParseTableName(name)
	}, `SELECT p.name FROM fence.protected p WHERE p.kind = 'table' AND p.prefix = '' ORDER BY p.name COLLATE "C"`)
}

// DescribeTables describes those of the tables that still are as they were protected, in their order.
func (s *Store) DescribeTables(ctx context.Context, tables []fence.TableName) ([]fence.TableDescription, error) {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.String()
	}
	return readRows(ctx, s, scanDescription, `SELECT d.name, d.template, d.key_columns, d.comment, d.columns, d.types, d.base_types, d.nullable, d.has_default, d.settable, d.labels, d.comments
		FROM unnest($1::text[]) WITH ORDINALITY n(name, pos), LATERAL fence.describe_table(n.name) d ORDER BY n.pos`, names)
}

func scanDescription(row pgx.CollectableRow) (fence.TableDescription, error) {
	var (
		t                             fence.TableDescription
		name                          string
		comment                       *string
		columns, types, bases         []string
		nullable, defaults, settables []bool
		labels                        [][]string
		comments                      []*string
	)
	err := row.Scan(&name, &t.Template, &t.Key, &comment, &columns, &types, &bases, &nullable, &defaults, &settables, &labels, &comments)
	if err != nil {
		return t, err
	}
	t.Comment = deref(comment)
	for i := range columns {
		t.Columns = append(t.Columns, fence.ColumnDescription{
			Name: columns[i], Type: types[i], Base: bases[i],
			Nullable: nullable[i], HasDefault: defaults[i], Settable: settables[i], Labels: labels[i], Comment: deref(comments[i]),
		})
	}
	t.Table, err = fence.ParseTableName(name)
	return t, err
}

// readRows runs a statement that changes nothing and returns its rows.
func readRows[T any](ctx context.Context, s *Store, scan pgx.RowToFunc[T], sql string, args ...any) (found []T, err error) {
	batch := &pgx.Batch{}
	batch.Queue(sql, args...)
	err = s.readSnapshot(ctx, batch, func(results pgx.BatchResults) error {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, scan)
		return err
	})
	return found, err
}
