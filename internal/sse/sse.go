// Package sse reads streams of server-sent events.
package sse

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"time"
)

// Frame is a block of a stream (HTML standard, section 9.2): what stands between two empty lines. Without Data it only names
// the place (ID), or says that the stream is alive.
type Frame struct {
	// ID has no line break: it can be sent back in a header.
	ID, Data string
	// Retry is how long the server wants to be left alone after the stream has broken off; 0 if it does not say.
	Retry time.Duration
}

// Reader reads a stream.
type Reader struct {
	lines *bufio.Scanner
	most  int64
}

// NewReader reads frames of at most so many bytes.
func NewReader(stream io.Reader, most int64) *Reader {
	r := &Reader{lines: bufio.NewScanner(stream), most: most}
	r.lines.Buffer(nil, int(min(most, 1<<30)))
	return r
}

// Next waits for the next frame, and calls alive for each line. A frame that the stream's end cuts off is none: the error is
// io.ErrUnexpectedEOF, and io.EOF where the stream ends between two. It is bufio.ErrTooLong for a frame that is.
func (r *Reader) Next(alive func()) (Frame, error) {
	var out Frame
	var data []string
	size, began := int64(0), false
	for r.lines.Scan() {
		alive()
		began = true
		line := r.lines.Text()
		if size += int64(len(line)); size > r.most {
			return Frame{}, bufio.ErrTooLong
		}
		if line == "" {
			out.Data = strings.Join(data, "\n")
			return out, nil
		}
		name, value, _ := strings.Cut(line, ":") // a comment has no name
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			if !strings.ContainsAny(value, "\r\x00") { // it is sent back in a header
				out.ID = value
			}
		case "data":
			data = append(data, value)
		case "retry":
			if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
				out.Retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
	if err := r.lines.Err(); err != nil {
		return Frame{}, err
	}
	if !began {
		return Frame{}, io.EOF
	}
	return Frame{}, io.ErrUnexpectedEOF
}
