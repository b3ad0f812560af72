package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fencegate/fencegate/fence"
)

// commitPlan is a commit whose bodies were checked.
type commitPlan struct {
	fence.Commit
	tables []*table // of each write; nil for an object
	texts  []string // what PostgreSQL reads of each body
	// headers are those that a copy gets; nil for those of its source.
	headers []*string
	admit   string // p_writes of fence.admit_commit
	digest  fence.Digest
	// bad is what is wrong with a body. A commit that was carried out before is a replay all the same: the table may have been altered
	// since.
	bad    error
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
	c.Writes = slices.Clone(c.Writes)
	p := &commitPlan{Commit: c, tables: make([]*table, len(c.Writes)), texts: make([]string, len(c.Writes)), headers: make([]*string, len(c.Writes))}
	admit := make([]map[string]any, len(c.Writes))
	fields := []string{"commit"}
	for i, w := range c.Writes {
		if w.Row == nil {
			o := *w.Object
			o.Principal, o.As = c.Principal, c.As
			p.Writes[i].Object = &o
			if o.Op == fence.OpPut && !isBlobID(w.Blob) && p.bad == nil {
				p.bad = inWrite(i, fence.Errorf(fence.CodeInvalidRequest, "there is no upload with such an id").In("blob"))
			}
			admit[i] = map[string]any{"bucket": o.Object.Bucket, "key": o.Object.Key, "token": o.Token, "match": o.If.Match, "none_match": o.If.NoneMatch}
			if o.Op == fence.OpCopy {
				header, err := copiedHeader(o)
				if err != nil && p.bad == nil {
					p.bad = inWrite(i, err)
				}
				p.headers[i] = header
				fields = append(fields, "from", o.From.Object.Bucket, o.From.Object.Key, o.From.Version.String(), deref(header))
			}
			fields = append(fields, "object", o.Object.Bucket, o.Object.Key, o.Token.String(), string(o.Op), conditionText(o.If), w.Blob)
			continue
		}
		row := *w.Row
		row.Principal, row.As = c.Principal, c.As
		w.Row, p.Writes[i].Row = &row, &row
		t := tables[w.Row.Row.Table]
		text, err := s.checkBody(ctx, t, row)
		if err != nil && p.bad == nil {
			p.bad = inWrite(i, err)
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

// namesWrite finds the write whose table is not there.
func (s *Store) namesWrite(ctx context.Context, c fence.Commit, err error) error {
	var e *fence.Error
	if !errors.As(err, &e) || e.Write > 0 || e.Code != fence.CodeNotFound {
		return err
	}
	for i, w := range c.Writes {
		if w.Row == nil {
			continue
		}
		if _, err := s.tables.get(ctx, w.Row.Row.Table, false); fence.CodeOf(err) == fence.CodeNotFound {
			return inWrite(i, e)
		}
	}
	return err
}

// inWrite says that an error is about the write with this index.
func inWrite(i int, err error) error {
	var e *fence.Error
	if errors.As(err, &e) {
		e.Write = i + 1
	}
	return err
}

// isBlobID tells whether id is one that BeginBlob made: a uuid, in the one spelling that it has.
func isBlobID(id string) bool {
	var u pgtype.UUID
	return u.Scan(id) == nil && u.String() == id
}
