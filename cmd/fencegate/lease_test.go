package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/gatewaytest"
	"github.com/fencegate/fencegate/lease"
)

// leaseGateway is a gateway on a Memory; a bearer token names the caller.
type leaseGateway struct {
	*gatewaytest.Memory
	t      *testing.T
	server *httptest.Server
}

func startLeaseGateway(t *testing.T) *leaseGateway {
	t.Helper()
	memory := gatewaytest.New()
	g, err := gateway.New(gateway.Config{
		Leases: memory, Rows: memory, Objects: memory, Readiness: memory, Events: memory, Log: slog.New(slog.DiscardHandler),
		Authenticate: func(r *http.Request) (gateway.Caller, error) {
			return namedCaller(cmp.Or(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), gateway.Anonymous)), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(g)
	t.Cleanup(func() {
		g.Drain()
		s.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return &leaseGateway{memory, t, s}
}

// namedCaller may do everything, unless he is nobody.
type namedCaller string

func (c namedCaller) Principal() string             { return string(c) }
func (c namedCaller) May(gateway.Action) bool       { return c != "nobody" }
func (c namedCaller) MayBelow(gateway.Action) bool  { return c != "nobody" }
func (namedCaller) Identity() fence.Identity        { return fence.Identity{} }
func (namedCaller) Columns(gateway.Action) []string { return nil }

func (g *leaseGateway) hold(name, holder string) {
	g.t.Helper()
	if _, err := g.Acquire(g.t.Context(), lease.Request{Name: name, Holder: holder, Principal: "p-" + holder}); err != nil {
		g.t.Fatal(err)
	}
}

// lease runs fencegate lease.
func (g *leaseGateway) lease(args ...string) (code int, out, errs string) {
	g.t.Helper()
	return command(g.t, append([]string{"lease"}, append(args, "--url="+g.server.URL)...)...)
}

// oddName has everything that a path, a query or a shell might take for something else.
const oddName = "report:2026/a b%2F+c?d=e&f#g"

func TestLeaseGetAndBreak(t *testing.T) {
	g := startLeaseGateway(t)
	g.hold(oddName, "worker a")
	g.Wait(oddName, lease.Waiting{Holder: "b", For: 1200 * time.Millisecond})
	t.Run("Get", func(t *testing.T) {
		code, out, errs := g.lease("get", oddName)
		want := []string{"lease      " + oddName + "\n", "holder     worker a\n", "principal  p-worker a\n", "tokens     1000-1999\n", "remaining  30s\n", "waiting    1\n", "        1. b, for 1.2s\n"}
		for _, w := range want {
			if code != 0 || !strings.Contains(out, w) {
				t.Errorf("exit %d, no %q in:\n%s%s", code, w, out, errs)
			}
		}
	})
	t.Run("JSON", func(t *testing.T) {
		_, out, _ := g.lease("get", "--json", oddName)
		var l leaseInfo
		if err := json.Unmarshal([]byte(out), &l); err != nil || l.Name != oddName || l.Queue.Length != 1 {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("NobodyHoldsIt", func(t *testing.T) {
		if code, out, errs := g.lease("get", "nothing"); code != 1 || out != "" || !strings.Contains(errs, "nobody holds the lease nothing") {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
	})
	t.Run("BreakWantsAReason", func(t *testing.T) {
		if code, _, errs := g.lease("break", oddName); code != 80 || !strings.Contains(errs, "--reason") {
			t.Errorf("exit %d: %s", code, errs)
		}
	})
	t.Run("BreakOfNothing", func(t *testing.T) {
		if code, _, errs := g.lease("break", "nothing", "--reason=x"); code != 1 || !strings.Contains(errs, "not-found") {
			t.Errorf("exit %d: %s", code, errs)
		}
	})
	t.Run("NotAllowed", func(t *testing.T) {
		for _, args := range [][]string{{"get", oddName}, {"break", oddName, "--reason=x"}} {
			if code, _, errs := g.lease(append(args, "--auth=nobody")...); code != 1 || !strings.Contains(errs, "forbidden") {
				t.Errorf("%v: exit %d: %s", args, code, errs)
			}
		}
	})
	t.Run("Break", func(t *testing.T) {
		t.Setenv("FENCEGATE_AUTH_TOKEN", "operator")
		code, out, errs := g.lease("break", oddName, "--reason=stuck for hours")
		if code != 0 || out != "broke the lease "+oddName+", held by worker a\n" {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
		events, _, err := g.Events(t.Context(), "1", 10)
		if err != nil || len(events) != 1 || events[0].Why != "broken: stuck for hours" || events[0].By != "operator" {
			t.Errorf("%v %+v", err, events)
		}
		if code, _, _ := g.lease("get", oddName); code != 1 {
			t.Error("it is still held")
		}
		if code, out, _ := g.lease("break", oddName, "--reason=again"); code != 0 || !strings.Contains(out, "nobody held") {
			t.Errorf("exit %d: %s", code, out)
		}
	})
}

func TestLeaseLs(t *testing.T) {
	g := startLeaseGateway(t)
	if code, out, errs := g.lease("ls"); code != 0 || out != "LEASE  HOLDER  PRINCIPAL  TOKENS  REMAINING  GRANTED\n" {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	for i := range lsPage + 10 {
		g.hold(fmt.Sprintf("w:%04d", i), "a")
	}
	g.hold(oddName, "b")
	_, out, errs := g.lease("ls")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != lsPage+12 || !strings.HasPrefix(lines[1], oddName+"  b ") || !strings.HasPrefix(lines[2], "w:0000 ") {
		t.Errorf("%d lines: %.500s%s", len(lines), out, errs)
	}
	if _, out, _ := g.lease("ls", "--prefix=report:2026/a b%"); strings.Count(out, "\n") != 2 || !strings.Contains(out, oddName) {
		t.Error(out)
	}
	_, out, _ = g.lease("ls", "--json", "--prefix=w:000")
	if strings.Count(out, "\n") != 10 {
		t.Error(out)
	}
	for line := range strings.Lines(out) {
		var l leaseInfo
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Holder != "a" {
			t.Errorf("%v: %s", err, line)
		}
	}
	for _, url := range []string{"ftp://x", "127.0.0.1:1", "http://u:hunter2@h", "http://h?token=hunter2", ""} {
		if code, _, errs := command(t, "lease", "ls", "--url="+url); code != 80 || strings.Contains(errs, "hunter2") {
			t.Errorf("%s: exit %d: %s", url, code, errs)
		}
	}
	if code, _, errs := command(t, "lease", "ls", "--url=http://127.0.0.1:1"); code != 1 || !strings.Contains(errs, "does not answer") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestShownName(t *testing.T) {
	for name, want := range map[string]string{
		"wallet:42": "wallet:42", "a b": "a b", "ü€": "ü€", "": `""`, " a": `" a"`, "a\x1b[2J": `"a\x1b[2J"`, "a\tb": `"a\tb"`, "a\u202eb": `"a\u202eb"`, `"`: `"`,
	} {
		if got := shownName(name); got != want {
			t.Errorf("%q is shown as %s", name, got)
		}
	}
}

// watching is fencegate lease watch in this process.
type watching struct {
	t         *testing.T
	out, errs *shared
	stop      func() int
}

func (g *leaseGateway) watch(args ...string) *watching {
	g.t.Helper()
	w := &watching{g.t, &shared{}, &shared{}, nil}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, append([]string{"lease", "watch", "--url=" + g.server.URL}, args...), streams{strings.NewReader(""), w.out, w.errs})
	}()
	w.stop = func() int { cancel(); return <-done }
	g.t.Cleanup(cancel)
	return w
}

// shows waits until the output has so many lines, and returns it.
func (w *watching) shows(lines int) string {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); strings.Count(w.out.String(), "\n") < lines; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not %d lines: %s%s", lines, w.out, w.errs)
		}
	}
	return w.out.String()
}

func TestLeaseWatch(t *testing.T) {
	g := startLeaseGateway(t)
	g.hold(oddName, "a")
	g.Expire(oddName)
	g.hold(oddName, "b")
	if err := g.Break(t.Context(), oddName, "operator", "stuck"); err != nil {
		t.Fatal(err)
	}
	t.Run("ForPeople", func(t *testing.T) {
		w := g.watch("--oldest")
		out := w.shows(4)
		for _, want := range []string{"granted    " + oddName + "  a  tokens from 1000\n", "expired    " + oddName + "  a\n", "granted    " + oddName + "  b  tokens from 2000\n", "broken     " + oddName + "  b  by operator, stuck\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in %s", want, out)
			}
		}
		if code := w.stop(); code != 0 {
			t.Errorf("exit %d: %s", code, w.errs)
		}
	})
	t.Run("Filtered", func(t *testing.T) {
		w := g.watch("--oldest", "--kinds=broken,expired", "--prefix=report:2026/a b%", "--json")
		var e struct{ ID, Kind string }
		out := w.shows(2)
		if err := json.Unmarshal([]byte(out[:strings.IndexByte(out, '\n')]), &e); err != nil || e.Kind != "expired" || e.ID != "2" || w.stop() != 0 {
			t.Errorf("%v %s", err, out)
		}
	})
	t.Run("After", func(t *testing.T) {
		w := g.watch("--after=3")
		if out := w.shows(1); !strings.Contains(out, "broken") || strings.Contains(out, "granted") {
			t.Error(out)
		}
	})
	t.Run("Refused", func(t *testing.T) {
		for _, args := range [][]string{{"--kinds=lost"}, {"--after=x"}} {
			if code, _, errs := g.lease(append([]string{"watch"}, args...)...); code != 1 || !strings.Contains(errs, "invalid-request (400)") {
				t.Errorf("%v: exit %d: %s", args, code, errs)
			}
		}
		if code, _, errs := command(t, "lease", "watch", "--url=http://127.0.0.1:1"); code != 1 || !strings.Contains(errs, "does not answer") {
			t.Errorf("exit %d: %s", code, errs)
		}
	})
}

// A connection that breaks costs no event, and shows none twice.
func TestLeaseWatchConnectsAgain(t *testing.T) {
	g := startLeaseGateway(t)
	var out, errs shared
	w := &watcher{
		leaseWatchCmd: &leaseWatchCmd{gatewayFlags: gatewayFlags{URL: g.server.URL}, Oldest: true}, std: &streams{out: &out, err: &errs},
		silence: time.Minute, retry: 10 * time.Millisecond,
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.run(ctx) }()
	const events = 200
	shown := &watching{t: t, out: &out, errs: &errs}
	for i := range events {
		g.hold(fmt.Sprintf("l%d", i), "a")
		if i%50 == 25 {
			shown.shows(i - 20) // it is under way
			g.server.CloseClientConnections()
		}
	}
	text := shown.shows(events)
	cancel()
	<-done
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if !strings.Contains(line, fmt.Sprintf(" l%d ", i)) {
			t.Fatalf("line %d is %s", i, line)
		}
	}
	if !strings.Contains(errs.String(), "connecting again") {
		t.Errorf("nothing broke: %s", &errs)
	}
}

// A gateway that has gone without closing the connection is noticed by its silence; one that refuses, at once.
func TestLeaseWatchNotices(t *testing.T) {
	answers := make(chan func(http.ResponseWriter, *http.Request), 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (<-answers)(w, r) }))
	t.Cleanup(s.Close)
	stream := func(text string, then func(*http.Request)) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, text)
			w.(http.Flusher).Flush()
			then(r)
		}
	}
	var resumed []string
	silent := func(r *http.Request) { <-r.Context().Done() }
	gone := func(*http.Request) {}
	answers <- stream("retry: 2000\nid: 5\n\n", silent)
	answers <- func(w http.ResponseWriter, r *http.Request) { http.Error(w, "busy", http.StatusServiceUnavailable) }
	answers <- func(w http.ResponseWriter, r *http.Request) {
		resumed = append(resumed, r.Header.Get("Last-Event-ID"), r.URL.RawQuery)
		stream("id: 6\r\nevent: gap\r\ndata: {\"kind\":\"gap\"}\r\n\r\nid: 7\nevent: granted\ndata: {\"kind\":\"gran", gone)(w, r)
	}
	answers <- func(w http.ResponseWriter, r *http.Request) {
		resumed = append(resumed, r.Header.Get("Last-Event-ID"))
		http.Error(w, "who are you", http.StatusUnauthorized)
	}
	var out, errs shared
	w := &watcher{leaseWatchCmd: &leaseWatchCmd{gatewayFlags: gatewayFlags{URL: s.URL}, Oldest: true}, std: &streams{out: &out, err: &errs}, silence: 100 * time.Millisecond, retry: time.Millisecond}
	err := w.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("ended with %v", err)
	}
	if got := strings.Join(resumed, " "); got != "5 prefix= 6" {
		t.Errorf("went on from %q", got)
	}
	if out.String() != "… events are missing here: they are kept no more …\n" || !strings.Contains(errs.String(), "nothing came") {
		t.Errorf("%s%s", &out, &errs)
	}
}
