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

// Codes of fence.admit_commit about the request, never shown to a client.
const (
	codeBadKey    fence.Code = "bad-key"
	codeDuplicate fence.Code = "duplicate"
)

// Commit admits all writes and changes their rows and objects, in one transaction, or does nothing. An error about one of the
// writes names it.
//
// All are admitted before anything is changed, and marks are raised in the order of their names: whoever changes a protected row holds its
// mark, so that commits wait for each other in one order. What still goes wrong between them (a trigger, a writer that goes round)
// is tried again.
func (s *Store) Commit(ctx context.Context, c fence.Commit) (fence.Committed, error) {
	var done fence.Committed
	var relations []string
	for _, w := range c.Writes {
		if w.Row != nil {
			relations = append(relations, w.Row.Row.Table)
		}
	}
	err := s.onTables(ctx, relations, func(tables map[string]*table) (fence.Code, error) {
		p, err := s.planCommit(ctx, c, tables)
		if err != nil {
			return "", err
		}
		var code fence.Code
		send := func(ctx context.Context) (err error) {
			done, code, err = s.commit(ctx, p)
			return err
		}
		err = s.retry(ctx, send)
		if p.mayHaveRaced(err) {
			err = s.retry(ctx, send)
		}
		return code, err
	})
	if err != nil || !done.Replayed {
		return done, err
	}
	return s.replayedCommit(ctx, c, done)
}

// commitPlan is a commit whose bodies were checked.
type commitPlan struct {
	fence.Commit
	tables []*table // of each write; nil for an object
	texts  []string // what PostgreSQL reads of each body
	admit  string   // p_writes of fence.admit_commit
	digest fence.Digest
	failed int // the write whose statement failed last, from 0; -1 for none
}

func (p *commitPlan) mayHaveRaced(err error) bool {
	if err == nil || p.failed < 0 || p.Writes[p.failed].Row == nil {
		return false
	}
	return mayHaveRaced(*p.Writes[p.failed].Row, p.tables[p.failed], err)
}

// planCommit checks the bodies and names everything for the ledger.
func (s *Store) planCommit(ctx context.Context, c fence.Commit, tables map[string]*table) (*commitPlan, error) {
	p := &commitPlan{Commit: c, tables: make([]*table, len(c.Writes)), texts: make([]string, len(c.Writes))}
	admit := make([]map[string]any, len(c.Writes))
	fields := []string{"commit"}
	for i, w := range c.Writes {
		if w.Row == nil {
			o := w.Object
			admit[i] = map[string]any{"bucket": o.Object.Bucket, "key": o.Object.Key, "token": o.Token, "match": o.If.Match, "none_match": o.If.NoneMatch}
			fields = append(fields, "object", o.Object.Bucket, o.Object.Key, o.Token.String(), string(o.Op), conditionText(o.If), w.Blob)
			continue
		}
		t := tables[w.Row.Row.Table]
		text, err := s.checkBody(ctx, t, *w.Row)
		if err != nil {
			return nil, inWrite(i, err)
		}
		p.tables[i], p.texts[i] = t, text
		admit[i] = map[string]any{
			"table": t.name, "version": t.version, "relation": t.relation, "shape": t.shape, "key": w.Row.Row.Key,
			"token": w.Row.Token, "match": w.Row.If.Match, "none_match": w.Row.If.NoneMatch,
		}
		fields = append(fields, "row", t.name, strings.Join(w.Row.Row.Key, "\x00"), w.Row.Token.String(), string(w.Row.Op), conditionText(w.Row.If), string(w.Row.Body))
	}
	text, err := json.Marshal(admit)
	if err != nil {
		return nil, fence.Wrap(fence.CodeInvalidRequest, err, "the commit cannot be read")
	}
	p.admit, p.digest = string(text), fence.DigestOf(fields...)
	return p, nil
}

// inWrite says that an error is about the write with this index.
func inWrite(i int, err error) error {
	var e *fence.Error
	if errors.As(err, &e) {
		e.Write = i + 1
	}
	return err
}

// commit sends admit and changes as one implicit transaction. The code is that of the write that was refused.
func (s *Store) commit(ctx context.Context, p *commitPlan) (fence.Committed, fence.Code, error) {
	p.failed = -1
	batch := &pgx.Batch{}
	batch.Queue("SELECT a.slot, "+verdictColumns+" FROM fence.admit_commit($1::text::jsonb, $2, $3) a, LATERAL (SELECT (a.verdict).*) v ORDER BY a.slot",
		p.admit, p.Principal, digestArg(p.digest))
	// Objects first: their functions are the ledger's, and the role that comes then has no right to them.
	p.queueObjects(batch)
	queued := queueBecome(batch, p.As)
	p.queueRows(batch)

	done := fence.Committed{Results: make([]fence.CommitResult, len(p.Writes))}
	verdicts := make([]verdict, len(p.Writes))
	var refused *verdict
	err := s.send(ctx, batch, func(results pgx.BatchResults) (err error) {
		if refused, err = p.readVerdicts(results, verdicts); err != nil {
			return err
		}
		if err := p.readObjects(results, verdicts, done.Results); err != nil {
			return err
		}
		if err := becomes(results, queued, p.As); err != nil {
			return err
		}
		return p.readRows(results, verdicts, done.Results)
	})
	if err != nil {
		return fence.Committed{}, "", s.explainCommit(ctx, p, err)
	}
	if refused == nil {
		return done, fence.CodeAccepted, nil
	}
	if refused.Code() == fence.CodeReplayed {
		done.Replayed = true
		return done, fence.CodeReplayed, nil
	}
	return fence.Committed{}, refused.Code(), s.refusedWrite(ctx, p, refused)
}

