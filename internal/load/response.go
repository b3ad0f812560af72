package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// response is what its head says.
type response struct {
	status  int
	length  int64 // of the body; -1 when it is not told
	chunked bool
	close   bool // the connection ends with it
}

// readResponse reads one response, its body into c.body.
func (c *Conn) readResponse(method string) (response, error) {
	c.body = c.body[:0]
	for {
		r, err := c.readHead()
		switch {
		case err != nil:
			return r, err
		case r.status == 101:
			return r, fmt.Errorf("%w: nobody asked for another protocol", ErrMalformed)
		case r.status < 200:
			continue // such as 100: the response follows
		case method == "HEAD" || r.status == 204 || r.status == 304:
			return r, nil
		case r.chunked:
			return r, c.readChunks()
		case r.length >= 0:
			return r, c.readBody(r.length)
		}
		r.close = true
		return r, c.readToEnd()
	}
}

// readHead reads the status line and the headers.
func (c *Conn) readHead() (response, error) {
	r := response{length: -1}
	line, err := c.readLine()
	if err != nil {
		return r, err
	}
	// HTTP/1.1 200 OK
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return r, fmt.Errorf("%w: its first line", ErrMalformed)
	}
	status, ok := number(line[9:12], 10)
	if !ok || status < 100 {
		return r, fmt.Errorf("%w: its status", ErrMalformed)
	}
	r.status, r.close = int(status), line[7] == '0'
	for range maxHeadLines {
		line, err := c.readLine()
		if err != nil {
			return r, err
		}
		if len(line) == 0 {
			return r, nil
		}
		if err := r.header(line); err != nil {
			return r, err
		}
	}
	return r, fmt.Errorf("%w: more than %d header lines", ErrTooLarge, maxHeadLines)
}

// header takes what one header line says of the framing.
func (r *response) header(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon < 1 {
		return fmt.Errorf("%w: a header line", ErrMalformed)
	}
	name, value := line[:colon], bytes.TrimSpace(line[colon+1:])
	switch {
	case bytes.EqualFold(name, []byte("Content-Length")):
		length, ok := number(value, 10)
		if !ok || r.length >= 0 && r.length != length {
			return fmt.Errorf("%w: Content-Length", ErrMalformed)
		}
		r.length = length
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		if !bytes.EqualFold(value, []byte("chunked")) {
			return fmt.Errorf("%w: Transfer-Encoding is not chunked", ErrMalformed)
		}
		r.chunked = true
	case bytes.EqualFold(name, []byte("Connection")):
		r.close = bytes.EqualFold(value, []byte("close")) || r.close && !bytes.EqualFold(value, []byte("keep-alive"))
	}
	return nil
}

// readLine returns a line without its end, valid until the next read.
func (c *Conn) readLine() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrTooLarge, readBuffer)
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// readBody appends so many bytes to c.body.
func (c *Conn) readBody(length int64) error {
	have := len(c.body)
	if length > int64(maxBody-have) {
		return fmt.Errorf("%w: its body has more than %d bytes", ErrTooLarge, maxBody)
	}
	c.body = slices.Grow(c.body, int(length))[:have+int(length)]
	_, err := io.ReadFull(c.in, c.body[have:])
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// readChunks reads a chunked body and passes over its trailers.
func (c *Conn) readChunks() error {
	for {
		line, err := c.readLine()
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(line, []byte(";"))
		length, ok := number(bytes.TrimSpace(size), 16)
		if !ok {
			return fmt.Errorf("%w: the size of a chunk", ErrMalformed)
		}
		if length == 0 {
			return c.skipTrailers()
		}
		if err := c.readBody(length); err != nil {
			return err
		}
		end, err := c.readLine()
		if err != nil {
			return err
		}
		if len(end) > 0 {
			return fmt.Errorf("%w: a chunk does not end where it should", ErrMalformed)
		}
	}
}

func (c *Conn) skipTrailers() error {
	for range maxHeadLines {
		line, err := c.readLine()
		if err != nil || len(line) == 0 {
			return err
		}
	}
	return fmt.Errorf("%w: more than %d trailers", ErrTooLarge, maxHeadLines)
}

// readToEnd reads a body that ends with the connection.
func (c *Conn) readToEnd() error {
	for {
		c.body = slices.Grow(c.body, 512)
		n, err := c.in.Read(c.body[len(c.body):cap(c.body)])
		c.body = c.body[:len(c.body)+n]
		switch {
		case len(c.body) > maxBody:
			return fmt.Errorf("%w: its body has more than %d bytes", ErrTooLarge, maxBody)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// number reads digits and nothing else; strconv would need a string, and so an allocation. At most 15 of them fit.
func number(text []byte, base int64) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 15 {
		return 0, false
	}
	for _, b := range text {
		digit := int64(99)
		switch {
		case b >= '0' && b <= '9':
			digit = int64(b - '0')
		case b >= 'a' && b <= 'f':
			digit = int64(b-'a') + 10
		case b >= 'A' && b <= 'F':
			digit = int64(b-'A') + 10
		}
		if digit >= base {
			return 0, false
		}
		n = n*base + digit
	}
	return n, true
}
