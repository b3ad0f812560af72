package gateway

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Classes of requests, each of which is counted by itself. ClassReads are reads of rows, objects, marks, leases and events;
// ClassLeases acquires, renewals, calls for more tokens and breaks. A release is in none: whoever gives something back
// is not kept from it.
const (
	ClassReads  = "reads"
	ClassWrites = "writes"
	ClassLeases = "leases"
)

// Limiter counts requests.
type Limiter interface {
	// Take counts one request of a principal, and returns how long he has to wait if it is one too many, else 0. An error says
	// that nobody can tell at present. It keeps requests waiting, so it must be quick with both.
	Take(ctx context.Context, class, principal string) (wait time.Duration, err error)
}

// limits counts what came of the limits: indexed by class.
type limits struct{ over, uncounted map[string]*atomic.Uint64 }

func newLimits() limits {
	l := limits{map[string]*atomic.Uint64{}, map[string]*atomic.Uint64{}}
	for _, class := range []string{ClassReads, ClassWrites, ClassLeases} {
		l.over[class], l.uncounted[class] = &atomic.Uint64{}, &atomic.Uint64{}
	}
	return l
}

// withinRate refuses a request that is one too many. Where the Limiter cannot tell, a write goes through: the fence does not
// depend on it, and a lock service that is away must not stop those who hold their leases.
func (g *Gateway) withinRate(r *http.Request, m method) error {
	return g.withinClass(r.Context(), classOf(m), principalOf(r.Context()))
}

func (g *Gateway) withinClass(ctx context.Context, class, principal string) error {
	if g.cfg.Limiter == nil || class == "" {
		return nil
	}
	// A client that leaves is counted: its write is carried out all the same.
	wait, err := g.cfg.Limiter.Take(context.WithoutCancel(ctx), class, principal)
	switch {
	case err != nil && (class == ClassWrites || !g.cfg.DenyUncounted):
		g.limits.uncounted[class].Add(1)
		return nil
	case err != nil:
		g.limits.uncounted[class].Add(1)
		return fence.Wrap(fence.CodeUnavailable, err, "requests cannot be counted at present, and this gateway serves none uncounted but writes and releases")
	case wait > 0:
		g.limits.over[class].Add(1)
		e := fence.Errorf(fence.CodeRateLimited, "this principal has made all the %s that it may for now", words(class))
		e.Remaining = wait
		return e
	}
	return nil
}

func classOf(m method) string {
	switch {
	case m.op == "release":
		return ""
	case m.verb == VerbRead:
		return ClassReads
	case m.verb == VerbWrite:
		return ClassWrites
	}
	return ClassLeases
}

// words are a class in a sentence.
func words(class string) string {
	if class == ClassLeases {
		return "calls about leases"
	}
	return class
}
