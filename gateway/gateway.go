// Package gateway serves leases, rows, objects and marks over HTTP. It decodes a request, calls one of the small
// interfaces of backend.go and answers; it knows no backend, and errors become statuses in one table (errors.go).
//
// Two rules hold for every write. It runs on a context that the client's disconnect does not cancel, so that an
// accepted write is never reported as refused (I7). And an error that carries no code is answered as
// outcome-unknown, because it does not say that nothing changed.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fence"
)

const (
	defaultMaxBody      = 1 << 20
	defaultMaxObject    = 5 << 30
	defaultMaxDepth     = 64
	defaultMaxMeta      = 8 << 10
	defaultMaxPath      = 16 << 10
	defaultWriteTimeout = 15 * time.Second
	defaultBodyLimit    = time.Hour

	defaultMaxStreams     = 256
	defaultMaxStreamsEach = 16

	maxAcquireRate = 1e6
)

// Anonymous is the principal of everybody while no authentication is configured.
const Anonymous = "anonymous"

// Config says what a gateway serves and within which limits.
type Config struct {
	// Leases, Rows, Objects and Readiness are required.
	Leases    Leases
	Rows      Rows
	Objects   Objects
	Readiness Readiness

	// Commits is what POST /v1/commit asks, with what POST /v1/uploads stored. Defaults to none: then there are neither.
	Commits Commits
	// Events is what streams of events show, and where refused writes are recorded. Defaults to none: then there are no streams.
	Events Events
	// Catalogue is what /openapi.json describes tables from. Defaults to none: it then describes rows in general only.
	Catalogue Catalogue
	// Limiter counts requests of principals. Defaults to none, and no limit.
	Limiter Limiter
	// DenyUncounted refuses reads and calls about leases that the Limiter cannot count; writes and releases go through all the
	// same. Defaults to false: everything goes through.
	DenyUncounted bool

	// Authenticate names the caller and what it may do. An error without a fence.Code is answered as unauthenticated.
	// Defaults to everybody being Anonymous, who may do everything.
	Authenticate func(*http.Request) (Caller, error)
	// LoopbackOnly refuses a Host that is not loopback and an Origin that differs from it, which is what keeps web
	// pages away from a gateway without authentication. Defaults to false.
	LoopbackOnly bool
	// Log takes one line per refusal. Defaults to slog.Default().
	Log *slog.Logger
	// Observe is told what became of each request of the API, on the request's own goroutine. Defaults to nobody.
	Observe func(context.Context, Observation)
	// TraceID names the trace that a request's context belongs to, empty if none. Defaults to the trace id of the
	// request's traceparent. A request without either gets a random one.
	TraceID func(context.Context) string

	// MaxPath is the longest path in bytes, percent-encoded as it is sent; it bounds all names below their own
	// limits. Defaults to 16 KiB.
	MaxPath int
	// MaxBody is the largest JSON body in bytes. Defaults to 1 MiB.
	MaxBody int64
	// MaxDepth is how deep JSON may nest. Defaults to 64.
	MaxDepth int
	// MaxObject is the largest object in bytes. Defaults to 5 GiB.
	MaxObject int64
	// MaxMeta bounds the names and values of an object's X-Meta-* headers together, in bytes. Defaults to 8 KiB.
	MaxMeta int
	// AcquireRate is how many blocks of tokens (acquires, and calls for more tokens) one principal may draw a second
	// from this gateway; further calls are rate-limited. Defaults to 0, any number.
	AcquireRate float64
	// AcquireBurst is how many it may draw at once. Defaults to those of ten seconds.
	AcquireBurst int
	// MaxStreams is how many streams of events there are at once. Defaults to 256.
	MaxStreams int
	// MaxStreamsEach is how many of them one principal has. Defaults to 16.
	MaxStreamsEach int

	// WriteTimeout bounds the reading of every body but an object's, and a write that has been read, which may take a sixtieth more. Defaults to 15 s.
	WriteTimeout time.Duration
	// UploadLimit and DownloadLimit bound the transfer of one object's body. The grace period after which a blob is
	// collected must be longer than both. Default to 1 h.
	UploadLimit, DownloadLimit time.Duration
}

