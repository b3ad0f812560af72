package gateway

import (
	"context"
	"io"
	"net/http"
	"time"
)

const readyTimeout = 2 * time.Second

// live says that the process answers; it asks nobody.
func (g *Gateway) live(w http.ResponseWriter, _ *http.Request) error {
	respondText(w, http.StatusOK, "ok\n")
	return nil
}

// ready says whether writes can be served. The cause of a no is for the log: probes are not authenticated.
func (g *Gateway) ready(w http.ResponseWriter, r *http.Request) error {
	if g.leaving.Load() {
		respondText(w, http.StatusServiceUnavailable, "draining\n")
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := g.cfg.Readiness.Ready(ctx); err != nil {
		g.cfg.Log.ErrorContext(ctx, "not ready", "trace_id", traceID(ctx), "cause", err)
		respondText(w, http.StatusServiceUnavailable, "not ready\n")
		return nil
	}
	respondText(w, http.StatusOK, "ok\n")
	return nil
}

func respondText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}
