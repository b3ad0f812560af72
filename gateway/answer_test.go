package gateway

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestAnswerBegins(t *testing.T) {
	for name, begin := range map[string]func(*answer){
		"WriteHeader": func(a *answer) { a.WriteHeader(http.StatusAccepted); a.WriteHeader(http.StatusOK) },
		"Write":       func(a *answer) { _, _ = a.Write([]byte("x")); a.WriteHeader(http.StatusAccepted) },
		"ReadFrom":    func(a *answer) { _, _ = a.ReadFrom(strings.NewReader("x")) },
		"Flush":       func(a *answer) { _ = http.NewResponseController(a).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			a := &answer{ResponseWriter: rec}
			a.Header().Set(headerReplayed, "true")
			begin(a)
			a.Header().Del(headerReplayed)
			want := http.StatusOK
			if name == "WriteHeader" {
				want = http.StatusAccepted
			}
			if !a.began || !a.replayed || rec.Code != want {
				t.Fatalf("began %t, replayed %t, %d", a.began, a.replayed, rec.Code)
			}
		})
	}
}

func TestInformationIsNoAnswer(t *testing.T) {
	a := &answer{ResponseWriter: httptest.NewRecorder()}
	a.WriteHeader(http.StatusContinue)
	if a.began {
		t.Error("an informational status begins the answer")
	}
}

func TestEscapeNameIsThatOfQueries(t *testing.T) {
	var all strings.Builder
	for b := range 256 {
		all.WriteByte(byte(b))
	}
	for _, s := range []string{"", "wallet", "wallet:42", "a b+c%", "ü/€", all.String()} {
		if got, want := escapeName(s), strings.ReplaceAll(url.QueryEscape(s), "+", "%20"); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}
