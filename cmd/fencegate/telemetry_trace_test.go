package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	v1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// otlp is an OpenTelemetry collector in this process.
type otlp struct {
	*httptest.Server
	mu       sync.Mutex
	raw      bytes.Buffer // guarded by mu
	spans    []*v1.Span   // guarded by mu
	services []string     // guarded by mu
}

func startOTLP(t *testing.T) *otlp {
	o := &otlp{}
	o.Server = httptest.NewServer(o)
	t.Cleanup(o.Close)
	return o
}

func (o *otlp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	data, err := io.ReadAll(body)
	var export collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(data, &export) != nil {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.raw.Write(data)
	for _, resource := range export.ResourceSpans {
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				o.services = append(o.services, a.Value.GetStringValue())
			}
		}
		for _, scope := range resource.ScopeSpans {
			o.spans = append(o.spans, scope.Spans...)
		}
	}
}

// trace returns the spans of a trace.
func (o *otlp) trace(id string) (spans []*v1.Span) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.spans {
		if hex.EncodeToString(s.TraceId) == id {
			spans = append(spans, s)
		}
	}
	return spans
}

// path is the names of the spans from the one below parent down to the first whose name begins with name.
func path(spans []*v1.Span, parent, name string) []string {
	for _, s := range spans {
		if hex.EncodeToString(s.ParentSpanId) != parent {
			continue
		}
		if strings.HasPrefix(s.Name, name) {
			return []string{s.Name}
		}
		if below := path(spans, hex.EncodeToString(s.SpanId), name); below != nil {
			return append([]string{s.Name}, below...)
		}
	}
	return nil
}

func attributeOf(s *v1.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func traceparent(id byte) (header, trace, span string) {
	trace, span = strings.Repeat(hex.EncodeToString([]byte{id}), 16), strings.Repeat("ab", 8)
	return "Traceparent: 00-" + trace + "-" + span + "-01", trace, span
}

func TestTraces(t *testing.T) {
	receiver := startOTLP(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	t.Setenv("OTEL_SERVICE_NAME", "wallets-gateway")
	s := startServing(t)

	forAcquire, acquired, parent := traceparent(1)
	token, id := s.acquire("wallet:42", forAcquire, "Authorization: Bearer hunter2")
	forPatch, patched, _ := traceparent(2)
	s.want(200, "PATCH", "/v1/rows/wallets/42", `{"balance":777666}`, forPatch, "X-Fence-Token: "+token.String(), "X-Lease-Id: "+id)
	forPut, put, _ := traceparent(3)
	key := "a-private-key.csv"
	objectToken, objectID := s.acquire("report:" + key)
	s.want(201, "PUT", "/v1/objects/"+s.bucket+"/"+key, "the body is private too", forPut, "X-Fence-Token: "+objectToken.String())
	forRefusal, refused, _ := traceparent(4)
	s.want(403, "PATCH", "/v1/rows/wallets/42", `{"balance":1}`, forRefusal, "X-Fence-Token: 999999999999999")
	forBadKey, _, _ := traceparent(5)
	s.want(400, "PATCH", "/v1/rows/wallets/not-a-number", `{"balance":1}`, forBadKey, "X-Fence-Token: "+token.String())
	forConstraint, _, _ := traceparent(6)
	s.want(400, "PUT", "/v1/rows/wallets/42", `{"balance":"a-private-value"}`, forConstraint, "X-Fence-Token: 1007")

	unasked, _ := request(t, "GET", s.url+"/v1/rows/wallets/42", "")

	if code := s.stop(); code != 0 {
		t.Fatalf("exit %d: %s", code, s.log)
	}
	for name, c := range map[string]struct {
		trace string
		want  []string
	}{
		"AcquireToRedis":      {acquired, []string{"POST /v1/leases/{name}", "evalsha"}},
		"AcquireToPostgreSQL": {acquired, []string{"POST /v1/leases/{name}", "SELECT"}},
		"PatchToPostgreSQL":   {patched, []string{"PATCH /v1/rows/{table}/{key}", "batch start"}},
		"PutToS3":             {put, []string{"PUT /v1/objects/{bucket}/{key}", "S3.PutObject"}},
	} {
		t.Run(name, func(t *testing.T) {
			spans := receiver.trace(c.trace)
			if got := path(spans, parent, c.want[len(c.want)-1]); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v in %v", got, c.want, spans)
			}
		})
	}
	t.Run("AnswerNamesTheTrace", func(t *testing.T) {
		if id := unasked.Header.Get("X-Trace-Id"); len(receiver.trace(id)) == 0 {
			t.Errorf("there is no trace %s", id)
		}
	})
	t.Run("Refusal", func(t *testing.T) {
		spans := receiver.trace(refused)
		lines := s.log.lines("refused")
		if i := slices.IndexFunc(lines, func(l map[string]any) bool { return l["code"] == "unissued-token" }); i < 0 || lines[i]["trace_id"] != refused {
			t.Errorf("no line with trace_id %s in %v", refused, lines)
		}
		if i := slices.IndexFunc(spans, func(s *v1.Span) bool { return attributeOf(s, "fencegate.outcome") == "unissued-token" }); i < 0 {
			t.Errorf("no span tells the outcome: %v", spans)
		}
	})
	t.Run("Service", func(t *testing.T) {
		if !slices.Contains(receiver.services, "wallets-gateway") {
			t.Errorf("%v", receiver.services)
		}
	})
	t.Run("NothingPrivate", func(t *testing.T) {
		for _, private := range []string{
			id, objectID, token.String(), "wallet:42", "/42", key, s.bucket, "777666", "hunter2", "private", "not-a-number",
			"999999999999999", "wallets/", "Go-http-client", "UPDATE", "VALUES",
		} {
			if bytes.Contains(receiver.raw.Bytes(), []byte(private)) {
				t.Errorf("%q is in the traces", private)
			}
		}
	})
}

func TestTracesAreOffWithoutAnEndpoint(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"NothingSet": {},
		"Disabled":   {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		"None":       {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
	} {
		t.Run(name, func(t *testing.T) {
			traces, err := startTraces(t.Context(), func(name string) string { return env[name] }, slog.New(slog.DiscardHandler))
			if err != nil || traces != nil {
				t.Fatalf("%v %v", traces, err)
			}
			h := http.NewServeMux()
			if traces.around(h) != http.Handler(h) || traces.database() != nil || traces.s3() != nil || traces.redis(nil) != nil {
				t.Error("something is put around what runs")
			}
			traces.close()
		})
	}
}

func TestBadEndpointIsRefused(t *testing.T) {
	for name, value := range map[string]string{
		"NoScheme": "collector:4318", "NoHost": "http://", "Scheme": "grpc://collector:4317", "Password": "http://me:hunter2@collector:4318", "Query": "http://collector:4318?key=hunter2",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := startTraces(t.Context(), func(string) string { return value }, slog.New(slog.DiscardHandler))
			if err == nil || !strings.HasPrefix(err.Error(), "OTEL_EXPORTER_OTLP_ENDPOINT: ") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v", err)
			}
		})
	}
}

