package s3api

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/versity/versitygw/s3api/utils"

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

// ServeHTTP serves the buckets below /.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.http.ServeHTTP(w, r) }

// handle serves one request, and tells what became of it.
func (f *Front) handle(w http.ResponseWriter, r *http.Request) {
	c := &call{Front: f, w: w, r: r, began: time.Now(), body: &body{whole: r.Body, limited: http.MaxBytesReader(w, r.Body, f.cfg.MaxBody)}}
	defer c.observe()
	defer func() {
		if v := recover(); v != nil {
			c.panicked(v)
		}
	}()
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
	c.fail(err)
	c.cfg.Shared.Refused(c.w, c.r, gateway.Refusal{Caller: c.caller, Verb: c.verb, Status: statusOf(c.err), Err: c.err})
	c.w.WriteHeader(statusOf(c.err))
}

func (c *call) observe() {
	code := fence.CodeOf(c.err)
	if c.err == nil && c.replayed {
		code = fence.CodeReplayed
	}
	if c.left {
		code = ""
	}
	c.cfg.Shared.Observe(c.r.Context(), gateway.Observation{API: "objects", Op: c.op, Code: code, Duration: time.Since(c.began)})
}
