package main

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// discreet exports spans without what customers chose. Paths hold keys, messages of errors hold values, and each of the
// libraries that make spans has its own idea of what to put on them; so only what is known to be harmless goes out.
type discreet struct{ sdktrace.SpanExporter }

// ExportSpans implements sdktrace.SpanExporter.
func (d discreet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	out := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, s := range spans {
		out[i] = discreetSpan{s}
	}
	return d.SpanExporter.ExportSpans(ctx, out)
}

type discreetSpan struct{ sdktrace.ReadOnlySpan }

// Attributes are those that are harmless.
func (s discreetSpan) Attributes() []attribute.KeyValue { return harmless(s.ReadOnlySpan.Attributes()) }

// Status has no text: it repeats the error's.
func (s discreetSpan) Status() sdktrace.Status {
	return sdktrace.Status{Code: s.ReadOnlySpan.Status().Code}
}

// Events are what happened, an error's type without its text.
func (s discreetSpan) Events() []sdktrace.Event {
	var out []sdktrace.Event
	for _, e := range s.ReadOnlySpan.Events() {
		e.Attributes = harmless(e.Attributes)
		out = append(out, e)
	}
	return out
}

func harmless(attrs []attribute.KeyValue) []attribute.KeyValue {
	var out []attribute.KeyValue
	for _, a := range attrs {
		if isHarmless(string(a.Key)) {
			out = append(out, a)
		}
	}
	return out
}

func isHarmless(key string) bool {
	switch key {
	case "fencegate.api", "fencegate.op", "fencegate.outcome",
		"http.request.method", "http.response.status_code", "http.request.body.size", "http.response.body.size",
		"url.scheme", "network.protocol.version",
		"server.address", "server.port",
		"db.system", "db.system.name", "db.namespace", "db.operation.batch.size", "db.redis.num_cmd",
		"pgx.rows_affected", "pgx.sql_state",
		"rpc.system", "rpc.service", "rpc.method", "aws.request_id", "api.error_code", "error",
		"http.method", "http.status_code", "http.request_content_length", "http.response_content_length",
		"exception.type", "error.type":
		return true
	}
	return false
}
