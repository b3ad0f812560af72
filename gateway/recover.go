package gateway

import (
	"fmt"
	"net/http"
	"runtime/debug"
)

// recovered answers a panic. A panic in the middle of a write does not say that nothing changed (I7). When the
// answer has begun, the connection is cut instead, so that nobody takes it for a whole one (I6).
func (g *Gateway) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			err := fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			if exchangeOf(r.Context()).answer.began {
				g.cfg.Log.ErrorContext(r.Context(), "answer cut off", "trace_id", traceID(r.Context()), "cause", err)
				panic(http.ErrAbortHandler)
			}
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				err = settled(err)
			}
			clear(w.Header())
			w.Header().Set("X-Trace-Id", traceID(r.Context()))
			g.fail(w, r, err)
		}()
		next.ServeHTTP(w, r)
	})
}
