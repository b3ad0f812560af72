package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
)

type traceKey struct{}

// traced gives every request the id of its trace, else the one in its W3C traceparent, else a random one, and tells it
// in X-Trace-Id.
func (g *Gateway) traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var id string
		if g.cfg.TraceID != nil {
			id = g.cfg.TraceID(r.Context())
		}
		if id == "" {
			id, _ = parseTraceparent(r.Header.Values("Traceparent"))
		}
		if id == "" {
			var random [16]byte
			_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
			id = hex.EncodeToString(random[:])
		}
		w.Header().Set("X-Trace-Id", id)
		if g.leaving.Load() {
			// Connections end while nobody uses them, rather than under the next request.
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), traceKey{}, id)))
	})
}

func traceID(ctx context.Context) string {
	id, _ := ctx.Value(traceKey{}).(string)
	return id
}

// parseTraceparent reads version-traceid-parentid-flags. A version that is not known yet may append fields.
func parseTraceparent(lines []string) (string, bool) {
	if len(lines) != 1 {
		return "", false
	}
	f := strings.Split(lines[0], "-")
	if len(f) < 4 || (f[0] == "00" && len(f) != 4) || f[0] == "ff" {
		return "", false
	}
	for i, size := range []int{2, 32, 16, 2} {
		if len(f[i]) != size || strings.Trim(f[i], "0123456789abcdef") != "" {
			return "", false
		}
	}
	if strings.Trim(f[1], "0") == "" || strings.Trim(f[2], "0") == "" {
		return "", false
	}
	return f[1], true
}
