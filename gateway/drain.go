package gateway

import (
	"io"
	"net/http"
	"time"
)

const (
	drainBytes = 4 << 20 // more than the largest JSON body: the answer to one that is too large must arrive
	drainTime  = 2 * time.Second
)

// bounded gives a request's body a deadline, also one that no handler reads: net/http reads the rest of a body
// before it answers, and would wait for ever for a client that stalls. A put of an object sets a longer one.
func (g *Gateway) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			_ = setReadDeadline(w, time.Now().Add(g.cfg.WriteTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// drain reads a bounded part of the body of a request that is refused, so that a client which is still sending
// sees the refusal and not a broken pipe. A client that waits for 100 Continue is not asked for its body. The
// deadline stays for what net/http reads afterwards.
func (g *Gateway) drain(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || exchangeOf(r.Context()).bodyRead {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(min(drainTime, g.cfg.WriteTimeout)))
	if r.Header.Get("Expect") != "" {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, drainBytes)
}
