package gateway

import (
	"net/http"
	"strings"
)

const numbersAsText = "numbers=string"

// prefersMinimal reports whether the client asks for no body (RFC 7240).
func prefersMinimal(h http.Header) bool { return strings.EqualFold(preference(h, "return"), "minimal") }

// prefersNumbersAsText reports whether the client asks for int8 and numeric values as strings.
func prefersNumbersAsText(h http.Header) bool { return preference(h, "numbers") == "string" }

func applyNumbers(answer, request http.Header) {
	if prefersNumbersAsText(request) {
		answer.Set("Preference-Applied", numbersAsText)
	}
}

// preferred reports whether the client asks for a preference that has no value.
func preferred(h http.Header, name string) bool {
	for _, line := range h["Prefer"] {
		for p := range strings.SplitSeq(line, ",") {
			p, _, _ = strings.Cut(p, ";")
			if strings.EqualFold(strings.TrimSpace(p), name) {
				return true
			}
		}
	}
	return false
}

// preference returns the value of a preference. The first of a name counts.
func preference(h http.Header, name string) string {
	for _, line := range h["Prefer"] {
		for p := range strings.SplitSeq(line, ",") {
			p, _, _ = strings.Cut(p, ";")
			n, value, _ := strings.Cut(p, "=")
			if strings.EqualFold(strings.TrimSpace(n), name) {
				return strings.Trim(value, " \t\"")
			}
		}
	}
	return ""
}
