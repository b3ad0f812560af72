package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// happening is an event as the tests look at it.
type happening struct {
	ID, Kind, Lease, Principal, Code, Resource, Ended string
	EndedBy                                           string `json:"ended_by"`
}

func (h happening) String() string { return h.Kind + " " + h.Lease + " " + h.Principal }

// following is an open stream of events; its channel is closed when it has ended.
type following struct {
	t      testing.TB
	events chan happening
	stop   context.CancelFunc
}

// follow opens a stream of events. A client of its own has no limit on its time.
func (c *client) follow(query, lastID string) *following {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/v1/events"+query, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := (&http.Client{Transport: c.http.Transport}).Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		c.t.Fatalf("%d %s", resp.StatusCode, body)
	}
	f := &following{c.t, make(chan happening, 1000), cancel}
	go func() {
		defer close(f.events)
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			overheard.hears("GET /v1/events", lines.Text())
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var h happening
				if json.Unmarshal([]byte(data), &h) == nil {
					f.events <- h
				}
			}
		}
	}()
	return f
}

// next waits for the next event; ok is false when the stream has ended.
func (f *following) next() (h happening, ok bool) {
	f.t.Helper()
	select {
	case h, ok = <-f.events:
	case <-time.After(patience):
		f.t.Fatal("no event comes, and no end")
	}
	return h, ok
}

// wants demands events.
func (f *following) wants(events ...string) (last happening) {
	f.t.Helper()
	for _, want := range events {
		h, ok := f.next()
		if last = h; !ok || h.String() != want {
			f.t.Fatalf("got %+v (%t), want %s", h, ok, want)
		}
	}
	return last
}

func (f *following) ends() {
	f.t.Helper()
	if h, ok := f.next(); ok {
		f.t.Fatalf("the stream goes on: %+v", h)
	}
}

// What happens on one gateway is told on every other, to those who may know; a stream goes on at another gateway.
func TestEventsOfAllGateways(t *testing.T) {
	t.Parallel()
	s := testServers(t)
	file := filepath.Join(t.TempDir(), "auth.yaml")
	all := `{leases: ["*"], tables: ["*"], verbs: [read]}`
	worker := principal("worker", false, `{leases: ["wallet:*"], verbs: [lease]}`, `{tables: [wallets], verbs: [read, write]}`)
	other := principal("other", false, `{leases: ["wallet:2"], verbs: [lease]}`)
	operator := principal("operator", true, all)
	writeAuthFile(t, file, worker, other, operator, principal("reader", false, all))
	near, far := startServe(t, s, "--auth-file="+file), startServe(t, s, "--auth-file="+file)
	execSQL(t, s.database, walletsSQL)
	reader := near.client().as("reader").follow("", "")
	others := far.client().as("other").follow("?from=oldest", "")

	w := far.client().as("worker")
	first := w.acquire("wallet:1", time.Minute)
	w.patch("wallets/1", first.Token, `{"balance":1}`).want(t, "")
	o := near.client().as("operator")
	o.ask(http.MethodPost, "leases/wallet:1/break", `{"reason":"stuck"}`).want(t, "")
	r := w.ask(http.MethodPut, "leases/wallet:1", "", "X-Lease-Id", first.ID)
	r.want(t, "lease-lost")
	if body := string(r.body); !strings.Contains(body, `"ended":"broken: stuck"`) || !strings.Contains(body, `"ended_by":"operator"`) {
		t.Errorf("the holder is not told why and by whom: %s", body)
	}
	second := w.acquire("wallet:2", time.Minute)
	w.release("wallet:2", second)
	w.patch("wallets/1", first.Token+1, `{"balance":2}`).want(t, "grant-ended")

	broken := reader.wants("granted wallet:1 worker", "broken wallet:1 worker")
	if broken.Ended != "broken: stuck" || broken.EndedBy != "operator" {
		t.Errorf("%+v", broken)
	}
	rest := []string{"granted wallet:2 worker", "released wallet:2 worker", "refused wallet:1 worker"}
	if refused := reader.wants(rest...); refused.Code != "grant-ended" || refused.Resource != "rows/public.wallets/1" {
		t.Errorf("%+v", refused)
	}
	far.client().as("reader").follow("", broken.ID).wants(rest...)
	others.wants("granted wallet:2 worker", "released wallet:2 worker")
	w.acquire("wallet:3", 200*time.Millisecond)
	reader.wants("granted wallet:3 worker", "expired wallet:3 worker")

	t.Run("Commands", func(t *testing.T) {
		w.acquire("wallet:7", time.Minute)
		env := []string{"FENCEGATE_URL=" + near.url, "FENCEGATE_AUTH_TOKEN=" + secretOf("reader")}
		for _, c := range []struct {
			args []string
			code int
			says string
		}{
			{[]string{"ls", "--prefix=wallet:"}, 0, "wallet:7  worker  worker"},
			{[]string{"get", "wallet:7"}, 0, "holder     worker"},
			{[]string{"get", "wallet:1"}, 1, "nobody holds the lease wallet:1"},
			{[]string{"break", "wallet:7", "--reason=x"}, 1, "forbidden"},
		} {
			out, errs, code := runBinary(t, env, append([]string{"lease"}, c.args...)...)
			if code != c.code || !strings.Contains(out+errs, c.says) {
				t.Errorf("%v: exit %d:\n%s%s", c.args, code, out, errs)
			}
		}
		reader.wants("granted wallet:7 worker")
	})
	t.Run("ListsShowWhatMayBeSeen", func(t *testing.T) {
		var page struct{ Leases []struct{ Name string } }
		for user, want := range map[string][]string{"worker": {"wallet:7"}, "other": nil, "reader": {"wallet:7"}} {
			near.client().as(user).get("leases").decode(t, &page)
			var names []string
			for _, l := range page.Leases {
				names = append(names, l.Name)
			}
			if !slices.Equal(names, want) {
				t.Errorf("%s sees %q", user, names)
			}
		}
	})
	t.Run("Revoked", func(t *testing.T) {
		writeAuthFile(t, file, worker, other, operator)
		hangup(t, near)
		began := time.Now()
		reader.ends()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the stream went on for %v", took)
		}
		near.client().as("reader").get("events").want(t, "unauthenticated")
	})
	t.Run("Drain", func(t *testing.T) {
		if code := far.stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		others.ends()
	})
}

// Refusals come in numbers, and the ledger takes them in batches: every write is answered, and none waits.
func TestRefusalsAreTold(t *testing.T) {
	t.Parallel()
	p, _ := startShared(t)
	c := p.client()
	stale := c.acquire("wallet:42", time.Minute)
	c.release("wallet:42", stale)
	fresh := c.acquire("wallet:42", time.Minute)
	f := c.follow("?kinds=refused", "")
	const writes = 20
	for i := range int64(writes) {
		c.patch("wallets/42", stale.Token+i, `{"balance":0}`).want(t, "stale-token")
	}
	c.patch("wallets/42", fresh.Token, `{"balance":1}`).want(t, "")
	for i := range writes {
		if h, ok := f.next(); !ok || h.Code != "stale-token" || h.Resource != "rows/public.wallets/42" {
			t.Fatalf("refusal %d: %+v", i, h)
		}
	}
	f.stop()
	if r := c.get(fmt.Sprintf("leases/%s", "wallet:42")); !r.ok() {
		t.Error(r)
	}
}