// The gateway bounds bodies by deadlines on the connection; what is around it must let them through.
func TestTracesKeepDeadlines(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", startOTLP(t).URL)
	tell, err := startTelemetry(t.Context(), adminFlags{AdminListen: "127.0.0.1:0"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer tell.Close()
	server := httptest.NewServer(tell.around(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		if err := errors.Join(c.SetReadDeadline(time.Now().Add(time.Minute)), c.SetWriteDeadline(time.Now().Add(time.Minute)), c.Flush()); err != nil {
			t.Error(err)
		}
	})))
	defer server.Close()
	request(t, "PUT", server.URL+"/v1/objects/b/k", "body")
}

// A collector that is away costs a line a minute, and the end of the program no more than the bound.
func TestCollectorIsAway(t *testing.T) {
	const endpoint = "http://127.0.0.1:1/hunter2"
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "50")
	log := &shared{}
	traces, err := startTraces(t.Context(), func(string) string { return endpoint }, slog.New(slog.NewJSONHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	tracer := traces.provider.Tracer("test")
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		_, span := tracer.Start(context.Background(), "lost")
		span.End()
	}
	began := time.Now()
	traces.close()
	if took := time.Since(began); took > flushTimeout+time.Second {
		t.Errorf("the end took %v", took)
	}
	if n := len(log.lines("traces are lost")); n != 1 {
		t.Errorf("%d lines: %s", n, log)
	}
	// Some collectors take a key in the path.
	if lines := log.lines("traces"); len(lines) != 1 || lines[0]["endpoint"] != "http://127.0.0.1:1" || strings.Contains(log.String(), "hunter2") {
		t.Errorf("logged: %s", log)
	}
}

// The S3 front names its requests once it knows what they are.
func TestSpansOfTheS3Front(t *testing.T) {
	receiver := startOTLP(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	tell, err := startTelemetry(t.Context(), adminFlags{AdminListen: "127.0.0.1:0"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(tell.around(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { r.Pattern = "S3 PutObject" })))
	header, id, _ := traceparent(7)
	request(t, "PUT", server.URL+"/v1/a-private-key", "body", header)
	server.Close()
	tell.Close()
	if spans := receiver.trace(id); len(spans) != 1 || spans[0].Name != "S3 PutObject" {
		t.Errorf("%v", spans)
	}
}
