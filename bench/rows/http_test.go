package main

import (
	"encoding/json"
	"testing"
)

func TestRequests(t *testing.T) {
	w := write{row: 42, balance: 7, token: 1001}
	grouped := newDataset("leases_10", buckets, 100, 10)
	for _, tt := range []struct {
		name               string
		how                dialect
		on                 *dataset
		line, header, body string
	}{
		{"Gateway", fenced{}, newDataset("wallets", ownLease, 100, 100), "PATCH /v1/rows/wallets/42", "Content-Type: application/json\r\nX-Fence-Token: 1001\r\n", `{"balance":7}`},
		{"GatewayCompositeKey", fenced{}, grouped, "PATCH /v1/rows/leases_10/2,42", "Content-Type: application/json\r\nX-Fence-Token: 1001\r\n", `{"balance":7}`},
		{"Plain", plain{"/wallets/"}, nil, "PATCH /wallets/42", "Content-Type: application/json\r\n", `{"balance":7}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request{header: []byte("of the last one"), body: []byte("of the last one")}
			tt.how.append(&r, tt.on, w)
			if got := r.method + " " + r.path; got != tt.line || string(r.header) != tt.header || string(r.body) != tt.body {
				t.Errorf("got %s\n%s%s", got, r.header, r.body)
			}
		})
	}
	var r request
	graphql{}.append(&r, nil, w)
	var sent struct{ Variables struct{ ID, Balance string } }
	if err := json.Unmarshal(r.body, &sent); err != nil || sent.Variables.ID != "42" || sent.Variables.Balance != "7" {
		t.Errorf("GraphQL: %s: %v", r.body, err)
	}
}

func TestTells(t *testing.T) {
	for body, want := range map[string]bool{
		`{"id":1,"balance":42,"note":"x"}`: true, `{"balance": 42}`: true, `{"data":{"wallet":{"balance":"42"}}}`: true,
		`{"balance":421}`: false, `{"balance":4}`: false, `{"balance":142}`: false, `{"balance":42`: false, `{"note":"42"}`: false, ``: false,
	} {
		if got := tells([]byte(body), 42); got != want {
			t.Errorf("%s: %t", body, got)
		}
	}
}

// More tokens are asked for than a slice of any length can use, but for what is drawn very unevenly, which fails the run.
func TestTokensNeeded(t *testing.T) {
	for _, p := range []plan{full(), quick()} {
		length := p.warmUp + p.slice
		alone := newDataset("rows_1", oneLease, 1, 1)
		if most := alone.mostWrites(length); most < 1 || alone.tokensNeeded(length) < most {
			t.Errorf("%v: %d writes of one row, %d tokens", length, most, alone.tokensNeeded(length))
		}
		for _, rows := range append([]int64{p.rows}, p.protected[1:]...) {
			d := newDataset("rows", oneLease, rows, 1)
			evenly := length.Seconds() * fastest / float64(rows)
			if got := float64(d.tokensNeeded(length)); got < 2*evenly || got < 100 || d.mostWrites(length) != 0 {
				t.Errorf("%v: %v writes of each of %d rows, %v tokens", length, evenly, rows, got)
			}
		}
	}
}
