package main

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

func granted(d *dataset, blocks ...fence.Block) *dataset {
	for i := range d.grants {
		d.grants[i] = &fence.Grant{Lease: d.leaseName(int64(i)), Blocks: blocks}
	}
	return d
}

func TestNoTwoClientsDrawTheSameRow(t *testing.T) {
	for _, rows := range []int64{64, 100, 1000} {
		d := granted(newDataset("wallets", ownLease, rows, rows), fence.Block{First: 1000, Last: 1999})
		owner := map[int64]int{}
		for client := range 64 {
			random := rand.New(rand.NewPCG(1, uint64(client)))
			for range 200 {
				w, err := d.draw(random, client, 64, 0)
				if err != nil {
					t.Fatal(err)
				}
				if w.row < 1 || w.row > rows {
					t.Fatalf("of %d rows, client %d draws %d", rows, client, w.row)
				}
				if other, taken := owner[w.row]; taken && other != client {
					t.Fatalf("of %d rows, clients %d and %d draw %d", rows, other, client, w.row)
				}
				owner[w.row] = client
			}
		}
		if int64(len(owner)) != rows {
			t.Errorf("of %d rows, %d are drawn", rows, len(owner))
		}
	}
	if _, err := newDataset("rows_1", oneLease, 1, 1).draw(rand.New(rand.NewPCG(1, 1)), 1, 2, 0); err == nil {
		t.Error("the second client of a table with one row draws one")
	}
}

func TestTokensOfARowIncrease(t *testing.T) {
	d := granted(newDataset("rows_1", oneLease, 1, 1), fence.Block{First: 1000, Last: 1001}, fence.Block{First: 5000, Last: 5000})
	random := rand.New(rand.NewPCG(1, 1))
	for _, want := range []fence.Token{1000, 1001, 5000} {
		if got := left(d.grants[0], d.rows[0].token); got != map[fence.Token]int64{1000: 3, 1001: 2, 5000: 1}[want] {
			t.Errorf("before %d, %d are left", want, got)
		}
		w, err := d.draw(random, 0, 1, 0)
		if err != nil || w.token != want || w.stale {
			t.Fatalf("got %+v, %v; want %d", w, err, want)
		}
		d.written(w, true)
	}
	if _, err := d.draw(random, 0, 1, 0); !errors.Is(err, errUsedUp) || left(d.grants[0], 5000) != 0 {
		t.Errorf("the tokens are used up, and the error is %v", err)
	}
	w, err := d.draw(random, 0, 1, 1)
	if err != nil || !w.stale || w.token != 999 {
		t.Errorf("one to be refused is %+v, %v", w, err)
	}
	d.written(write{row: 1, balance: 7, token: 9}, false)
	if d.rows[0] != (rowState{7, 5000}) {
		t.Errorf("after a write that goes round the ledger: %+v", d.rows[0])
	}
}

func TestRefusedShare(t *testing.T) {
	d := granted(newDataset("wallets", ownLease, 100, 100), fence.Block{First: 1000, Last: 1999})
	random, stale := rand.New(rand.NewPCG(1, 1)), 0
	for range 1000 {
		if w, _ := d.draw(random, 0, 1, 0.1); w.stale {
			stale++
		}
	}
	if stale < 70 || stale > 130 {
		t.Errorf("%d of 1000 are to be refused, not a tenth", stale)
	}
}

// What a table is protected with gives the names of the leases that were granted.
func TestLeaseNames(t *testing.T) {
	for _, tt := range []struct {
		of    *dataset
		row   int64
		lease string
	}{
		{newDataset("wallets", ownLease, 3, 3), 1, "wallet:1"},
		{newDataset("wallets", ownLease, 3, 3), 3, "wallet:3"},
		{newDataset("rows_3", oneLease, 3, 1), 2, "rows_3"},
		{newDataset("leases_10", buckets, 30, 10), 27, "leases_10:7"},
	} {
		if got := tt.of.leaseName(tt.of.leaseOf(tt.row)); got != tt.lease {
			t.Errorf("row %d of %s: %s, want %s", tt.row, tt.of.table, got, tt.lease)
		}
	}
	if got := newDataset("leases_10", buckets, 30, 10).key(27); len(got) != 2 || got[0] != 7 || got[1] != 27 {
		t.Errorf("key %v", got)
	}
}

func TestWrongRowsAreFound(t *testing.T) {
	d := newDataset("wallets", handmade, 2, 0)
	d.written(write{row: 2, balance: 5, token: 9}, true)
	for _, tt := range []struct {
		id   int64
		got  rowState
		fine bool
	}{
		{1, rowState{}, true}, {2, rowState{5, 9}, true}, {2, rowState{5, 8}, false}, {2, rowState{4, 9}, false}, {3, rowState{}, false}, {0, rowState{}, false},
	} {
		if err := d.wrong(tt.id, tt.got); (err == nil) != tt.fine {
			t.Errorf("row %d, %+v: %v", tt.id, tt.got, err)
		}
	}
}

func TestPreparingWaitsWhileOverloaded(t *testing.T) {
	for _, tt := range []struct {
		code  fence.Code
		calls int
		fine  bool
	}{{fence.CodeOverloaded, 2, true}, {fence.CodeStaleToken, 1, false}} {
		calls := 0
		err := patiently(t.Context(), func() error {
			if calls++; calls > 1 {
				return nil
			}
			return fence.Errorf(tt.code, "as it is")
		})
		if calls != tt.calls || (err == nil) != tt.fine {
			t.Errorf("%s: %d calls, %v", tt.code, calls, err)
		}
	}
}
