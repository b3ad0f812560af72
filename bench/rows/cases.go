package main

import (
	"context"
	"io"
	"time"
)

// The cases, as they are called in the results.
const (
	caseDirect       = "direct"
	caseDirectFenced = "direct-fenced"
	caseUnfenced     = "http-unfenced"
	caseGateway      = "gateway"
	caseLibrary      = "library"
	casePeer         = "peer-" // and its name
)

const (
	// poolSize is how many connections to PostgreSQL each has. A larger pool is tried for what writes directly, where there are more
	// clients than that; the better one counts.
	poolSize  = 16
	largePool = 64
)

// bench is one run.
type bench struct {
	options
	servers  *servers
	results  *results
	progress io.Writer
	began    time.Time // when the measuring did

	wallets, byHand *dataset
	all             []*dataset
	growth          []series
	gateways        []*child // the first one serves the cases
	peak            int64    // resident memory of the gateway after the cases, in bytes; 0 where it cannot be seen
	missing         []string // what could not be measured, and why
}

// cases starts what serves, and returns what is compared.
func (b *bench) cases(ctx context.Context) ([]*candidate, error) {
	service, err := b.startService(ctx)
	if err != nil {
		return nil, err
	}
	peers, err := b.peerCases(ctx)
	return append(b.ownCases(service), peers...), err
}

// ownCases are those without the peers. They write to the same table with the same work; what fences by hand has its own.
func (b *bench) ownCases(service *child) []*candidate {
	return []*candidate{
		{name: caseDirect, clients: clients(), pool: poolSize, on: b.wallets, unfenced: true, open: openDirect(b.wallets, poolSize)},
		{name: caseDirect, clients: clientsAbove(poolSize), pool: largePool, on: b.wallets, unfenced: true, open: openDirect(b.wallets, largePool)},
		{name: caseDirectFenced, clients: clients(), pool: poolSize, on: b.byHand, open: openDirect(b.byHand, poolSize)},
		{name: caseDirectFenced, clients: clientsAbove(poolSize), pool: largePool, on: b.byHand, open: openDirect(b.byHand, largePool)},
		{name: caseUnfenced, clients: clients(), pool: poolSize, on: b.wallets, unfenced: true, serving: one(service), open: openHTTP(b.wallets, plain{"/wallets/"}, one(service))},
		{name: caseGateway, clients: clients(), pool: poolSize, on: b.wallets, serving: b.firstGateway, open: openHTTP(b.wallets, fenced{}, b.firstGateway)},
		{name: caseLibrary, clients: clients(), pool: poolSize, on: b.wallets, open: openLibrary},
	}
}

func clientsAbove(n int) (list []int) {
	for _, c := range clients() {
		if c > n {
			list = append(list, c)
		}
	}
	return list
}

func one(c *child) func() []*child { return func() []*child { return []*child{c} } }

func (b *bench) firstGateway() []*child { return b.gateways[:1] }
