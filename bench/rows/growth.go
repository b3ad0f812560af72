package main

import (
	"context"
	"fmt"
)

// series is what is measured while one thing grows.
type series struct {
	what   string // what grows, and how many clients write
	unit   string
	points []*candidate
	labels []string
	// control is what PostgreSQL costs without fencegate. It has nothing to reach.
	control bool
}

func (b *bench) walletsTable() *dataset {
	b.wallets = newDataset("wallets", ownLease, b.rows, b.rows)
	return b.wallets
}

func (b *bench) byHandTable() *dataset {
	b.byHand = newDataset("wallets_by_hand", handmade, b.rows, 0)
	return b.byHand
}

// measureGrowth makes its own tables and the other gateways, so that they cost the cases nothing.
func (b *bench) measureGrowth(ctx context.Context) error {
	if b.wallets == nil {
		if err := b.prepare(ctx, b.walletsTable()); err != nil {
			return err
		}
	}
	byRows, byLeases := b.growthTables()
	if err := b.prepare(ctx, append(byRows, byLeases...)...); err != nil {
		return err
	}
	if err := b.startGateways(ctx, mostGateways); err != nil {
		return err
	}
	b.growth = b.growthSeries(byRows, byLeases)
	return b.takeTurns(ctx, "growth", b.bySeries(), b.growthEnd)
}

// bySeries makes groups of the points that are compared with each other.
func (b *bench) bySeries() (groups [][]turn) {
	for _, s := range b.growth {
		var group []turn
		for _, c := range b.chosen(append([]*candidate(nil), s.points...)) {
			group = append(group, turn{c, c.clients[0]})
		}
		groups = append(groups, group)
	}
	return groups
}

func (b *bench) growthTables() (byRows, byLeases []*dataset) {
	for _, n := range b.protected {
		byRows = append(byRows, newDataset(fmt.Sprint("rows_", n), oneLease, n, 1))
	}
	most := b.leases[len(b.leases)-1]
	for _, n := range b.leases {
		byLeases = append(byLeases, newDataset(fmt.Sprint("leases_", n), buckets, most, n))
	}
	return byRows, byLeases
}

func (b *bench) growthSeries(byRows, byLeases []*dataset) []series {
	alone := series{what: "Protected rows, 1 client", unit: "rows"}
	for _, d := range byRows {
		alone.add(b.point(caseGrowth+"rows-"+fmt.Sprint(len(d.rows)), fewClients, d, 1, 0), fmt.Sprint(len(d.rows)))
	}
	many := series{what: fmt.Sprintf("Protected rows, %d clients", manyClients), unit: "rows"}
	for _, d := range byRows {
		if len(d.rows) >= manyClients {
			many.add(b.point(caseGrowth+"rows-"+fmt.Sprint(len(d.rows)), manyClients, d, 1, 0), fmt.Sprint(len(d.rows)))
		}
	}
	control := series{what: fmt.Sprintf("The same rows written by `direct`, %d clients", manyClients), unit: "rows", control: true}
	for i, c := range many.points {
		control.add(&candidate{
			name: caseGrowth + "direct-rows-" + many.labels[i], clients: c.clients, pool: poolSize, on: c.on, unfenced: true, open: openDirect(c.on, poolSize),
		}, many.labels[i])
	}
	leases := series{what: fmt.Sprintf("Leases, %d clients", manyClients), unit: "leases"}
	for _, d := range byLeases {
		leases.add(b.point(caseGrowth+"leases-"+fmt.Sprint(len(d.grants)), manyClients, d, 1, 0), fmt.Sprint(len(d.grants)))
	}
	gateways := series{what: fmt.Sprintf("Gateways, %d clients", manyClients), unit: "gateways"}
	for n := 1; n <= mostGateways; n *= 2 {
		gateways.add(b.point(caseGrowth+"gateways-"+fmt.Sprint(n), manyClients, b.wallets, n, 0), fmt.Sprint(n))
	}
	refused := series{what: fmt.Sprintf("Refused share, %d clients", manyClients), unit: "refused"}
	for _, share := range refusals() {
		refused.add(b.point(refusedName(share), manyClients, b.wallets, 1, share), fmt.Sprint(share))
	}
	return []series{alone, many, control, leases, gateways, refused}
}

func (s *series) add(c *candidate, label string) {
	s.points, s.labels = append(s.points, c), append(s.labels, label)
}

// point is a candidate that writes through so many gateways.
func (b *bench) point(name string, clients int, d *dataset, gateways int, refused float64) *candidate {
	serving := func() []*child { return b.gateways[:gateways] }
	return &candidate{
		name: name, clients: []int{clients}, pool: poolSize, on: d, refused: refused, serving: serving, open: openHTTP(d, fenced{}, serving),
	}
}

// caseGrowth begins the names of the points of series in the results.
const caseGrowth = "growth-"

func refusedName(share float64) string { return fmt.Sprintf(caseGrowth+"refused-%g", share) }

// id of a point, which has one number of clients.
func (c *candidate) id() id { return id{c.name, c.clients[0], c.pool} }
