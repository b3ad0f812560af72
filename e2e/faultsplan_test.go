package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// planned is a fault of the schedule.
type planned struct {
	at, lasts time.Duration
	kind      string
	target    int // which client, gateway or link
	variant   string
	ahead     time.Duration // of a promotion: for how long the replica was cut off before
}

func (p planned) String() string {
	return fmt.Sprintf("%7.3fs for %5.3fs  %s %d %s", p.at.Seconds(), p.lasts.Seconds(), p.kind, p.target, p.variant)
}

// The kinds of faults.
const (
	clientPaused   = "client paused"
	clientKilled   = "client killed"
	gatewayPaused  = "gateway paused"
	gatewayKilled  = "gateway killed"
	redisPaused    = "redis paused"
	redisKilled    = "redis killed"
	redisFlushed   = "redis flushed"
	redisPromoted  = "redis promoted"
	postgresPaused = "postgres paused"
	postgresKilled = "postgres killed"
	postgresSlow   = "postgres slow"
	linkDisturbed  = "link disturbed"
	s3Bad          = "s3 bad"
	s3Paused       = "s3 paused"
)

// faultKind says how often a fault comes, relative to the others, and how long it lasts.
type faultKind struct {
	weight      int
	least, most time.Duration
	variants    []string
}

// faultKinds are the faults of the default run. A delay of PostgreSQL for one gateway lets its leases run out between
// take and certificate, which is where an order of grants could go wrong.
func faultKinds() map[string]faultKind {
	const ms = time.Millisecond
	return map[string]faultKind{
		clientPaused:   {4, 200 * ms, 3000 * ms, nil},
		clientKilled:   {3, 0, 0, nil},
		gatewayPaused:  {4, 200 * ms, 2500 * ms, nil},
		gatewayKilled:  {3, 0, 300 * ms, nil},
		redisPaused:    {1, 200 * ms, 1500 * ms, nil},
		redisKilled:    {1, 0, 0, nil},
		redisFlushed:   {2, 0, 0, nil},
		redisPromoted:  {2, 300 * ms, 1500 * ms, []string{"split", "clean"}},
		postgresPaused: {1, 200 * ms, 1500 * ms, nil},
		postgresKilled: {1, 0, 0, nil},
		postgresSlow:   {7, 800 * ms, 2500 * ms, nil},
		linkDisturbed: {12, 200 * ms, 1500 * ms, []string{"latency", "timeout", "reset_peer", "slicer", "limit_data", "bandwidth",
			"cut", "answers closed", "requests closed"}},
		s3Bad:    {5, 500 * ms, 2000 * ms, []string{s3Errors, s3Slow, s3Lost, s3CutAnswer, s3CutUpload}},
		s3Paused: {1, 200 * ms, 1000 * ms, nil},
	}
}

const (
	// defaultFaultGap is the mean time between the beginnings of two faults.
	defaultFaultGap = 350 * time.Millisecond
	// faultQuiet is left without faults at the beginning and the end.
	faultQuiet = 1500 * time.Millisecond
)

// planFaults makes a schedule, the same for the same configuration. No two faults meet in one place.
func planFaults(c faultsConfig) []planned {
	duration, kinds, clients := c.duration, c.faults, c.clients
	random := rand.New(rand.NewPCG(c.seed, 0x6661756c7473))
	busy := map[string]time.Duration{}
	var plan []planned
	var bag []string
	for at := faultQuiet; at < duration-faultQuiet && len(kinds) > 0; at += time.Duration(random.ExpFloat64() * float64(c.faultGap)) {
		// Every kind comes as often as its weight before the bag is filled again, so that none is left out by chance.
		if len(bag) == 0 {
			bag = fill(kinds, random)
		}
		kind := bag[0]
		k := kinds[kind]
		p := planned{at: at, kind: kind, lasts: k.least + time.Duration(random.Int64N(int64(k.most-k.least)+1)), target: random.IntN(clients * linksInAll)}
		if len(k.variants) > 0 {
			p.variant = k.variants[random.IntN(len(k.variants))]
		}
		if kind == redisPromoted {
			p.ahead = 200*time.Millisecond + time.Duration(random.IntN(1000))*time.Millisecond
		}
		p.aim(clients)
		place := p.place()
		if over := at + p.lasts + p.ahead; busy[place] > at || over > duration-faultQuiet {
			bag = append(bag[1:], kind)
			continue
		}
		// A server that was killed needs a moment to come back.
		busy[place] = at + p.lasts + p.ahead + 500*time.Millisecond
		bag = bag[1:]
		plan = append(plan, p)
	}
	return plan
}

func fill(kinds map[string]faultKind, random *rand.Rand) []string {
	var bag []string
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		bag = append(bag, slices.Repeat([]string{name}, kinds[name].weight)...)
	}
	random.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
	return bag
}

// aim makes of a random number a target that exists.
func (p *planned) aim(clients int) {
	switch p.kind {
	case clientPaused, clientKilled:
		p.target %= clients
	case gatewayPaused, gatewayKilled:
		p.target %= gatewaysInAll
	case postgresSlow:
		p.target = p.target % gatewaysInAll * linksEach // its link to PostgreSQL
	case linkDisturbed:
		if p.target %= linksInAll; p.target%2 == 1 {
			p.target |= linksEach - 1 // half of them meet the clients' links, where replies get lost
		}
	default:
		p.target = 0
	}
}

// place is what the fault is done to.
func (p planned) place() string {
	component, _, _ := strings.Cut(p.kind, " ")
	if p.kind == postgresSlow {
		component = "link"
	}
	return fmt.Sprint(component, " ", p.target)
}