func (p *commitPlan) queueObjects(batch *pgx.Batch) {
	for i, w := range p.Writes {
		if w.Object == nil {
			continue
		}
		o := w.Object
		if o.Op == fence.OpDelete {
			batch.Queue("SELECT fence.delete_object($1, $2, $3, $4, $5)", int32(i+1), o.Object.Bucket, o.Object.Key, int64(o.Token), o.If.Absent)
		} else {
			batch.Queue("SELECT fence.put_upload($1, $2, $3, $4, $5::text::uuid, $6, $7, $8)", int32(i+1), o.Object.Bucket, o.Object.Key, int64(o.Token),
				w.Blob, p.Principal, o.If.Exists, o.If.Absent)
		}
		batch.Queue(sqlObjectRow, o.Object.Bucket, o.Object.Key)
	}
}

func (p *commitPlan) queueRows(batch *pgx.Batch) {
	for i, w := range p.Writes {
		if w.Row != nil {
			sql, args := changeSQL(p.tables[i], *w.Row, p.texts[i], i+1)
			batch.Queue(sql, args...)
		}
	}
}

// readVerdicts reads what fence.admit_commit says: a verdict on each write, or one that all depends on, with the write that it is
// about.
func (p *commitPlan) readVerdicts(results pgx.BatchResults, verdicts []verdict) (*verdict, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			slot int
			v    verdict
		)
		if err := rows.Scan(append([]any{&slot}, v.dest()...)...); err != nil {
			return nil, err
		}
		if slot < 1 || slot > len(verdicts) {
			return nil, fmt.Errorf("the ledger speaks of write %d of %d", slot, len(verdicts))
		}
		verdicts[slot-1] = v
		if v.Code() != fence.CodeAccepted {
			p.failed = slot - 1
			return &v, nil
		}
	}
	return nil, rows.Err()
}

func (p *commitPlan) readObjects(results pgx.BatchResults, verdicts []verdict, into []fence.CommitResult) error {
	failed := p.failed
	for i, w := range p.Writes {
		if w.Object == nil {
			continue
		}
		var (
			changed *bool
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
		o.State, o.Created = verdicts[i].State(), w.Object.Op == fence.OpPut && deref(changed)
		into[i].Object = &o
	}
	p.failed = failed
	return nil
}

func (p *commitPlan) readRows(results pgx.BatchResults, verdicts []verdict, into []fence.CommitResult) error {
	failed := p.failed
	for i, w := range p.Writes {
		if w.Row == nil {
			continue
		}
		var (
			body    *string
			created bool
		)
		p.failed = i
		if err := scanChanged(results, &body, &created); err != nil {
			return err
		}
		row := &fence.Row{State: verdicts[i].State(), Created: created}
		if body != nil && w.Row.Op != fence.OpDelete {
			row.JSON = json.RawMessage(*body)
		}
		into[i].Row = row
	}
	p.failed = failed
	return nil
}

// explainCommit is explain for the write whose statement failed. One that only the commit itself found wrong (a deferred
// constraint) is about no write.
func (s *Store) explainCommit(ctx context.Context, p *commitPlan, err error) error {
	if p.failed < 0 {
		return err
	}
	w := p.Writes[p.failed]
	if w.Row != nil {
		err = s.explain(ctx, p.tables[p.failed], w.Row.Row, w.Row, err)
	} else {
		err = s.explainObject(ctx, *w.Object, err)
	}
	return inWrite(p.failed, err)
}

// refusedWrite makes an error of the verdict that refused the whole.
func (s *Store) refusedWrite(ctx context.Context, p *commitPlan, v *verdict) error {
	w := p.Writes[p.failed]
	var err error
	switch v.Code() {
	case codeBindingChanged:
		return nil // the caller tries again
	case codeDuplicate:
		err = fence.Errorf(fence.CodeInvalidRequest, "%s is written twice", deref(v.resource)).In("resource")
	case codeBadKey:
		e := fence.Errorf(fence.CodeInvalidRequest, "%s", deref(v.holder))
		err = s.nameField(ctx, p.tables[p.failed], w.Row.Row, nil, e)
	default:
		by := fence.Access{Principal: p.Principal}
		if w.Row != nil {
			by.Token = w.Row.Token
		} else {
			by.Token = w.Object.Token
		}
		err = v.err(by)
	}
	return inWrite(p.failed, err)
}

// replayedCommit answers a replay with the resources as they stand now.
func (s *Store) replayedCommit(ctx context.Context, c fence.Commit, done fence.Committed) (fence.Committed, error) {
	for i, w := range c.Writes {
		by := fence.Access{Principal: c.Principal, As: c.As}
		if w.Row != nil {
			row, err := s.Row(ctx, fence.RowRead{Row: w.Row.Row, Access: by, NumbersAsText: w.Row.NumbersAsText, Shown: w.Row.Shown})
			if err != nil && fence.CodeOf(err) != fence.CodeNotFound {
				return done, inWrite(i, err)
			}
			done.Results[i].Row = &row
			if err != nil {
				row.State = stateIn(err)
			}
			row.Created = row.Created && row.Mark == w.Row.Token
			continue
		}
		v, o, err := s.object(ctx, w.Object.Object, by)
		if err != nil {
			return done, inWrite(i, err)
		}
		o.State = v.State()
		o.Created = o.Mark == w.Object.Token && deref(v.created)
		done.Results[i].Object = &o
	}
	return done, nil
}

func stateIn(err error) fence.State {
	var e *fence.Error
	if errors.As(err, &e) && e.State != nil {
		return *e.State
	}
	return fence.State{}
}
