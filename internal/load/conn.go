package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// What a response may be.
const (
	readBuffer   = 16 << 10 // bounds a line of its head, too
	maxHeadLines = 256
	maxBody      = 16 << 20
)

// ErrTooLarge is a response whose body, line or head is larger than Conn reads.
var ErrTooLarge = errors.New("the response is too large")

// ErrMalformed is a response that is none of HTTP/1.1.
var ErrMalformed = errors.New("the response is malformed")

// Conn is a client of HTTP/1.1 over one TCP connection that is kept between requests. It allocates nothing in steady state and
// follows no redirects. It is not safe for concurrent use.
type Conn struct {
	addr string
	conn net.Conn // nil while there is none
	in   *bufio.Reader
	out  []byte // the request
	body []byte // of the last response
}

// Dial connects to a server, HOST:PORT.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	c := &Conn{addr: addr, in: bufio.NewReaderSize(nil, readBuffer)}
	if err := c.dial(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Conn) dial(ctx context.Context) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	c.conn = conn
	c.in.Reset(conn)
	return nil
}

// Close closes the connection.
func (c *Conn) Close() error {
	if c.conn == nil {
		return nil
	}
	conn := c.conn
	c.conn = nil
	return conn.Close()
}

// Do sends a request and returns the response, without its head; the body is valid until the next call. header holds lines as
// they are sent ("Name: value\r\n" each), other than Host and Content-Length. timeout bounds all of it. After an error, or a
// response with "Connection: close", the next call connects anew; nothing is sent twice.
func (c *Conn) Do(method, path string, header, body []byte, timeout time.Duration) (status int, respBody []byte, err error) {
	if c.out, err = appendRequest(c.out[:0], method, path, c.addr, header, body); err != nil {
		return 0, nil, err
	}
	deadline := time.Now().Add(timeout)
	if c.conn == nil {
		if err := c.redial(deadline); err != nil {
			return 0, nil, err
		}
	}
	if err = c.conn.SetDeadline(deadline); err == nil {
		_, err = c.conn.Write(c.out)
	}
	if err != nil {
		return 0, nil, errors.Join(fmt.Errorf("send %s: %w", method, err), c.Close())
	}
	r, err := c.readResponse(method)
	if err != nil {
		return 0, nil, errors.Join(fmt.Errorf("read the response to %s: %w", method, err), c.Close())
	}
	if r.close {
		err = c.Close()
	}
	return r.status, c.body, err
}

func (c *Conn) redial(deadline time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	return c.dial(ctx)
}

// appendRequest appends a whole request. Method and path must not be able to end its first line.
func appendRequest(out []byte, method, path, host string, header, body []byte) ([]byte, error) {
	if !isWord(method) || !isWord(path) {
		return out, errors.New("a method or path is empty, or holds spaces or control characters")
	}
	out = append(out, method...)
	out = append(out, ' ')
	out = append(out, path...)
	out = append(out, " HTTP/1.1\r\nHost: "...)
	out = append(out, host...)
	out = append(out, "\r\n"...)
	out = append(out, header...)
	if len(body) > 0 || method != "GET" && method != "HEAD" && method != "DELETE" {
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, int64(len(body)), 10)
		out = append(out, "\r\n"...)
	}
	out = append(out, "\r\n"...)
	return append(out, body...), nil
}

func isWord(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return s != ""
}
