package main

import (
	"context"

	"github.com/aws/smithy-go/tracing"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// s3Traces makes OpenTelemetry's spans of those of the AWS SDK.
type s3Traces struct{ provider trace.TracerProvider }

// Tracer implements tracing.TracerProvider.
func (t s3Traces) Tracer(scope string, _ ...tracing.TracerOption) tracing.Tracer {
	return s3Tracer{t.provider.Tracer(scope)}
}

type s3Tracer struct{ tracer trace.Tracer }

// sdkRequest is the SDK's name of one attempt's exchange with the server.
const sdkRequest = "DoHTTPRequest"

// StartSpan implements tracing.Tracer. Of the SDK's dozen spans for a call, two say something: the call, and each
// request that it took. What runs outside of a trace, such as the collector of blobs, starts none.
func (t s3Tracer) StartSpan(ctx context.Context, name string, opts ...tracing.SpanOption) (context.Context, tracing.Span) {
	var o tracing.SpanOptions
	for _, set := range opts {
		set(&o)
	}
	if o.Kind != tracing.SpanKindClient && name != sdkRequest || !trace.SpanFromContext(ctx).IsRecording() {
		return tracing.NopTracerProvider{}.Tracer("").StartSpan(ctx, name)
	}
	kind := trace.SpanKindInternal
	if o.Kind == tracing.SpanKindClient {
		kind = trace.SpanKindClient
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind))
	s := s3Span{span, name}
	for k, v := range o.Properties.Values() {
		s.SetProperty(k, v)
	}
	return tracing.WithSpan(ctx, s), s
}

type s3Span struct {
	span trace.Span
	name string
}

// Name implements tracing.Span.
func (s s3Span) Name() string { return s.name }

// Context implements tracing.Span.
func (s s3Span) Context() tracing.SpanContext {
	c := s.span.SpanContext()
	return tracing.SpanContext{TraceID: c.TraceID().String(), SpanID: c.SpanID().String(), IsRemote: c.IsRemote()}
}

// AddEvent implements tracing.Span.
func (s s3Span) AddEvent(name string, _ ...tracing.EventOption) { s.span.AddEvent(name) }

// SetStatus implements tracing.Span.
func (s s3Span) SetStatus(status tracing.SpanStatus) {
	switch status {
	case tracing.SpanStatusOK:
		s.span.SetStatus(codes.Ok, "")
	case tracing.SpanStatusError:
		s.span.SetStatus(codes.Error, "")
	}
}

// SetProperty implements tracing.Span.
func (s s3Span) SetProperty(k, v any) {
	name, ok := k.(string)
	if !ok {
		return
	}
	switch v := v.(type) {
	case string:
		s.span.SetAttributes(attribute.String(name, v))
	case bool:
		s.span.SetAttributes(attribute.Bool(name, v))
	case int:
		s.span.SetAttributes(attribute.Int(name, v))
	case int64:
		s.span.SetAttributes(attribute.Int64(name, v))
	}
}

// End implements tracing.Span.
func (s s3Span) End() { s.span.End() }
