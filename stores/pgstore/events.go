package pgstore

import (
	"context"
	_ "embed"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fence"
)

//go:embed events.sql
var eventsSQL string

//go:embed lastevent.sql
var lastEventSQL string

const (
	// eventsLimit bounds how many events are read, or refusals are recorded, at once.
	eventsLimit = 1000
	// pruneBatch is how many events one transaction deletes.
	pruneBatch = 5000
	// eventTextLimit bounds each text of a refusal, in bytes. A resource's name is shorter.
	eventTextLimit = 4096
)

// Events returns up to limit events (at most 1000) behind a position, oldest first; the empty position is before all that are kept.
// An event appears within about a second of its commit. gone says that some behind the position are kept no more, or that
// the position is of a ledger as it was before a restore: then it goes on with the oldest that are kept. A position that
// this ledger cannot have given is CodeInvalidRequest.
func (s *Store) Events(ctx context.Context, after string, limit int) (found []fence.Event, gone bool, err error) {
	if limit < 1 {
		return nil, false, fence.Errorf(fence.CodeInvalidRequest, "at least one event is asked for").In("limit")
	}
	var p position
	if after != "" {
		if p, err = parsePosition(after); err != nil {
			return nil, false, err
		}
	}
	page, err := s.eventsBehind(ctx, p, limit)
	if err != nil || after == "" {
		return page.events, false, err
	}
	if p.epoch != page.epoch || p.seen.xid >= page.xmax {
		page, err = s.eventsBehind(ctx, position{}, limit)
		return page.events, true, err
	}
	return page.events, p.seen.before(page.pruned), nil
}

// LastEvent returns the position of the newest event, empty when there is none.
func (s *Store) LastEvent(ctx context.Context) (string, error) {
	var (
		epoch   string
		xid, id *int64
		open    []int64
	)
	if err := s.read(ctx, lastEventSQL, []any{openLimit}, &epoch, &xid, &id, &open); err != nil || xid == nil {
		return "", err
	}
	return position{epoch: epoch}.at(eventID{*xid, deref(id)}, open).String(), nil
}

// NoteRefusals records writes that were refused for their tokens, the first 1000 of them. Texts are cut at 4096 bytes. The
// ledger gives the time.
func (s *Store) NoteRefusals(ctx context.Context, refused []fence.Event) error {
	if len(refused) == 0 {
		return nil
	}
	refused = refused[:min(len(refused), eventsLimit)]
	var (
		lease, principal, holder, resource, code []string
		first, token                             []int64
	)
	for _, e := range refused {
		lease, principal, holder = append(lease, eventText(e.Lease)), append(principal, eventText(e.Principal)), append(holder, eventText(e.Holder))
		resource, code = append(resource, eventText(e.Resource)), append(code, eventText(string(e.Code)))
		first, token = append(first, int64(e.First)), append(token, int64(e.Token))
	}
	return s.exec(ctx, "SELECT fence.note_refusals($1, $2, $3, $4, $5, $6, $7)", lease, principal, holder, first, resource, token, code)
}

// NoteExpiry records that the lease of a grant (the newest, by its first token) has run out, and reports whether that is news.
// It ends nothing: the holder may write until there is a successor. While somebody writes under the lease it does
// nothing. What is not recorded here is when the next grant is made.
func (s *Store) NoteExpiry(ctx context.Context, lease string, first fence.Token) (noted bool, err error) {
	err = s.query(ctx, "SELECT fence.note_expiry($1, $2)", []any{lease, int64(first)}, &noted)
	return noted, err
}

// PruneEvents deletes the events that are older than age, in batches, and returns how many.
func (s *Store) PruneEvents(ctx context.Context, age time.Duration) (int64, error) {
	for all := int64(0); ; {
		var n int64
		if err := s.query(ctx, "SELECT fence.prune_events($1, $2)", []any{age, pruneBatch}, &n); err != nil {
			return all, err
		}
		if all += n; n < pruneBatch {
			return all, nil
		}
	}
}

// eventPage is what was found behind a position, and what the ledger keeps.
type eventPage struct {
	events []fence.Event
	epoch  string
	pruned eventID
	xmax   int64
}

// eventsBehind reads the events that may be told.
func (s *Store) eventsBehind(ctx context.Context, p position, limit int) (page eventPage, err error) {
	xids, ids := make([]int64, len(p.open)), make([]int64, len(p.open))
	for i, o := range p.open {
		xids[i], ids[i] = o.xid, o.id
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()
	err = s.withConn(ctx, func(conn *pgxpool.Conn) error {
		batch := &pgx.Batch{}
		batch.Queue(eventsSQL, p.seen.xid, p.seen.id, xids, ids, min(limit, eventsLimit), openLimit)
		return s.sendOn(ctx, conn, batch, func(results pgx.BatchResults) error {
			rows, err := results.Query()
			if err != nil {
				return err
			}
			page, err = readEvents(rows, p)
			return err
		})
	})
	return page, classifyRead(err)
}

// readEvents reads events up to the first that is held back: those behind it must not be told before it.
func readEvents(rows pgx.Rows, p position) (page eventPage, err error) {
	defer rows.Close()
	for rows.Next() {
		var r eventRow
		if err := rows.Scan(r.dest(&page)...); err != nil {
			return page, err
		}
		if r.xid == nil {
			break
		}
		id := eventID{*r.xid, deref(r.id)}
		if p.seen.before(id) && (!deref(r.ready) || len(r.open) > openLimit) {
			break
		}
		p.epoch = page.epoch
		p = p.at(id, r.open)
		page.events = append(page.events, r.event(p.String()))
	}
	rows.Close()
	return page, rows.Err()
}

// eventRow is a row of events.sql.
type eventRow struct {
	xid, id                                           *int64
	at                                                *time.Time
	kind, lease, principal, holder, why, by, resource *string
	code                                              *string
	first, token                                      *int64
	ready                                             *bool
	open                                              []int64
}

func (r *eventRow) dest(page *eventPage) []any {
	return []any{&page.epoch, &page.pruned.xid, &page.pruned.id, &page.xmax, &r.xid, &r.id, &r.at, &r.kind, &r.lease, &r.principal, &r.holder,
		&r.first, &r.why, &r.by, &r.resource, &r.token, &r.code, &r.ready, &r.open}
}

func (r *eventRow) event(position string) fence.Event {
	return fence.Event{
		Position: position, At: deref(r.at).UTC(), Kind: fence.EventKind(deref(r.kind)),
		Lease: deref(r.lease), Principal: deref(r.principal), Holder: deref(r.holder), First: fence.Token(deref(r.first)),
		Why: deref(r.why), By: deref(r.by),
		Resource: deref(r.resource), Token: fence.Token(deref(r.token)), Code: fence.Code(deref(r.code)),
	}
}

// eventText makes a text of a refused request one that PostgreSQL takes.
func eventText(s string) string {
	if len(s) > eventTextLimit {
		s = s[:eventTextLimit]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, string(utf8.RuneError)), "\x00", string(utf8.RuneError))
}
