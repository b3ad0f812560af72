package pgstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fence"
)

// codeBusy is a verdict of fence.admit_batch: a lock was not free, nothing was done.
const codeBusy fence.Code = "busy"

// writeArgs is what admit asks of a write.
type writeArgs struct {
	token     int64
	principal string
	digest    fence.Digest
	cond      fence.Condition
}

// binding is what a write's resource was named by: a table, or a bucket.
type binding struct {
	name     string
	version  *int64 // nil for a bucket
	relation uint32
	shape    string
}

// sendBatch sends the writes as one transaction, and sets the verdict of each and what it changed.
func (s *Store) sendBatch(ctx context.Context, entries []*entry) error {
	for _, e := range entries {
		e.reset()
	}
	plain := entries[0].company == ""
	batch := &pgx.Batch{}
	s.queueAdmitBatch(batch, entries, plain)
	objects := objectsOf(entries)
	queueFlips(batch, objects)
	as := identityOf(entries[0])
	queued := queueBecome(batch, as)
	groups := groupRows(entries)
	for _, g := range groups {
		batch.Queue(g.sql(), g.args()...)
	}
	return s.transact(ctx, s.writes, func(ctx context.Context, conn *pgxpool.Conn) error {
		return s.sendOn(ctx, conn, batch, func(results pgx.BatchResults) error {
			if err := readAdmitted(results, entries); err != nil {
				return err
			}
			if err := readFlips(results, objects); err != nil {
				return err
			}
			if err := becomes(results, queued, as); err != nil {
				return err
			}
			for _, g := range groups {
				if err := g.read(results); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// reset forgets what a batch that failed has told.
func (e *entry) reset() {
	e.outcome = outcome{}
	if e.row != nil {
		e.row.json, e.row.created, e.row.changed = nil, false, false
	}
	if e.object != nil {
		e.object.changed, e.object.lease, e.object.row = nil, nil, objectRow{}
	}
}

// batchLockTimeout bounds a batch's waits for a lock: what comes after it waits, too. A write that goes alone may wait longer.
const batchLockTimeout = 250 * time.Millisecond

const sqlAdmitBatch = "SELECT a.item, " + verdictColumns + " FROM fence.admit_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) a, LATERAL (SELECT (a.verdict).*) v"

func (s *Store) queueAdmitBatch(batch *pgx.Batch, entries []*entry, plain bool) {
	var (
		names, shapes []string
		versions      []*int64
		relations     []uint32
		n             = len(entries)
		of            = make([]int32, n)
		resources     = make([]string, n)
		leases        = make([]*string, n)
		tokens        = make([]int64, n)
		principals    = make([]string, n)
		digests       = make([][]byte, n)
		matches       []*string // nil: no write has a condition
		noneMatches   []*string
	)
	if slices.ContainsFunc(entries, func(e *entry) bool { return e.write.cond.Match != nil || e.write.cond.NoneMatch != nil }) {
		matches, noneMatches = make([]*string, n), make([]*string, n)
	}
	for i, e := range entries {
		b := e.binding()
		at := slices.Index(names, b.name)
		if at >= 0 && (shapes[at] != b.shape || deref(versions[at]) != deref(b.version)) {
			at = -1 // one of them is out of date
		}
		if at < 0 {
			at = len(names)
			names, versions, relations, shapes = append(names, b.name), append(versions, b.version), append(relations, b.relation), append(shapes, b.shape)
		}
		of[i], resources[i], leases[i] = int32(at+1), e.resource, emptyAsNull(e.lease)
		tokens[i], principals[i], digests[i] = e.write.token, e.write.principal, e.write.digest[:]
		if matches != nil {
			matches[i], noneMatches[i] = arrayText(e.write.cond.Match), arrayText(e.write.cond.NoneMatch)
		}
	}
	wait := min(s.cfg.LockTimeout, batchLockTimeout)
	batch.Queue(sqlAdmitBatch, names, versions, relations, shapes, int32(wait.Milliseconds()), plain, of, resources, leases, tokens, principals, digests, matches, noneMatches)
}

// arrayText is a list of tokens as PostgreSQL writes an array; nil for none.
func arrayText(list []fence.Token) *string {
	if list == nil {
		return nil
	}
	b := []byte{'{'}
	for i, t := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(t), 10)
	}
	text := string(append(b, '}'))
	return &text
}

// readAdmitted sets the verdicts. A write that is not in the answer was accepted.
func readAdmitted(results pgx.BatchResults, entries []*entry) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	var written *time.Time
	named := make([]bool, len(entries))
	for rows.Next() {
		var (
			item int
			v    verdict
		)
		if err := rows.Scan(append([]any{&item}, v.dest()...)...); err != nil {
			return err
		}
		if item == 0 {
			written = v.writtenAt
			continue
		}
		if item > len(entries) {
			return fmt.Errorf("the ledger speaks of write %d of %d", item, len(entries))
		}
		entries[item-1].outcome.verdict, named[item-1] = v, true
	}
	accepted := string(fence.CodeAccepted)
	for i, e := range entries {
		if !named[i] {
			e.outcome.verdict = verdict{
				code: &accepted, resource: &e.resource, lease: &e.lease, mark: &e.write.token, markedBy: &e.write.principal, writtenAt: written,
			}
		}
	}
	return rows.Err()
}

// identityOf is as whom a batch changes rows: those of one company have the same.
func identityOf(e *entry) fence.Identity {
	if e.row == nil {
		return fence.Identity{}
	}
	return e.row.w.As
}

// writeBatch makes writes of different resources in one transaction, or in as few as it takes: a batch that fails is split until
// what is wrong with it is alone, and goes alone. Nothing is committed of a batch that failed.
func (s *Store) writeBatch(ctx context.Context, entries []*entry) {
	err := s.sendBatch(ctx, entries)
	s.batches.count(len(entries), err)
	if err == nil {
		for _, e := range entries {
			if e.outcome.verdict.Code() == codeBusy {
				s.batches.alone(e, aloneBusy)
			}
		}
		return
	}
	switch state := sqlState(err); {
	case state == "" || fence.CodeOf(err) == fence.CodeOutcomeUnknown:
		for _, e := range entries {
			e.outcome.err = ownError(err)
		}
	case len(entries) == 1 || state == stateLockTimeout || state == stateDeadlock || state == stateSerialization || state == stateIsolation ||
		state == stateCanceled || state == stateForbidden || fence.CodeOf(err) == fence.CodeUnavailable || undefinedObject(err):
		// In the way of all, or somebody's error that only looks like it: each has its own answer.
		for _, e := range entries {
			s.batches.alone(e, aloneFailed)
		}
	case state == stateGuilty:
		s.writeRest(ctx, entries, err)
	default:
		half := len(entries) / 2
		s.writeBatch(ctx, entries[:half])
		s.writeBatch(ctx, entries[half:])
	}
}

// writeRest is writeBatch without those writes that the error names.
func (s *Store) writeRest(ctx context.Context, entries []*entry, err error) {
	guilty := guiltyOf(err)
	var rest []*entry
	for i, e := range entries {
		if slices.Contains(guilty, i+1) {
			s.batches.alone(e, aloneFailed)
		} else {
			rest = append(rest, e)
		}
	}
	switch {
	case len(rest) == len(entries): // it names none
		for _, e := range entries {
			s.batches.alone(e, aloneFailed)
		}
	case len(rest) > 0:
		s.writeBatch(ctx, rest)
	}
}

// guiltyOf reads the places that the detail of an error names.
func guiltyOf(err error) []int {
	var items []int
	for text := range strings.SplitSeq(errorDetail(err), ",") {
		if n, err := strconv.Atoi(text); err == nil {
			items = append(items, n)
		}
	}
	return items
}

// newLanes makes the lanes of a store. The same resource always has the same.
func (s *Store) newLanes(n int) []*lane {
	lanes := make([]*lane, n)
	for i := range lanes {
		lanes[i] = &lane{send: s.writeBatch, apart: true, limit: flightLimit, patient: s.cfg.ConnectTimeout, writing: make(map[string]bool)}
	}
	return lanes
}

// together makes a write with others. It returns alone when the caller is to make it by himself, and call leave after that.
func (s *Store) together(ctx context.Context, e *entry) (alone bool, leave func(), err error) {
	l := s.lanes[laneOf(e.resource, len(s.lanes))]
	err = l.write(ctx, e)
	return err == nil && e.outcome.alone, func() { l.leave(e) }, err
}

// laneOf spreads resources over the lanes (FNV-1a).
func laneOf(resource string, lanes int) int {
	if lanes == 1 {
		return 0
	}
	h := uint32(2166136261)
	for i := range len(resource) {
		h = (h ^ uint32(resource[i])) * 16777619
	}
	return int(h % uint32(lanes))
}
