package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// wire speaks to a gateway from the published contract alone and shares no code with it, so that a change of the
// gateway's own types cannot hide a change of the API.
type wire struct {
	t      testing.TB
	base   string
	client *http.Client
}

func newWire(t testing.TB, base string) *wire {
	// Without keep-alive: on a connection that was used before, net/http repeats a request whose response was lost.
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &wire{t: t, base: base, client: &http.Client{Transport: transport, Timeout: 2 * time.Minute}}
}

// keepAlive is a client that uses its connections again, for tests that lose no reply.
func keepAlive(t testing.TB) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * time.Minute}
}

// in is the same client, failing another test.
func (w *wire) in(t testing.TB) *wire {
	other := *w
	other.t = t
	return &other
}

// response is an answer whose body was read to its end.
type response struct {
	what   string
	status int
	header http.Header
	body   string
	took   time.Duration
}

func (r response) String() string {
	return fmt.Sprintf("%s: %d %s %v", r.what, r.status, r.body, r.header)
}

func (r response) replayed() bool { return r.header.Get("X-Fence-Replayed") == "true" }

func (r response) ok() bool { return r.status >= 200 && r.status < 300 }

// problem decodes a refusal; numbers keep their digits.
func (r response) problem() map[string]any {
	p := map[string]any{}
	dec := json.NewDecoder(strings.NewReader(r.body))
	dec.UseNumber()
	if dec.Decode(&p) != nil {
		return map[string]any{}
	}
	return p
}

func (r response) code() string {
	code, _ := r.problem()["code"].(string)
	return code
}

// try sends one request; a header is "Name: value" and may be given more than once.
func (w *wire) try(ctx context.Context, method, path, body string, headers ...string) (response, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.base+path, strings.NewReader(body))
	if err != nil {
		return response{}, err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	if body != "" && !strings.HasPrefix(path, "/v1/objects/") && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	begun := time.Now()
	resp, err := w.client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	overheard.exchange(resp, read)
	return response{method + " " + path, resp.StatusCode, resp.Header, string(read), time.Since(begun)}, err
}

func (w *wire) do(method, path, body string, headers ...string) response {
	w.t.Helper()
	r, err := w.try(w.t.Context(), method, path, body, headers...)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// start sends a request in the background; the function that it returns waits for the answer.
func (w *wire) start(method, path, body string, headers ...string) func() response {
	w.t.Helper()
	type result struct {
		response
		err error
	}
	done := make(chan result, 1)
	go func() {
		r, err := w.try(context.WithoutCancel(w.t.Context()), method, path, body, headers...)
		done <- result{r, err}
	}()
	return func() response {
		w.t.Helper()
		r := <-done
		if r.err != nil {
			w.t.Fatalf("%s %s: %v", method, path, r.err)
		}
		return r.response
	}
}

func (w *wire) want(status int, method, path, body string, headers ...string) response {
	w.t.Helper()
	r := w.do(method, path, body, headers...)
	if r.status != status {
		w.t.Fatalf("got %v, want status %d", r, status)
	}
	if r.ok() && (strings.HasPrefix(path, "/v1/rows/") || strings.HasPrefix(path, "/v1/objects/") || strings.HasPrefix(path, "/v1/marks/")) {
		r.knowsMark(w.t)
	}
	return r
}

// retryableCodes are the codes of which the contract says that the same request may succeed when it is repeated.
var retryableCodes = []string{"lease-held", "rate-limited", "contention", "overloaded", "unavailable", "outcome-unknown"}

// refused sends a request that must be refused, and checks everything that the contract says of each refusal.
func (w *wire) refused(status int, code, method, path, body string, headers ...string) map[string]any {
	w.t.Helper()
	r := w.do(method, path, body, headers...)
	return r.refusal(w.t, status, code)
}

func (r response) refusal(t testing.TB, status int, code string) map[string]any {
	t.Helper()
	p := r.problem()
	if r.status != status || p["code"] != code {
		t.Fatalf("got %v, want %d %s", r, status, code)
	}
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("%s: content type %q", r.what, got)
	}
	for _, name := range []string{"type", "title", "detail", "trace_id"} {
		if text, _ := p[name].(string); text == "" {
			t.Errorf("%v: %s is missing", r, name)
		}
	}
	if p["status"] != json.Number(strconv.Itoa(status)) || p["trace_id"] != r.header.Get("X-Trace-Id") {
		t.Errorf("%v: status or trace id differ from the header's", r)
	}
	again := slices.Contains(retryableCodes, code)
	if p["retryable"] != again || (r.header.Get("Retry-After") != "") != again {
		t.Errorf("%v: retryable must be %t, with Retry-After only then", r, again)
	}
	return p
}

