package gateway

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"
)

// exchange gives a request the id of its trace, else the one in its W3C traceparent, else a random one, and tells it in X-Trace-Id.
func (g *Gateway) exchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{Context: r.Context(), answer: answer{ResponseWriter: w}}
	if g.cfg.TraceID != nil {
		x.trace = g.cfg.TraceID(x.Context)
	}
	if x.trace == "" {
		x.trace, _ = parseTraceparent(r.Header["Traceparent"])
	}
	if x.trace == "" {
		x.trace = randomTrace()
	}
	x.traceLine[0] = x.trace
	h := w.Header()
	h["X-Trace-Id"] = x.traceLine[:]
	if g.leaving.Load() {
		// Connections end while nobody uses them, rather than under the next request.
		h.Set("Connection", "close")
	}
	return x
}

// traced serves a request in an exchange.
func (g *Gateway) traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := g.exchange(w, r)
		next.ServeHTTP(&x.answer, r.WithContext(x))
	})
}

func traceID(ctx context.Context) string { return exchangeOf(ctx).trace }

// randomTrace returns 32 hexadecimal digits. They are to be different, not to be secret.
func randomTrace() string {
	var (
		random [16]byte
		digits [2 * len(random)]byte
	)
	binary.LittleEndian.PutUint64(random[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(random[8:], rand.Uint64()|1) // an id of zeros is none
	hex.Encode(digits[:], random[:])
	return string(digits[:])
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
