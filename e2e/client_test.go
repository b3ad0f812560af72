package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"
)

// client speaks to a gateway as any HTTP client would. Each of its calls that takes no error back fails the test when
// there is no answer at all, so those belong on the test's own goroutine; try may be called from any.
type client struct {
	t    testing.TB
	url  string
	http *http.Client
}

func newClient(t testing.TB, url string) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{t: t, url: url, http: &http.Client{Transport: transport, Timeout: patience}}
}

// client returns a new client of the gateway.
func (p *program) client() *client { return newClient(p.t, p.url) }

// reply is an answer whose body was read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) ok() bool       { return r.status >= 200 && r.status < 300 }
func (r reply) replayed() bool { return r.header.Get("X-Fence-Replayed") == "true" }

// mark is the answer's X-Fence-Token, -1 without one.
func (r reply) mark() int64 {
	n, err := strconv.ParseInt(r.header.Get("X-Fence-Token"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// code is a refusal's, "" of a success.
func (r reply) code() string {
	if r.ok() {
		return ""
	}
	var p struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(r.body, &p); err != nil || p.Code == "" {
		return fmt.Sprintf("no code, status %d", r.status)
	}
	return p.Code
}

func (r reply) String() string { return fmt.Sprintf("%d %.300s", r.status, r.body) }

// decode reads a JSON body into v.
func (r reply) decode(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		t.Fatalf("answer %v: %v", r, err)
	}
}

// grant is what a holder needs.
type grant struct {
	ID    string `json:"id"`
	Token int64  `json:"token"`
	Last  int64  `json:"token_last"`
}

// try sends one request and reads the answer. header has names and values in turn.
func (c *client) try(ctx context.Context, method, path string, body io.Reader, header ...string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return reply{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, err
	}
	overheard.exchange(resp, content)
	return reply{resp.StatusCode, resp.Header, content}, nil
}

func (c *client) tryAcquire(ctx context.Context, name string, ttl, wait time.Duration) (grant, reply, error) {
	body := fmt.Sprintf(`{"ttl":%q,"wait":%q}`, ttl, wait)
	r, err := c.try(ctx, http.MethodPost, "/v1/leases/"+url.PathEscape(name), bytes.NewBufferString(body), "Content-Type", "application/json")
	if err != nil || !r.ok() {
		return grant{}, r, err
	}
	var g grant
	return g, r, json.Unmarshal(r.body, &g)
}

// tryPatch changes a row; path is below /v1/rows/.
func (c *client) tryPatch(ctx context.Context, path string, token int64, body string) (reply, error) {
	return c.try(ctx, http.MethodPatch, "/v1/rows/"+path, bytes.NewBufferString(body),
		"Content-Type", "application/json", "X-Fence-Token", strconv.FormatInt(token, 10))
}

// tryPut writes an object; path is below /v1/objects/.
func (c *client) tryPut(ctx context.Context, path string, token int64, body []byte) (reply, error) {
	return c.try(ctx, http.MethodPut, "/v1/objects/"+path, bytes.NewReader(body), "X-Fence-Token", strconv.FormatInt(token, 10))
}

// acquire takes a lease, waiting for whoever holds it.
func (c *client) acquire(name string, ttl time.Duration) grant {
	c.t.Helper()
	g, r, err := c.tryAcquire(c.t.Context(), name, ttl, patience/2)
	if err != nil || !r.ok() {
		c.t.Fatalf("acquire %s: %v, %v", name, r, err)
	}
	return g
}

func (c *client) release(name string, g grant) {
	c.t.Helper()
	c.must(c.try(c.t.Context(), http.MethodDelete, "/v1/leases/"+url.PathEscape(name), nil, "X-Lease-Id", g.ID)).want(c.t, "")
}

// patch changes a row; path is below /v1/rows/.
func (c *client) patch(path string, token int64, body string) reply {
	c.t.Helper()
	return c.must(c.tryPatch(c.t.Context(), path, token, body))
}

// put writes an object; path is below /v1/objects/.
func (c *client) put(path string, token int64, body []byte) reply {
	c.t.Helper()
	return c.must(c.tryPut(c.t.Context(), path, token, body))
}

// get reads a path below /v1/.
func (c *client) get(path string, header ...string) reply {
	c.t.Helper()
	return c.must(c.try(c.t.Context(), http.MethodGet, "/v1/"+path, nil, header...))
}

// balance reads the column balance of a row, and the mark; path is below /v1/rows/.
func (c *client) balance(path string) (balance string, mark int64) {
	c.t.Helper()
	r := c.get("rows/" + path)
	r.want(c.t, "")
	var row struct {
		Balance json.Number `json:"balance"`
	}
	r.decode(c.t, &row)
	return row.Balance.String(), r.mark()
}

func (c *client) must(r reply, err error) reply {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// want checks the code of an answer, "" for a success.
func (r reply) want(t testing.TB, code string) {
	t.Helper()
	if got := r.code(); got != code {
		t.Fatalf("got %q, want %q: %v", got, code, r)
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
