package sse

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"time"
)

func TestReader(t *testing.T) {
	const stream = ": hello\n\nretry: 1500\nid: 7\nevent: granted\ndata: {\"a\":\ndata:1}\r\n\r\nid\n\ndata: cut off"
	r, lines := NewReader(strings.NewReader(stream), 100), 0
	for i, want := range []Frame{{}, {ID: "7", Data: "{\"a\":\n1}", Retry: 1500 * time.Millisecond}, {}} {
		got, err := r.Next(func() { lines++ })
		if got != want || err != nil {
			t.Fatalf("%d: %+v, %v, want %+v", i, got, err, want)
		}
	}
	if got, err := r.Next(func() { lines++ }); err != io.ErrUnexpectedEOF || got != (Frame{}) || lines != 11 {
		t.Errorf("cut off: %+v, %v after %d lines", got, err, lines)
	}
	if _, err := NewReader(strings.NewReader("data: 1\n\n"), 100).Next(func() {}); err != nil {
		t.Error(err)
	}
	if _, err := NewReader(strings.NewReader(""), 100).Next(func() {}); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	for _, long := range []string{"data: " + strings.Repeat("x", 100) + "\n\n", strings.Repeat("data: x\n", 20) + "\n"} {
		if _, err := NewReader(strings.NewReader(long), 100).Next(func() {}); err != bufio.ErrTooLong {
			t.Errorf("too long: %v", err)
		}
	}
}

// Whatever a stream holds, reading it ends, a frame is no longer than it may be, and no id or datum has a line break that
// could be sent back in a header.
func FuzzFrames(f *testing.F) {
	for _, s := range []string{"", ":\n\n", "id: 1\ndata: {}\n\n", "data: a\ndata: b\n\nretry: 5\r\n\r\nid\n\n", "retry: 99999999999\n\n", "data:" + strings.Repeat("x", 300)} {
		f.Add(s)
	}
	const most = 200
	f.Fuzz(func(t *testing.T, stream string) {
		frames, lines := NewReader(strings.NewReader(stream), most), 0
		for n := 0; ; n++ {
			got, err := frames.Next(func() { lines++ })
			if err != nil {
				var unset Frame
				if got != unset {
					t.Fatalf("%+v comes with %v", got, err)
				}
				return
			}
			if len(got.Data) > most || strings.ContainsAny(got.ID, "\r\n") || n > lines || got.Retry < 0 {
				t.Fatalf("read %+v", got)
			}
		}
	})
}
