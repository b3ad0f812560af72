package pgstore

import (
	"cmp"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

func (p *commitPlan) queueObjects(batch *pgx.Batch) {
	for i, w := range p.Writes {
		if w.Object != nil {
			sql, args := p.objectChange(i)
			batch.Queue(sql, args...)
			batch.Queue(sqlObjectRow, w.Object.Object.Bucket, w.Object.Object.Key)
		}
	}
}

// objectChange is the statement that changes an object, all of whose commit was admitted.
func (p *commitPlan) objectChange(i int) (string, []any) {
	w := p.Writes[i]
	o, stored := w.Object, w.Object.Object.Bucket
	switch {
	case o.Op == fence.OpDelete:
		return "SELECT fence.hide_committed($1, $2, $3, $4, $5)", []any{o.Object.Bucket, o.Object.Key, int64(o.Token), o.Natural, o.If.Absent}
	case o.Op == fence.OpCopy && w.Taken == "":
		return "SELECT fence.copy_committed($1, $2, $3, $4, $5, $6, $7::text::jsonb, $8, $9, $10)", copyArgs(*o, p.headers[i])
	case o.Op == fence.OpCopy:
		stored = o.From.Object.Bucket
	}
	return "SELECT fence.publish_upload($1, $2, $3, $4::text::uuid, $5, $6, $7, $8, $9)", []any{
		o.Object.Bucket, o.Object.Key, int64(o.Token), cmp.Or(w.Taken, w.Blob), stored, p.Principal, o.Natural, o.If.Exists, o.If.Absent,
	}
}

func (p *commitPlan) readObjects(results pgx.BatchResults, verdicts []verdict, into []fence.CommitResult) error {
	failed := p.failed
	for i, w := range p.Writes {
		if w.Object == nil {
			continue
		}
		var (
			changed bool
			row     objectRow
		)
		p.failed = i
		if err := results.QueryRow().Scan(&changed); err != nil {
			return err
		}
		if err := results.QueryRow().Scan(row.dest()...); err != nil {
			return err
		}
		o, err := row.object(w.Object.Object)
		if err != nil {
			return err
		}
		o.State, o.Created = verdicts[i].State(), w.Object.Op != fence.OpDelete && changed
		into[i].Object = &o
	}
	p.failed = failed
	return nil
}
