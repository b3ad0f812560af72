package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

// rows replaces a backend's rows by one function.
type rows struct {
	gateway.Rows
	write func(context.Context, fence.RowWrite) (fence.Row, error)
}

func (r rows) WriteRow(ctx context.Context, w fence.RowWrite) (fence.Row, error) {
	return r.write(ctx, w)
}

func TestRowIsWrittenReplayedAndRead(t *testing.T) {
	a := serve(t, nil)
	token, _ := a.acquire("wallets:42")
	const path, body = "/v1/rows/wallets/42", `{"balance":12345678901234567890.10}`
	for i, replayed := range []string{"", "true"} {
		got := a.want(201, "PUT", path, body, token)
		if got.Header.Get("X-Fence-Replayed") != replayed || got.text != body+"\n" {
			t.Fatalf("put %d: %v %s", i, got.Header, got.text)
		}
		if got.Header.Get("X-Fence-Token") != "1000" || got.Header.Get("ETag") != `"1000"` || got.Header.Get("X-Fence-Lease") != "wallets%3A42" {
			t.Fatalf("put %d: the state is missing: %v", i, got.Header)
		}
	}
	if got := a.want(200, "GET", path, "", "If-None-Match: \"1000\"", token); got.text != body+"\n" {
		t.Fatal(got.text)
	}
	got := a.want(204, "PATCH", path, `{"n":1}`, "X-Fence-Token: 1001", "Prefer: handling=lenient, return=minimal")
	if got.Header.Get("Preference-Applied") != "return=minimal" || got.Header.Get("ETag") != `"1001"` {
		t.Fatal(got.Header)
	}
	a.want(412, "GET", path, "", `If-Match: "1000"`)
	a.want(204, "DELETE", path, "", "X-Fence-Token: 1002", `If-Match: "1001"`)
	if got := a.want(204, "DELETE", path, "", "X-Fence-Token: 1002", `If-Match: "1001"`); got.Header.Get("X-Fence-Replayed") != "true" {
		t.Fatal("the second delete is no replay")
	}
	p := a.refused(404, "not-found", "GET", path, "")
	if p.Mark == nil || *p.Mark != 1002 || p.Resource != "rows/public.wallets/42" {
		t.Fatalf("the mark did not survive the delete: %+v", p)
	}
	mark := a.want(200, "GET", "/v1/marks/rows/wallets/42", "")
	if mark.text != `{"resource":"rows/public.wallets/42","token":1002,"lease":"wallets:42","principal":"anonymous","written_at":"2026-01-02T03:04:05Z"}`+"\n" {
		t.Fatal(mark.text)
	}
	if got := a.want(200, "GET", "/v1/marks/rows/wallets/43", ""); got.text != `{"resource":"rows/public.wallets/43","token":0,"lease":"wallets:43"}`+"\n" || got.Header.Get("ETag") != `"0"` {
		t.Fatal(got.text)
	}
}

func TestRowNumbersAsText(t *testing.T) {
	var asked []bool
	a := serve(t, func(c *gateway.Config) {
		c.Rows = rows{c.Rows, func(_ context.Context, w fence.RowWrite) (fence.Row, error) {
			asked = append(asked, w.NumbersAsText)
			return fence.Row{JSON: []byte(`{"n":"1"}`)}, nil
		}}
	})
	for _, prefer := range []string{"numbers=string", "return=representation, numbers=string", "numbers=float", "return=minimal"} {
		got := a.do("PUT", "/v1/rows/w/1", `{"n":1}`, "X-Fence-Token: 1001", "Prefer: "+prefer)
		if applied := got.Header.Get("Preference-Applied"); (applied == "numbers=string") != asked[len(asked)-1] {
			t.Errorf("%s: asked %v, applied %q", prefer, asked[len(asked)-1], applied)
		}
	}
	if !slices.Equal(asked, []bool{true, true, false, false}) {
		t.Errorf("asked %v", asked)
	}
}