func (c Config) withDefaults() Config {
	if c.Authenticate == nil {
		c.Authenticate = func(*http.Request) (Caller, error) { return Everybody{}, nil }
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.MaxPath = cmp.Or(c.MaxPath, defaultMaxPath)
	c.MaxBody = cmp.Or(c.MaxBody, defaultMaxBody)
	c.MaxDepth = cmp.Or(c.MaxDepth, defaultMaxDepth)
	c.MaxObject = cmp.Or(c.MaxObject, defaultMaxObject)
	c.MaxMeta = cmp.Or(c.MaxMeta, defaultMaxMeta)
	c.MaxStreams = cmp.Or(c.MaxStreams, defaultMaxStreams)
	c.MaxStreamsEach = cmp.Or(c.MaxStreamsEach, defaultMaxStreamsEach)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, defaultWriteTimeout)
	c.UploadLimit = cmp.Or(c.UploadLimit, defaultBodyLimit)
	c.DownloadLimit = cmp.Or(c.DownloadLimit, defaultBodyLimit)
	return c
}

func (c Config) validate() error {
	switch {
	case c.Leases == nil, c.Rows == nil, c.Objects == nil, c.Readiness == nil:
		return errors.New("gateway: Leases, Rows, Objects and Readiness are required")
	case c.MaxPath < 0, c.MaxBody < 0, c.MaxDepth < 0, c.MaxObject < 0, c.MaxMeta < 0, c.AcquireBurst < 0, c.MaxStreams < 0, c.MaxStreamsEach < 0, !(c.AcquireRate >= 0 && c.AcquireRate <= maxAcquireRate):
		return errors.New("gateway: a limit is negative or out of range")
	case c.WriteTimeout < 0, c.UploadLimit < 0, c.DownloadLimit < 0:
		return errors.New("gateway: a time limit is negative")
	}
	return nil
}

// Gateway is the HTTP API. Its goroutines are those of the requests, one that looks for events while there are streams of
// them, and that of Run.
type Gateway struct {
	cfg        Config
	mux        http.Handler
	rowMethods []method
	// writes bounds writes of rows.
	writes deadlines
	// routeContexts are those of requests that are over.
	routeContexts sync.Pool
	// pace is nil without a limit.
	pace *pace
	// leaving is set by Leave, draining is done once Drain was called.
	leaving     atomic.Bool
	draining    context.Context
	stopWaiting context.CancelFunc
	// authenticates is false where everybody is Anonymous.
	authenticates bool
	// documents holds a place for each document of /openapi.json that is being made.
	documents chan struct{}
	// transfers counts the bodies of objects that are on their way.
	transfers atomic.Int64

	limits   limits
	refusals *refusals
	feed     *feed // nil without Events
	places   places
	times    streamTimes
	// accessChanged is rung when callers may have other rights.
	accessChanged bell
}

// New makes a gateway.
func New(cfg Config) (*Gateway, error) {
	authenticates := cfg.Authenticate != nil
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	pace, err := newPace(cfg.AcquireRate, cfg.AcquireBurst)
	if err != nil {
		return nil, err
	}
	g := &Gateway{
		cfg: cfg, pace: pace, limits: newLimits(), refusals: newRefusals(cfg.Events, cfg.Log), times: defaultStreamTimes(),
		places:        places{most: cfg.MaxStreams, mostEach: cfg.MaxStreamsEach, each: map[string]int{}},
		authenticates: authenticates, documents: make(chan struct{}, maxDocuments),
	}
	if cfg.Events != nil {
		g.feed = newFeed(cfg.Events, cfg.Log)
	}
	g.draining, g.stopWaiting = context.WithCancel(context.Background())
	g.writes.limit = cfg.WriteTimeout
	g.rowMethods = g.newRowMethods()
	g.mux = g.routes()
	return g, nil
}

// ServeHTTP serves the API below / (/v1, /openapi.json, /livez, /readyz).
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.mux.ServeHTTP(w, r) }

// Run does what a gateway does beside answering requests, until the context ends: it records refused writes among the events.
// What was noted by then is recorded before it returns.
func (g *Gateway) Run(ctx context.Context) error {
	g.refusals.run(ctx)
	return nil
}

// detached is the context of a write that may take a limit of its own: the client's disconnect does not cancel it.
func detached(r *http.Request, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), limit)
}

// isCoded reports whether an error that there is has a code.
func isCoded(err error) bool {
	_, coded := errors.AsType[*fence.Error](err)
	return coded
}

// settled returns the error of a write so that it keeps I7: one without a code does not say that nothing changed.
func settled(err error) error {
	if err == nil || isCoded(err) {
		return err
	}
	return fence.Wrap(fence.CodeOutcomeUnknown, err,
		"it is not known whether this was carried out: repeat the same request with the same token to learn it")
}
