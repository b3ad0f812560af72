package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/smithy-go/tracing"
	"github.com/exaring/otelpgx"
	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencegate/fencegate/gateway"
)

const (
	// flushTimeout bounds the sending of what is left when the program ends.
	flushTimeout = 5 * time.Second
	// complainInterval is the least time between two log lines about a collector that does not take traces.
	complainInterval = time.Minute
)

// traces sends spans to an OpenTelemetry collector. A nil *traces sends nothing.
type traces struct {
	provider *sdktrace.TracerProvider
	log      *slog.Logger
	shown    *strings.Replacer // see shownOf
}

// startTraces starts sending traces where the environment says, over OTLP/HTTP; without an endpoint it returns nil.
func startTraces(ctx context.Context, getenv func(string) string, log *slog.Logger) (*traces, error) {
	var endpoint *url.URL
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		if value := getenv(name); value != "" {
			var err error
			if endpoint, err = parseEndpoint(value); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if endpoint == nil || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	// OpenTelemetry reports its own errors through these two, and has no other way. Its lines about a setting that it
	// cannot read quote the setting, headers with secrets in them too, so they go nowhere.
	shown := shownOf(endpoint)
	otel.SetErrorHandler(&complaints{log: log, shown: shown})
	otel.SetLogger(logr.Discard())

	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	// The later wins: the environment may name the service.
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "fencegate"), attribute.String("service.version", buildOf().Version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		log.WarnContext(ctx, "traces: not everything could be read that describes this service", "error", err)
	}
	// The sampler is that of OTEL_TRACES_SAMPLER, else the one that does as its parent did.
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(discreet{exporter}))
	log.InfoContext(ctx, "traces", "endpoint", endpoint.Scheme+"://"+endpoint.Host)
	return &traces{provider: provider, log: log, shown: shown}, nil
}

// parseEndpoint refuses what the exporter would quietly replace by its default.
func parseEndpoint(value string) (*url.URL, error) {
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("an http or https URL is needed")
	case u.User != nil || u.RawQuery != "":
		return nil, errors.New("credentials do not belong into the URL: send them with OTEL_EXPORTER_OTLP_HEADERS")
	}
	return u, nil
}

// shownOf takes the endpoint's path out of what is logged: some collectors want a key in it, and errors quote it.
func shownOf(endpoint *url.URL) *strings.Replacer {
	u := endpoint.JoinPath() // as the exporter writes it
	if p := strings.TrimRight(u.Path, "/"); p != "" {
		return strings.NewReplacer(p, "/…", strings.TrimRight(u.EscapedPath(), "/"), "/…")
	}
	return strings.NewReplacer()
}

func (t *traces) close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("traces that were left have not been sent", "error", t.shown.Replace(err.Error()))
	}
}

// around makes a span of each request.
func (t *traces) around(h http.Handler) http.Handler {
	if t == nil {
		return h
	}
	return otelhttp.NewHandler(h, "",
		otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return routeOf(r) }))
}

// routeOf names a request without the names and keys in it. The S3 front names its own, once it knows what they are.
func routeOf(r *http.Request) string {
	if strings.HasPrefix(r.Pattern, "S3 ") {
		return r.Pattern
	}
	method := "HTTP"
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		method = r.Method
	}
	for _, route := range []string{"/v1/leases/{name}", "/v1/leases", "/v1/events", "/v1/rows/{table}/{key}", "/v1/objects/{bucket}/{key}", "/v1/marks/rows/{table}/{key}", "/v1/marks/objects/{bucket}/{key}", "/livez", "/readyz"} {
		family, _, _ := strings.Cut(route, "{")
		if strings.HasPrefix(r.URL.Path, family) {
			return method + " " + route
		}
	}
	return method
}

// traceIDOf is the id of the trace that a request belongs to.
func traceIDOf(ctx context.Context) string {
	if s := trace.SpanContextFromContext(ctx); s.HasTraceID() {
		return s.TraceID().String()
	}
	return ""
}

// noteOutcome puts what became of a request on its span.
func noteOutcome(ctx context.Context, o gateway.Observation) {
	trace.SpanFromContext(ctx).SetAttributes(
		attribute.String("fencegate.api", o.API), attribute.String("fencegate.op", o.Op), attribute.String("fencegate.outcome", string(o.Code)))
}

// database is what tells of queries, nil if nobody wants to know.
func (t *traces) database() pgx.QueryTracer {
	if t == nil {
		return nil
	}
	return otelpgx.NewTracer(otelpgx.WithTracerProvider(t.provider), otelpgx.WithDisableSQLStatementInAttributes())
}

// redis makes a client tell of its commands, without their arguments.
func (t *traces) redis(client redis.UniversalClient) error {
	if t == nil {
		return nil
	}
	return redisotel.InstrumentTracing(client, redisotel.WithTracerProvider(t.provider),
		redisotel.WithDBStatement(false), redisotel.WithCallerEnabled(false), redisotel.WithDialFilter(true))
}

// s3 is what tells of calls to S3, nil if nobody wants to know.
func (t *traces) s3() tracing.TracerProvider {
	if t == nil {
		return nil
	}
	return s3Traces{t.provider}
}

// complaints logs errors of OpenTelemetry, one a minute: a collector that is away must not fill the log.
type complaints struct {
	log   *slog.Logger
	shown *strings.Replacer // see shownOf
	next  atomic.Int64      // when the next line may be written, in Unix nanoseconds
	lost  atomic.Int64      // errors that were not logged since the last line
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	now, next := time.Now().UnixNano(), c.next.Load()
	if now < next || !c.next.CompareAndSwap(next, now+int64(complainInterval)) {
		c.lost.Add(1)
		return
	}
	c.log.Warn("traces are lost", "error", c.shown.Replace(err.Error()), "others", c.lost.Swap(0))
}