func TestRowWriteRefused(t *testing.T) {
	a := serve(t, func(c *gateway.Config) { c.MaxBody = 200; c.MaxDepth = 3 })
	token, _ := a.acquire("w:1", "X-User: alice")
	alice := "X-User: alice"
	const path = "/v1/rows/w/1"
	a.want(201, "PUT", path, `{"n":1}`, "X-Fence-Token: 1005", alice)
	for _, tc := range []struct {
		name, code, body string
		status           int
		headers          []string
	}{
		{"NoToken", "token-required", `{"n":1}`, 428, nil},
		{"TwoTokens", "invalid-token", `{"n":1}`, 400, []string{token, token}},
		{"Malformed", "invalid-token", `{"n":1}`, 400, []string{"X-Fence-Token: 007"}},
		{"20kB", "invalid-token", `{"n":1}`, 400, []string{"X-Fence-Token: " + strings.Repeat("7", 20000)}},
		{"BelowMark", "stale-token", `{"n":1}`, 412, []string{"X-Fence-Token: 1004"}},
		{"BelowGrant", "stale-token", `{"n":1}`, 412, []string{"X-Fence-Token: 7"}},
		{"Spent", "spent-token", `{"n":2}`, 412, []string{"X-Fence-Token: 1005"}},
		{"Unissued", "unissued-token", `{"n":1}`, 403, []string{"X-Fence-Token: 999999999999999"}},
		{"Precondition", "precondition-failed", `{"n":1}`, 412, []string{"X-Fence-Token: 1006", `If-Match: "1004"`}},
		{"WeakTag", "precondition-failed", `{"n":1}`, 412, []string{"X-Fence-Token: 1006", `If-Match: W/"1005"`}},
		{"Exists", "precondition-failed", `{"n":1}`, 412, []string{"X-Fence-Token: 1006", `If-None-Match: *`}},
		{"BadTag", "invalid-request", `{"n":1}`, 400, []string{"X-Fence-Token: 1006", `If-Match: 1005`}},
		{"DateCondition", "invalid-request", `{"n":1}`, 400, []string{"X-Fence-Token: 1006", `If-Unmodified-Since: Fri, 02 Jan 2026 03:04:05 GMT`}},
		{"Form", "unsupported-media-type", `n=1`, 415, []string{"X-Fence-Token: 1006", "Content-Type: application/x-www-form-urlencoded"}},
		{"Empty", "invalid-request", `{}`, 400, []string{"X-Fence-Token: 1006"}},
		{"Duplicate", "invalid-request", `{"n":1,"n":2}`, 400, []string{"X-Fence-Token: 1006"}},
		{"Deep", "invalid-request", `{"n":[[[1]]]}`, 400, []string{"X-Fence-Token: 1006"}},
		{"Large", "too-large", `{"n":"` + strings.Repeat("x", 200) + `"}`, 413, []string{"X-Fence-Token: 1006"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := *a
			a.t = t
			got := a.want(tc.status, "PATCH", path, tc.body, append(tc.headers, alice)...)
			p := got.problem(t)
			if p.Code != tc.code {
				t.Fatalf("got %+v", p)
			}
			if p.Mark == nil || *p.Mark != 1005 || got.Header.Get("X-Fence-Token") != "1005" || got.Header.Get("X-Fence-Lease") != "w%3A1" || p.Lease != "w:1" {
				t.Fatalf("the refusal hides what is known: %+v", p)
			}
			if judged := p.Code == "stale-token" || p.Code == "spent-token" || p.Code == "unissued-token"; judged && (p.FirstToken != 1000 || p.Holder != "alice") {
				t.Fatalf("the refusal hides the grant: %+v", p)
			}
			if len(got.text) > 1000 {
				t.Fatalf("the refusal has %d bytes", len(got.text))
			}
		})
	}
	a.refused(403, "foreign-token", "PATCH", path, `{"n":1}`, "X-Fence-Token: 1006", "X-User: bob")
	p := a.refused(403, "foreign-token", "GET", path, "", "X-Fence-Token: 1006", "X-User: bob")
	if p.Token != 1006 || p.Mark == nil || *p.Mark != 1005 {
		t.Fatalf("got %+v", p)
	}
	log := a.log.String()
	if !strings.Contains(log, "level=INFO") || strings.Contains(log, "level=ERROR") || !strings.Contains(log, "mark=1005") {
		t.Fatalf("log: %s", log)
	}
}

func TestRowPathsRoundTrip(t *testing.T) {
	var seen fence.RowName
	a := serve(t, func(c *gateway.Config) {
		c.Rows = rows{c.Rows, func(_ context.Context, w fence.RowWrite) (fence.Row, error) {
			seen = w.Row
			return fence.Row{}, nil
		}}
	})
	for path, want := range map[string][]string{
		"t/1":                             {"public.t", "1"},
		"t/..":                            {"public.t", ".."},
		"t/a%2Fb":                         {"public.t", "a/b"},
		"t/It%20is":                       {"public.t", "It is"},
		"t/a+b":                           {"public.t", "a+b"},
		"t/7,x%2Cy":                       {"public.t", "7", "x,y"},
		"%22a.b%22.%22Re%2Fply%22/%25%2F": {`"a.b"."Re/ply"`, "%/"},
		"t/":                              {"public.t", ""},
	} {
		a.want(204, "DELETE", "/v1/rows/"+path, "", "X-Fence-Token: 7")
		if got := append([]string{seen.Table}, seen.Key...); strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%s: got %q", path, got)
		}
	}
}

