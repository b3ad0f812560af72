package gateway

import (
	"log/slog"
	"net/http"
)

// logRefusal writes the one line about a refusal: INFO, or ERROR with the cause when the fault is on this side.
// Ids, secrets and bodies are in neither.
func (g *Gateway) logRefusal(r *http.Request, p problem, cause error) {
	ctx, level := r.Context(), slog.LevelInfo
	if p.Status >= http.StatusInternalServerError && p.Status != http.StatusNotImplemented {
		level = slog.LevelError
	}
	if !g.cfg.Log.Enabled(ctx, level) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 12),
		slog.String("code", string(p.Code)), slog.Int("status", p.Status),
		slog.String("principal", principalOf(ctx)), slog.String("trace_id", p.TraceID),
	)
	text := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	if principalOf(ctx) == "" {
		// Nothing else tells who it was.
		text("client", r.RemoteAddr)
	}
	text("resource", p.Resource)
	text("lease", p.Lease)
	text("holder", p.Holder)
	if p.Status == http.StatusForbidden {
		// What was asked for: nothing was looked up that could tell.
		text("detail", p.Detail)
	}
	text("field", p.Field)
	if p.Token != 0 {
		attrs = append(attrs, slog.Int64("token", int64(p.Token)))
	}
	if p.Mark != nil {
		attrs = append(attrs, slog.Int64("mark", int64(*p.Mark)))
	}
	if level == slog.LevelError {
		attrs = append(attrs, slog.String("cause", cause.Error()))
	}
	g.cfg.Log.LogAttrs(ctx, level, "refused", attrs...)
}
