package gateway

import (
	"net/http"
	"strings"
)

// prefersMinimal reports whether the client asks for no body (RFC 7240). The first "return" counts.
func prefersMinimal(h http.Header) bool {
	for _, line := range h.Values("Prefer") {
		for p := range strings.SplitSeq(line, ",") {
			p, _, _ = strings.Cut(p, ";")
			name, value, _ := strings.Cut(p, "=")
			if strings.EqualFold(strings.TrimSpace(name), "return") {
				return strings.EqualFold(strings.Trim(value, " \t\""), "minimal")
			}
		}
	}
	return false
}
