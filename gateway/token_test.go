package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

func TestTokenOf(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lines []string
		want  fence.Token
		code  fence.Code
	}{
		{"None", nil, 0, fence.CodeAccepted},
		{"One", []string{"7"}, 7, fence.CodeAccepted},
		{"Largest", []string{"999999999999999"}, fence.MaxToken, fence.CodeAccepted},
		{"TwoLines", []string{"7", "7"}, 0, fence.CodeInvalidToken},
		{"Empty", []string{""}, 0, fence.CodeInvalidToken},
		{"Zero", []string{"0"}, 0, fence.CodeInvalidToken},
		{"Plus", []string{"+7"}, 0, fence.CodeInvalidToken},
		{"Minus", []string{"-7"}, 0, fence.CodeInvalidToken},
		{"LeadingZeros", []string{"007"}, 0, fence.CodeInvalidToken},
		{"List", []string{"7,8"}, 0, fence.CodeInvalidToken},
		{"Exponent", []string{"1e3"}, 0, fence.CodeInvalidToken},
		{"SixteenDigits", []string{"1234567890123456"}, 0, fence.CodeInvalidToken},
		{"TooLong", []string{strings.Repeat("7", 20000)}, 0, fence.CodeInvalidToken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tokenOf(http.Header{headerToken: tc.lines})
			if got != tc.want || fence.CodeOf(err) != tc.code {
				t.Fatalf("got %d, %v", got, err)
			}
			if err != nil && len(err.Error()) > 200 {
				t.Fatalf("the error shows the whole header: %d bytes", len(err.Error()))
			}
		})
	}
}

func TestParseTraceparent(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for line, want := range map[string]string{
		"00-" + id + "-00f067aa0ba902b7-01":                        id,
		"01-" + id + "-00f067aa0ba902b7-01-more":                   id,
		"00-" + id + "-00f067aa0ba902b7-01-more":                   "",
		"ff-" + id + "-00f067aa0ba902b7-01":                        "",
		"00-" + strings.ToUpper(id) + "-00f067aa0ba902b7-01":       "",
		"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01":   "",
		"00-" + id + "-0000000000000000-01":                        "",
		"00-" + id[:31] + "-00f067aa0ba902b7-01":                   "",
		"":                                                         "",
		"00-" + id + "-00f067aa0ba902b7-01, 00-x-00f067aa0ba902b7": "",
	} {
		if got, ok := parseTraceparent([]string{line}); got != want || ok != (want != "") {
			t.Errorf("%q: got %q", line, got)
		}
	}
}
