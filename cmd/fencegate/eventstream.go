package main

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// maxEventLine is longer than any line of a gateway.
const maxEventLine = 1 << 20

var errLongLine = errors.New("the gateway's line is too long")

// sentEvent is one block of a stream of server-sent events. An empty kind means that it was only to name the place, or that
// the stream is alive.
type sentEvent struct{ id, kind, data string }

// eventReader reads server-sent events, as the HTML standard has them as far as a gateway uses it. What a connection
// that breaks leaves unfinished is no event.
type eventReader struct{ lines *bufio.Reader }

func newEventReader(r io.Reader) *eventReader { return &eventReader{bufio.NewReaderSize(r, 64<<10)} }

// next waits for the next block.
func (r *eventReader) next() (sentEvent, error) {
	var e sentEvent
	for {
		line, err := r.line()
		if err != nil {
			return sentEvent{}, err
		}
		if line == "" {
			return e, nil
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data += value
		}
	}
}

func (r *eventReader) line() (string, error) {
	var line strings.Builder
	for {
		part, err := r.lines.ReadSlice('\n')
		line.Write(part)
		switch {
		case line.Len() > maxEventLine:
			return "", errLongLine
		case err == nil:
			return strings.TrimRight(line.String(), "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
	}
}
