package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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
		return done, s.namesWrite(ctx, c, err)
	}
	return s.replayedCommit(ctx, c, done)
}

// commit sends admit, and once that has accepted all writes, the changes: in one transaction and two round trips, so that no statement
// depends on what another one's trigger may have done to the session. The code is that of the write that was refused.
func (s *Store) commit(ctx context.Context, p *commitPlan) (done fence.Committed, code fence.Code, err error) {
	p.failed = -1
	waiting, stop := context.WithTimeout(ctx, s.cfg.ConnectTimeout)
	defer stop()
	weight := min(int64(len(p.Writes)), commitLocks)
	if err := s.commits.Acquire(waiting, weight); err != nil {
		return done, "", fence.Wrap(fence.CodeOverloaded, err, "other commits hold as many locks as there may be")
	}
	defer s.commits.Release(weight)
	var refused *verdict
	err = s.transact(ctx, s.writes, func(ctx context.Context, conn *pgxpool.Conn) error {
		defer rollBack(ctx, conn)
		var verdicts []verdict
		if verdicts, refused, err = s.admitCommit(ctx, conn, p); err != nil {
			return err
		}
		if refused == nil && p.bad == nil {
			if done, err = s.changeAll(ctx, conn, p, verdicts); err != nil {
				s.findUnprepared(ctx, conn, p, verdicts, err)
			}
			return err
		}
		if refused != nil && refused.Code() == fence.CodeReplayed {
			// Its message in the log is to be waited for.
			_, err := conn.Exec(ctx, "COMMIT")
			return err
		}
		return p.bad
	})
	switch {
	case err != nil:
		return fence.Committed{}, "", s.explainCommit(ctx, p, err)
	case refused == nil:
		return done, fence.CodeAccepted, nil
	case refused.Code() == fence.CodeReplayed:
		return fence.Committed{Results: make([]fence.CommitResult, len(p.Writes)), Replayed: true}, fence.CodeReplayed, nil
	}
	return fence.Committed{}, refused.Code(), s.refusedWrite(ctx, p, refused)
}

// commitLocks bounds the leases whose locks the commits of a store hold at once: PostgreSQL's table of locks is one for all of its
// databases, and has 6400 places by default (max_locks_per_transaction times max_connections).
const commitLocks = 1500

// admitCommit begins the transaction and asks for the verdicts. Nothing was changed when it fails.
func (s *Store) admitCommit(ctx context.Context, conn *pgxpool.Conn, p *commitPlan) (verdicts []verdict, refused *verdict, err error) {
	batch := &pgx.Batch{}
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	if s.cfg.Pooled {
		batch.Queue(s.preamble)
	}
	before := batch.Len()
	batch.Queue("SELECT a.slot, "+verdictColumns+" FROM fence.admit_commit($1::text::jsonb, $2, $3) a, LATERAL (SELECT (a.verdict).*) v ORDER BY a.slot",
		p.admit, p.Principal, digestArg(p.digest))
	verdicts = make([]verdict, len(p.Writes))
	err = readAll(conn.SendBatch(ctx, batch), func(results pgx.BatchResults) (err error) {
		for range before {
			if _, err := results.Exec(); err != nil {
				return err
			}
		}
		refused, err = p.readVerdicts(results, verdicts)
		return err
	})
	if err != nil && sqlState(err) == "" {
		err = fence.Wrap(fence.CodeUnavailable, err, "PostgreSQL does not answer") // nothing was to be committed yet
	}
	return verdicts, refused, err
}

// changeAll changes what all writes name, and commits.
func (s *Store) changeAll(ctx context.Context, conn *pgxpool.Conn, p *commitPlan, verdicts []verdict) (fence.Committed, error) {
	batch := &pgx.Batch{}
	// Objects first: their functions are the ledger's, and the role that comes then has no right to them.
	p.queueObjects(batch)
	p.queueRows(batch, verdicts)
	batch.Queue("COMMIT")
	done := fence.Committed{Results: make([]fence.CommitResult, len(p.Writes))}
	err := readAll(conn.SendBatch(ctx, batch), func(results pgx.BatchResults) error {
		if err := p.readObjects(results, verdicts, done.Results); err != nil {
			return err
		}
		return p.readRows(results, verdicts, done.Results)
	})
	return done, err
}

// findUnprepared finds the write whose statement could not be prepared: all of a batch are before the first one runs, and the error
// comes in place of the first answer.
func (s *Store) findUnprepared(ctx context.Context, conn *pgxpool.Conn, p *commitPlan, verdicts []verdict, failed error) {
	if s.cfg.Pooled || sqlState(failed) == "" || slices.ContainsFunc(p.Writes[:max(p.failed, 0)], func(w fence.CommitWrite) bool { return w.Row != nil }) {
		return
	}
	rollBack(ctx, conn)
	for i, w := range p.Writes {
		if w.Row == nil {
			continue
		}
		sql, _ := changeSQL(p.tables[i], *w.Row, p.texts[i], deref(verdicts[i].resource))
		if _, err := conn.Conn().Prepare(ctx, "", sql); sqlState(err) == sqlState(failed) {
			p.failed = i
			return
		}
	}
}

func (p *commitPlan) queueRows(batch *pgx.Batch, verdicts []verdict) {
	for i, w := range p.Writes {
		if w.Row != nil {
			// Before each: a trigger of the one before may have changed the role.
			queueBecome(batch, p.As)
			sql, args := changeSQL(p.tables[i], *w.Row, p.texts[i], deref(verdicts[i].resource))
			batch.Queue(sql, args...)
		}
	}
}

// roles is how many statements queueBecome queues.
func (p *commitPlan) roles() int {
	if p.As == (fence.Identity{}) {
		return 0
	}
	return 1
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

// maxCommitAnswer bounds the rows that a commit returns together, in bytes.
const maxCommitAnswer = 8 << 20

func (p *commitPlan) readRows(results pgx.BatchResults, verdicts []verdict, into []fence.CommitResult) error {
	failed, size := p.failed, 0
	for i, w := range p.Writes {
		if w.Row == nil {
			continue
		}
		var (
			body    *string
			created bool
		)
		if err := becomes(results, p.roles(), p.As); err != nil {
			return err
		}
		p.failed = i
		// It was admitted, so there is a row, or an error.
		if err := results.QueryRow().Scan(&body, &created); err != nil {
			return err
		}
		row := &fence.Row{State: verdicts[i].State(), Created: created}
		if size += len(deref(body)); body != nil && w.Row.Op != fence.OpDelete && size <= maxCommitAnswer {
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
	var known *fence.Error
	if p.failed < 0 || errors.As(err, &known) && known.Write > 0 {
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
		if err = e.In("resource"); w.Row == nil {
			break
		}
		e.Field = ""
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
	size := 0
	for i, w := range c.Writes {
		by := fence.Access{Principal: c.Principal, As: c.As}
		if w.Row != nil {
			row, err := s.rowNow(ctx, *w.Row, by)
			if err != nil {
				return done, inWrite(i, err)
			}
			row.Created = row.Created && row.Mark == w.Row.Token
			if size += len(row.JSON); size > maxCommitAnswer {
				row.JSON = nil
			}
			done.Results[i].Row = &row
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
