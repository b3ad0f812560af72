package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/fencegate/fencegate/fence"
)

func TestReadBody(t *testing.T) {
	const text = `{"balance":42.50}`
	broken := errors.New("broken off")
	for _, tc := range []struct {
		name   string
		body   io.Reader
		length int64
		want   string // empty when it is refused
		code   fence.Code
	}{
		{"OK", strings.NewReader(text), int64(len(text)), text, ""},
		{"EndsWithTheLastBytes", iotest.DataErrReader(strings.NewReader(text)), int64(len(text)), text, ""},
		{"ByteByByte", iotest.OneByteReader(strings.NewReader(text)), int64(len(text)), text, ""},
		{"UnknownLength", strings.NewReader(text), -1, text, ""},
		{"LongerThanItSays", strings.NewReader(text), 3, text, ""},
		{"ShorterThanItSays", strings.NewReader(text), 100, text, ""},
		{"Large", strings.NewReader(strings.Repeat("x", smallBody+1)), smallBody + 1, strings.Repeat("x", smallBody+1), ""},
		{"TooLargeBySaying", strings.NewReader(text), 1 << 20, "", fence.CodeTooLarge},
		{"TooLarge", strings.NewReader(strings.Repeat("x", 2*smallBody+1)), -1, "", fence.CodeTooLarge},
		{"TooLargeUnsaid", strings.NewReader(strings.Repeat("x", 2*smallBody+1)), 10, "", fence.CodeTooLarge},
		{"AsLargeAsMayBeUnsaid", strings.NewReader(strings.Repeat("x", 2*smallBody)), 10, strings.Repeat("x", 2*smallBody), ""},
		{"BrokenOff", io.MultiReader(strings.NewReader("{"), iotest.ErrReader(broken)), int64(len(text)), "", fence.CodeInvalidRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := &Gateway{cfg: Config{MaxBody: 2 * smallBody}.withDefaults()}
			r := httptest.NewRequest("PATCH", "/", tc.body)
			x := g.exchange(httptest.NewRecorder(), r)
			r = r.WithContext(x)
			r.ContentLength = tc.length
			got, err := g.readBody(&x.answer, r)
			switch {
			case tc.code != "":
				if fence.CodeOf(err) != tc.code || x.bodyRead {
					t.Fatalf("%d bytes, %v, read to its end: %t", len(got), err, x.bodyRead)
				}
			case err != nil || !bytes.Equal(got, []byte(tc.want)) || !x.bodyRead:
				t.Fatalf("%d bytes, %v, read to its end: %t", len(got), err, x.bodyRead)
			}
		})
	}
}
