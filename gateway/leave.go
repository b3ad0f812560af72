package gateway

import (
	"context"
	"net/http"
)

// A gateway that stops goes through two steps. Leave makes /readyz answer 503, so that a load balancer sends nobody
// else; everything is still served. Drain, called once that has had time to take effect, ends what only waits. Then the
// server is shut down, which lets requests finish.

// Leave makes the gateway say that it is not ready; it goes on serving.
func (g *Gateway) Leave() { g.leaving.Store(true) }

// Drain makes acquires that wait give up at once, with a refusal that may be retried elsewhere; everything else goes on.
func (g *Gateway) Drain() {
	g.Leave()
	g.stopWaiting()
}

// Transfers is how many bodies of objects are on their way. They may take longer than any other request.
func (g *Gateway) Transfers() int64 { return g.transfers.Load() }

// transfer counts a body until the returned function is called.
func (g *Gateway) transfer() (done func()) {
	g.transfers.Add(1)
	return func() { g.transfers.Add(-1) }
}

// untilDrained is the context of a call that waits: the client's, ended by Drain too.
func (g *Gateway) untilDrained(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(g.draining, cancel)
	return ctx, func() { stop(); cancel() }
}
