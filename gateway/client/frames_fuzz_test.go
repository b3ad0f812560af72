package client

import (
	"strings"
	"testing"
)

// Whatever a stream holds, reading it ends, a frame is no longer than it may be, and no id or datum has a line break that
// could be sent back in a header.
func FuzzFrames(f *testing.F) {
	for _, s := range []string{"", ":\n\n", "id: 1\ndata: {}\n\n", "data: a\ndata: b\n\nretry: 5\r\n\r\nid\n\n", "retry: 99999999999\n\n", "data:" + strings.Repeat("x", 300)} {
		f.Add(s)
	}
	const most = 200
	f.Fuzz(func(t *testing.T, stream string) {
		frames, lines := newFrames(strings.NewReader(stream), most), 0
		for n := 0; ; n++ {
			got, err := frames.next(func() { lines++ })
			if err != nil {
				var unset frame
				if got != unset {
					t.Fatalf("%+v comes with %v", got, err)
				}
				return
			}
			if len(got.data) > most || strings.ContainsAny(got.id, "\r\n") || n > lines || got.retry < 0 {
				t.Fatalf("read %+v", got)
			}
		}
	})
}
