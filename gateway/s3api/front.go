package s3api

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

// Front is the S3 API. It has no goroutines but those of its requests.
type Front struct {
	cfg   Config
	serve fasthttp.RequestHandler
	// nobody is an access key that nobody has: versitygw's own administrator.
	nobody string
	http   http.Handler
}

// New makes a front.
func New(cfg Config) (*Front, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	utils.SetBucketNameValidationStrict(false)
	f := &Front{cfg: cfg, nobody: rand.Text()}
	f.serve = f.routes().Handler()
	f.http = cfg.Shared.Around(http.HandlerFunc(f.handle))
	return f, nil
}

type arrivedKey struct{}

// ServeHTTP serves the buckets below /. It sets the request's Pattern to "S3 " and the operation's name.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.http.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), arrivedKey{}, r)))
}

// API names what all of the front's requests are counted as.
func (*Front) API() string { return api }

const api = "objects"

// handle serves one request, and tells what became of it.
func (f *Front) handle(w http.ResponseWriter, r *http.Request) {
	arrived, _ := r.Context().Value(arrivedKey{}).(*http.Request)
	c := &call{Front: f, w: w, r: r, arrived: arrived, began: time.Now(), body: &body{whole: r.Body, limited: http.MaxBytesReader(w, r.Body, f.cfg.MaxBody)}}
	defer c.observe()
	defer func() {
		if v := recover(); v != nil {
			c.panicked(v)
		}
	}()
	if !slices.Contains(fiber.DefaultMethods, r.Method) { // which fiber answers in plain text
		c.refuse(s3err.GetMethodNotAllowedErr(r.Method, s3err.ResourceTypeService, nil))
		return
	}
	ctx := newContext(r, c.body)
	ctx.SetUserValue(callKey{}, c)
	ctx.SetUserValue(string(utils.ContextKeyRequestID), f.cfg.Shared.TraceID(r.Context()))
	f.serve(ctx)
	c.respond(ctx)
}

// panicked answers a panic, or cuts the answer off that has begun (I6).
func (c *call) panicked(v any) {
	if v == http.ErrAbortHandler {
		panic(v)
	}
	err := fmt.Errorf("panic: %v\n%s", v, debug.Stack())
	if c.answered {
		c.cfg.Shared.CutOff(c.r.Context(), c.name, err)
		panic(http.ErrAbortHandler)
	}
	if c.verb == gateway.VerbWrite {
		err = gateway.Settled(err)
	}
	c.refuse(err)
}

// refuse answers what no handler of versitygw's has an answer for.
func (c *call) refuse(err error) {
	e := c.fail(err).(s3err.S3Error)
	c.cfg.Shared.Refused(c.w, c.r, gateway.Refusal{Caller: c.caller, Verb: c.verb, Status: e.StatusCode(), Err: c.err})
	text := e.XMLBody(c.cfg.Shared.TraceID(c.r.Context()), "")
	c.w.Header().Set("Content-Type", fiber.MIMEApplicationXML)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	c.answered = true
	c.w.WriteHeader(e.StatusCode())
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(text) // the client is gone, and the outcome stands
	}
}

func (c *call) observe() {
	code := fence.CodeOf(c.err)
	if c.err == nil && c.replayed {
		code = fence.CodeReplayed
	}
	if c.left {
		code = ""
	}
	c.cfg.Shared.Observe(c.r.Context(), gateway.Observation{API: api, Op: c.op, Code: code, Duration: time.Since(c.began)})
}