// refusedWith is refused for a resource whose mark and lease the gateway knows: headers and body must tell them.
func (w *wire) refusedWith(mark int64, status int, code, method, path, body string, headers ...string) map[string]any {
	w.t.Helper()
	r := w.do(method, path, body, headers...)
	p := r.refusal(w.t, status, code)
	r.knowsMark(w.t)
	text := strconv.FormatInt(mark, 10)
	if r.header.Get("X-Fence-Token") != text || p["mark"] != json.Number(text) {
		w.t.Errorf("%v: the mark must be %d", r, mark)
	}
	if lease, err := url.PathUnescape(r.header.Get("X-Fence-Lease")); err != nil || p["lease"] != lease {
		w.t.Errorf("%v: the lease of header and body differ", r)
	}
	if resource, _ := p["resource"].(string); !strings.Contains(resource, "/") {
		w.t.Errorf("%v: no resource", r)
	}
	return p
}

// knowsMark checks what every answer about a resource carries.
func (r response) knowsMark(t testing.TB) {
	t.Helper()
	mark := r.header.Get("X-Fence-Token")
	if mark == "" || r.header.Get("ETag") != `"`+mark+`"` || r.header.Get("X-Fence-Lease") == "" {
		t.Errorf("%v: X-Fence-Token, ETag or X-Fence-Lease is missing or wrong", r)
	}
}

// holding is what acquire answers.
type holding struct {
	Name      string     `json:"name"`
	ID        string     `json:"id"`
	Holder    string     `json:"holder"`
	Token     int64      `json:"token"`
	TokenLast int64      `json:"token_last"`
	Blocks    [][2]int64 `json:"blocks"`
}

// token is the header of the grant's n-th token.
func (g holding) token(n int64) string { return fmt.Sprintf("X-Fence-Token: %d", g.Token+n) }

func (g holding) id() string { return "X-Lease-Id: " + g.ID }

func holdingOf(t testing.TB, r response) holding {
	t.Helper()
	var g holding
	if err := json.Unmarshal([]byte(r.body), &g); err != nil || g.ID == "" || g.Token < 1000 || g.ID != r.header.Get("X-Lease-Id") {
		t.Fatalf("no grant: %v", r)
	}
	return g
}

// acquire takes a lease with the fields given, such as `"ttl":"1s"`.
func (w *wire) acquire(name string, fields ...string) holding {
	w.t.Helper()
	return holdingOf(w.t, w.want(201, "POST", leasePath(name), "{"+strings.Join(fields, ",")+"}"))
}

func (w *wire) release(g holding) {
	w.t.Helper()
	w.want(204, "DELETE", leasePath(g.Name), "", g.id())
}

func leasePath(name string) string { return "/v1/leases/" + url.PathEscape(name) }

// mark reads the mark of what lies at a path below /v1.
func (w *wire) mark(path string) int64 {
	w.t.Helper()
	r := w.want(200, "GET", "/v1/marks"+strings.TrimPrefix(path, "/v1"), "")
	var m struct {
		Resource, Lease string
		Token           int64
	}
	if err := json.Unmarshal([]byte(r.body), &m); err != nil || m.Resource == "" || m.Lease == "" || strconv.FormatInt(m.Token, 10) != r.header.Get("X-Fence-Token") {
		w.t.Fatalf("no mark: %v", r)
	}
	return m.Token
}

// walletsSQL makes the table and the bucket that most tests write to. A trigger notes each change in public.changes, so
// that a test can tell a write that was applied twice.
const walletsSQL = `
CREATE TABLE wallets (id bigint PRIMARY KEY, owner text NOT NULL DEFAULT 'nobody', balance numeric NOT NULL DEFAULT 0);
INSERT INTO wallets SELECT id, 'ann', 100 FROM generate_series(1, 50) id;
CREATE TABLE changes (n bigint GENERATED ALWAYS AS IDENTITY, id bigint, balance numeric);
CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.changes (id, balance) VALUES (NEW.id, NEW.balance); RETURN NEW; END';
CREATE TRIGGER note_change AFTER INSERT OR UPDATE ON wallets FOR EACH ROW EXECUTE FUNCTION note_change();
CREATE TABLE flips (key text, sha256 bytea);
CREATE FUNCTION note_flip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.flips VALUES (NEW.key, NEW.sha256); RETURN NEW; END';
CREATE TRIGGER note_flip AFTER INSERT OR UPDATE ON fence.objects FOR EACH ROW EXECUTE FUNCTION note_flip();
SELECT fence.protect('wallets', 'wallet:{id}');
`

// shared starts a gateway on servers of testenv, with walletsSQL and a bucket reports.
func shared(t testing.TB, args ...string) (*wire, servers) {
	t.Helper()
	s := testServers(t)
	return serveWallets(t, s, args...), s
}

// serveWallets starts a gateway on servers that run.
func serveWallets(t testing.TB, s servers, args ...string) *wire {
	t.Helper()
	p := startOn(t, s, t.TempDir(), args...)
	execSQL(t, s.database, walletsSQL)
	protectBucket(t, s.database, "reports", "report:{key}")
	return newWire(t, p.url)
}
