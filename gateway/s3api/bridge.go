package s3api

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

// body is that of a request. It has a limit until a handler wants an object's.
type body struct {
	whole, limited io.Reader
	object         bool
}

func (b *body) Read(p []byte) (int, error) {
	if b.object {
		return b.whole.Read(p)
	}
	return b.limited.Read(p)
}

// newContext makes of a request one that versitygw's handlers take. It is never used again, so what they keep of it stays as it is.
func newContext(r *http.Request, b io.Reader) *fasthttp.RequestCtx {
	ctx := &fasthttp.RequestCtx{}
	var from net.Addr
	if host, port, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		n, _ := strconv.Atoi(port)
		from = &net.TCPAddr{IP: net.ParseIP(host), Port: n}
	}
	ctx.Init(&fasthttp.Request{}, from, silent{})
	req := &ctx.Request
	req.Header.SetMethod(r.Method)
	req.SetRequestURI(r.RequestURI)
	for name, lines := range r.Header {
		for _, line := range lines {
			req.Header.Add(name, line)
		}
	}
	req.Header.SetHost(r.Host)
	if r.Body != nil && r.Body != http.NoBody {
		req.SetBodyStream(b, int(r.ContentLength))
	}
	return ctx
}

// silent is for what fasthttp has to say of connections that it has not.
type silent struct{}

func (silent) Printf(string, ...any) {}

// respond sends what the handlers answered.
func (c *call) respond(ctx *fasthttp.RequestCtx) {
	answer := &ctx.Response
	status := answer.StatusCode()
	// Whoever left ended what was done for it: that is no failure, and there is nobody to tell.
	if err := c.r.Context().Err(); err != nil && errors.Is(c.err, err) {
		c.left = true
		c.cfg.Shared.CutOff(c.r.Context(), c.name, nil)
		panic(http.ErrAbortHandler)
	}
	if status >= http.StatusBadRequest {
		c.cfg.Shared.Refused(c.w, c.r, gateway.Refusal{Caller: c.caller, Verb: c.verb, Status: status, Err: c.refusal(status)})
	}
	h, length := c.w.Header(), int64(-1)
	for name, value := range answer.Header.All() {
		switch name := string(name); {
		case strings.EqualFold(name, "Content-Length"):
			length, _ = strconv.ParseInt(string(value), 10, 64)
		case strings.EqualFold(name, "Connection"), strings.EqualFold(name, "Date"), strings.EqualFold(name, "Server"), strings.EqualFold(name, "Transfer-Encoding"):
		case strings.HasPrefix(strings.ToLower(name), metaPrefix):
			// S3's clients make keys of these names as they stand, and S3 writes them in lower case.
			h[strings.ToLower(name)] = append(h[strings.ToLower(name)], string(value))
		default:
			h.Add(name, string(value))
		}
	}
	stream := answer.BodyStream()
	if stream == nil {
		text := answer.Body()
		if c.r.Method != http.MethodHead || len(text) > 0 {
			length = int64(len(text))
		}
		setLength(h, status, length)
		c.answered = true
		c.w.WriteHeader(status)
		if c.r.Method != http.MethodHead {
			_, _ = c.w.Write(text) // the client is gone, and the outcome stands
		}
		return
	}
	setLength(h, status, length)
	c.send(status, stream, length)
}

func setLength(h http.Header, status int, length int64) {
	if length >= 0 && status != http.StatusNoContent && status != http.StatusNotModified {
		h.Set("Content-Length", strconv.FormatInt(length, 10))
	}
}

// send sends an object's body. One that breaks off breaks the connection, so that nobody takes what was sent for the whole (I6).
func (c *call) send(status int, stream io.Reader, length int64) {
	defer c.cfg.Shared.Transfer()()
	if closer, ok := stream.(io.Closer); ok {
		defer closer.Close()
	}
	rc := http.NewResponseController(c.w)
	_ = rc.SetWriteDeadline(time.Now().Add(c.cfg.DownloadLimit))
	c.answered = true
	c.w.WriteHeader(status)
	from := &source{from: stream}
	if _, err := io.CopyN(c.w, from, length); err != nil {
		c.left = from.err == nil || c.r.Context().Err() != nil
		if c.err == nil && !c.left {
			c.err = fence.Wrap(fence.CodeStoreUnavailable, from.err, "the body broke off")
		}
		c.cfg.Shared.CutOff(c.r.Context(), c.name, from.err)
		panic(http.ErrAbortHandler)
	}
	// Flushed within the deadline, which the next answer on this connection must not inherit.
	_ = rc.Flush()
	_ = rc.SetWriteDeadline(time.Time{})
}

// source remembers the error of the store's side: io.CopyN tells not which side failed.
type source struct {
	from io.Reader
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil {
		s.err = err
	}
	return n, err
}