func TestRowWriteOutlivesItsClient(t *testing.T) {
	entered, done := make(chan struct{}), make(chan error, 1)
	var request context.Context
	a := serve(t, func(c *gateway.Config) {
		c.Authenticate = func(r *http.Request) (gateway.Caller, error) {
			request = r.Context()
			return gateway.Everybody{}, nil
		}
		c.Rows = rows{c.Rows, func(ctx context.Context, _ fence.RowWrite) (fence.Row, error) {
			close(entered)
			<-request.Done()
			err := ctx.Err()
			if _, bounded := ctx.Deadline(); !bounded {
				err = errors.New("the write has no deadline")
			}
			done <- err
			return fence.Row{}, nil
		}}
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	a.send(ctx, "DELETE", "/v1/rows/t/1", "", "X-Fence-Token: 7")
	if err := <-done; err != nil {
		t.Fatalf("the client's leaving reached the write: %v", err)
	}
}

func TestUncodedWriteErrorIsUnknown(t *testing.T) {
	secret := errors.New("dial 10.0.0.1: no route")
	for name, write := range map[string]func(context.Context, fence.RowWrite) (fence.Row, error){
		"Error":    func(context.Context, fence.RowWrite) (fence.Row, error) { return fence.Row{}, secret },
		"Deadline": func(context.Context, fence.RowWrite) (fence.Row, error) { return fence.Row{}, context.DeadlineExceeded },
		"Panic":    func(context.Context, fence.RowWrite) (fence.Row, error) { panic(secret) },
	} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, func(c *gateway.Config) { c.Rows = rows{c.Rows, write} })
			got := a.want(503, "DELETE", "/v1/rows/t/1", "", "X-Fence-Token: 7")
			p := got.problem(t)
			if p.Code != "outcome-unknown" || !p.Retryable || got.Header.Get("Retry-After") != "1" || strings.Contains(got.text, "10.0.0.1") {
				t.Fatalf("got %s", got.text)
			}
			if log := a.log.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, p.TraceID) {
				t.Fatalf("log: %s", log)
			}
		})
	}
}

func TestEveryCodeBecomesItsProblem(t *testing.T) {
	var refusal *fence.Error
	a := serve(t, func(c *gateway.Config) {
		c.Rows = rows{c.Rows, func(context.Context, fence.RowWrite) (fence.Row, error) { return fence.Row{}, refusal }}
	})
	statuses := map[fence.Code]int{
		fence.CodeStaleToken: 412, fence.CodeSpentToken: 412, fence.CodeGrantEnded: 412, fence.CodePreconditionFailed: 412,
		fence.CodeUnissuedToken: 403, fence.CodeForeignToken: 403, fence.CodeForbidden: 403, fence.CodeUnauthenticated: 401,
		fence.CodeTokenRequired: 428, fence.CodeInvalidToken: 400, fence.CodeInvalidRequest: 400, fence.CodeChecksumMismatch: 400,
		fence.CodeLeaseHeld: 409, fence.CodeLeaseLost: 409, fence.CodeConstraintViolation: 409, fence.CodeWriteSuppressed: 409,
		fence.CodeUploadExpired: 409, fence.CodeNotFound: 404, fence.CodeMethodNotAllowed: 405, fence.CodeTooLarge: 413,
		fence.CodeUnsupportedMediaType: 415, fence.CodeRangeNotSatisfiable: 416, fence.CodeRateLimited: 429,
		fence.CodeContention: 503, fence.CodeOverloaded: 503, fence.CodeOutcomeUnknown: 503, fence.CodeUnavailable: 503,
		fence.CodeStoreUnavailable: 502, fence.CodeInternal: 500, "made-up": 500,
	}
	for code, status := range statuses {
		t.Run(string(code), func(t *testing.T) {
			a := *a
			a.t, a.odd = t, true
			refusal = &fence.Error{
				Code: code, Message: "why", Token: 7, Lease: "l", First: 1000, Holder: "h", Field: "f", Constraint: "c",
				State: &fence.State{Resource: "rows/t/1", Lease: "l", Mark: 9},
			}
			got := a.want(status, "DELETE", "/v1/rows/t/1", "", "X-Fence-Token: 7")
			p := got.problem(t)
			shown := code
			switch code {
			case fence.CodeStoreUnavailable:
				shown = fence.CodeUnavailable
			case "made-up":
				shown = fence.CodeInternal
			}
			if p.Code != string(shown) || p.Status != status || p.Detail != "why" || p.Field != "f" || p.Constraint != "c" || p.Token != 7 {
				t.Fatalf("got %s", got.text)
			}
			if p.Retryable != code.Retryable() || p.Retryable != (got.Header.Get("Retry-After") != "") {
				t.Fatalf("retryable %v, Retry-After %q", p.Retryable, got.Header.Get("Retry-After"))
			}
			hidden := code == fence.CodeForbidden || code == fence.CodeUnauthenticated
			if hidden != (p.Mark == nil && p.Holder == "" && p.Lease == "" && p.FirstToken == 0 && got.Header.Get("ETag") == "") {
				t.Fatalf("disclosed or hidden wrongly: %s", got.text)
			}
			if p.TraceID != got.Header.Get("X-Trace-Id") {
				t.Fatalf("two trace ids: %s, %s", p.TraceID, got.Header.Get("X-Trace-Id"))
			}
		})
	}
}
