package gateway

import (
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/go-chi/chi/v5/middleware"
)

// recovered answers a panic. A panic in the middle of a write does not say that nothing changed (I7). When the
// answer has begun, the connection is cut instead, so that nobody takes it for a whole one (I6).
func (g *Gateway) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			err := fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			if ww.Status() != 0 {
				g.cfg.Log.ErrorContext(r.Context(), "answer cut off", "trace_id", traceID(r.Context()), "cause", err)
				panic(http.ErrAbortHandler)
			}
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				err = settled(err)
			}
			clear(ww.Header())
			ww.Header().Set("X-Trace-Id", traceID(r.Context()))
			g.fail(ww, r, err)
		}()
		next.ServeHTTP(ww, r)
	})
}
