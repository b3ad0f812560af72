package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fence"
)

// dataset is a table and what the generator knows of its rows, which are numbered from 1. A row belongs to one client during a
// slice, and the slices follow one another, so that what is known of it needs no lock.
type dataset struct {
	table string
	kind  kind
	rows  []rowState // of row 1 and so on
	// grants are those of the leases, in turn: row 1 has the second one's. None where nothing is protected.
	grants []*fence.Grant
}

// kind is how the rows of a table are fenced.
type kind int

const (
	ownLease kind = iota // each row has a lease
	oneLease             // one lease for the table
	buckets              // the key's first part names the lease
	handmade             // a column of the table holds the mark
)

// rowState is the last write of a row that was accepted.
type rowState struct {
	balance int64
	token   fence.Token // by the ledger, or the hand-written column; 0 before the first
}

// write is one to be made.
type write struct {
	row     int64
	balance int64
	token   fence.Token
	stale   bool // the token is one that has to be refused
}

func newDataset(table string, k kind, rows, leases int64) *dataset {
	d := &dataset{table: table, kind: k, rows: make([]rowState, rows)}
	if k != handmade {
		d.grants = make([]*fence.Grant, leases)
	}
	return d
}

func (d *dataset) leaseOf(row int64) int64 { return row % int64(len(d.grants)) }

// template of the leases, as a table is protected with it.
func (d *dataset) template() string {
	switch d.kind {
	case oneLease:
		return d.table
	case buckets:
		return d.table + ":{bucket}"
	}
	return "wallet:{id}"
}

func (d *dataset) leaseName(number int64) string {
	switch d.kind {
	case oneLease:
		return d.table
	case buckets:
		return fmt.Sprint(d.table, ":", number)
	}
	return fmt.Sprint("wallet:", cmp.Or(number, int64(len(d.grants))))
}

// key is the row's, as the HTTP API has it.
func (d *dataset) key(row int64) []int64 {
	if d.kind == buckets {
		return []int64{d.leaseOf(row), row}
	}
	return []int64{row}
}

// create makes the table with its rows, of about a hundred bytes each.
func (d *dataset) create(ctx context.Context, db *pgxpool.Pool) error {
	bucket, number, primary, token := "", "", "id", ""
	switch d.kind {
	case buckets:
		bucket, number, primary = "bucket bigint NOT NULL, ", fmt.Sprintf("n %% %d, ", len(d.grants)), "bucket, id"
	case handmade:
		token = ", fence_token bigint NOT NULL DEFAULT 0"
	}
	_, err := db.Exec(ctx, fmt.Sprintf(`CREATE TABLE %[1]s (%[2]sid bigint NOT NULL, balance bigint NOT NULL, owner text NOT NULL, note text NOT NULL%[5]s, PRIMARY KEY (%[4]s));
		INSERT INTO %[1]s SELECT %[3]sn, 0, 'owner ' || n, repeat('n', 48) FROM generate_series(1, %[6]d) n;
		ANALYZE %[1]s`, d.table, bucket, number, primary, token, len(d.rows)))
	if err != nil {
		return fmt.Errorf("create %s: %w", d.table, err)
	}
	return nil
}

// draw chooses what a client of so many writes next. Each client has rows of its own: no two are ever at the same one.
func (d *dataset) draw(random *rand.Rand, client, clients int, refused float64) (w write, err error) {
	own := (int64(len(d.rows)) - int64(client) + int64(clients) - 1) / int64(clients)
	if own < 1 {
		return w, fmt.Errorf("client %d of %d has no row in %s", client, clients, d.table)
	}
	w.row = 1 + int64(client) + int64(clients)*random.Int64N(own)
	w.balance = random.Int64N(1_000_000_000)
	w.stale = random.Float64() < refused
	if d.kind == handmade {
		w.token = d.rows[w.row-1].token + 1
		return w, nil
	}
	g := d.grants[d.leaseOf(w.row)]
	if w.stale {
		w.token = g.First() - 1
		return w, nil
	}
	w.token, err = next(g, d.rows[w.row-1].token)
	return w, err
}

var errUsedUp = errors.New("the tokens are used up")

// next is the grant's first token after one.
func next(g *fence.Grant, after fence.Token) (fence.Token, error) {
	for _, b := range g.Blocks {
		if after < b.Last {
			return max(after+1, b.First), nil
		}
	}
	return 0, fmt.Errorf("%s: %w", g.Lease, errUsedUp)
}

// written keeps what was accepted. What goes round the ledger has no token.
func (d *dataset) written(w write, fenced bool) {
	s := &d.rows[w.row-1]
	s.balance = w.balance
	if fenced {
		s.token = w.token
	}
}
