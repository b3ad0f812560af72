package gateway

import (
	"cmp"
	"math"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/fencegate/fencegate/fence"
)

// maxPaced bounds how many principals are remembered: with tokens of an identity provider there is no end of them.
// Whoever is forgotten starts again with a whole burst.
const maxPaced = 10_000

// pace bounds how fast one principal may draw blocks of tokens: by acquires, each of which may add a row to the ledger
// that is never deleted, and by asking for more tokens, each of which may lengthen one.
type pace struct {
	each  rate.Limit
	burst int
	paced *lru.Cache[string, *rate.Limiter]
}

// newPace returns nil when there is no limit.
func newPace(each float64, burst int) (*pace, error) {
	if each == 0 {
		return nil, nil
	}
	paced, err := lru.New[string, *rate.Limiter](maxPaced)
	if err != nil {
		return nil, err
	}
	return &pace{rate.Limit(each), cmp.Or(burst, int(math.Ceil(10*each))), paced}, nil
}

// check takes one of a principal's draws, or refuses with the time until there is one again.
func (p *pace) check(principal string, now time.Time) error {
	if p == nil {
		return nil
	}
	draw := p.of(principal).ReserveN(now, 1)
	wait := draw.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	// Else whoever goes on trying would never be let through again.
	draw.CancelAt(now)
	e := fence.Errorf(fence.CodeRateLimited, "this principal acquires too fast: %v a second, %d at once", float64(p.each), p.burst)
	e.Remaining = wait
	return e
}

func (p *pace) of(principal string) *rate.Limiter {
	fresh := rate.NewLimiter(p.each, p.burst)
	if known, found, _ := p.paced.PeekOrAdd(principal, fresh); found {
		p.paced.Get(principal) // now the most recently seen
		return known
	}
	return fresh
}
