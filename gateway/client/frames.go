package client

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"time"
)

// frame is a block of an event stream (HTML standard, section 9.2): what stands between two empty lines.
type frame struct {
	id, data string
	retry    time.Duration
}

// frames reads them.
type frames struct {
	lines *bufio.Scanner
	most  int64
}

// newFrames reads frames of at most so many bytes.
func newFrames(body io.Reader, most int64) *frames {
	f := &frames{lines: bufio.NewScanner(body), most: most}
	f.lines.Buffer(nil, int(min(most, 1<<30)))
	return f
}

// next returns the next frame, and calls alive for each line. A frame that is not ended is none.
func (f *frames) next(alive func()) (frame, error) {
	var out frame
	var data []string
	size := int64(0)
	for f.lines.Scan() {
		alive()
		line := f.lines.Text()
		if size += int64(len(line)); size > f.most {
			return frame{}, bufio.ErrTooLong
		}
		if line == "" {
			out.data = strings.Join(data, "\n")
			return out, nil
		}
		name, value, _ := strings.Cut(line, ":") // a comment has no name
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			if !strings.ContainsAny(value, "\r\x00") { // it is sent back in a header
				out.id = value
			}
		case "data":
			data = append(data, value)
		case "retry":
			if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
				out.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
	if err := f.lines.Err(); err != nil {
		return frame{}, err
	}
	return frame{}, io.ErrUnexpectedEOF
}
