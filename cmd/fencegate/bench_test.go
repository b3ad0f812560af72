package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// What cannot be measured is refused before anything is started or asked: no gateway listens there.
func TestBenchRefusesFlags(t *testing.T) {
	url := "--url=http://127.0.0.1:1"
	rows := []string{url, "--table=wallets", "--keys=1..64", `--body={"balance":{n}}`}
	parser, _ := newParser(t)
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"NothingNamed", []string{url}, "--table, --keys and --body, or --bucket and --prefix"},
		{"NoBody", rows[:3], "--table, --keys and --body"},
		{"NoPrefix", []string{url, "--bucket=reports"}, "--prefix, below which"},
		{"PrefixOfNothing", []string{"--prefix=x/"}, "--prefix goes with --bucket"},
		{"Both", append(rows, "--bucket=reports", "--prefix=x/"), "one of the two"},
		{"SlashInBucket", []string{url, "--bucket=a/b", "--prefix=x/"}, "the name of a bucket alone"},
		{"TableOfThePrivateGateway", []string{"--table=wallets"}, "--table goes with --url"},
		{"KeysOfThePrivateGateway", []string{"--keys=2..100"}, "--keys is 1..N without --url"},
		{"PIDOfThePrivateGateway", []string{"--pid=1"}, "--pid goes with --url"},
		{"CredentialsInTheURL", append(rows[1:], "--url=http://user:hunter2@127.0.0.1:1"), "--url is not of the form"},
		{"FewKeys", append(rows, "--keys=1..63"), "names 63 rows, and each of 64 clients"},
		{"ManyKeys", append(rows, "--keys=1..10001"), "more than 10000 rows"},
		{"WideKeys", append(rows, "--keys=-9223372036854775808..9223372036854775807"), "more than 10000 rows"},
		{"BackwardKeys", append(rows, "--keys=2..1"), "FROM not above TO"},
		{"KeyTwice", append(rows, "--clients=1", "--keys=7 8 7"), "names 7 twice"},
		{"KeyWithSlash", append(rows, "--clients=1", "--keys=a/b"), "a/b is no key"},
		{"BadEscape", append(rows, "--clients=1", "--keys=%zz"), "%zz is no key"},
		{"BadTable", append(rows, "--table=a..b"), "--table: "},
		{"BodyOfNothing", append(rows, "--body={}"), "--body is a JSON object"},
		{"BodyOfAnArray", append(rows, "--body=[{n}]"), "--body is a JSON object"},
		{"Clients", append(rows, "--clients=0"), "--clients is 1 to 1000"},
		{"Duration", append(rows, "--duration=11m"), "--duration is at most 10m"},
		{"Warmup", append(rows, "--warmup=-1s"), "--warmup is 0"},
		{"Requests", append(rows, "--requests=-1"), "--requests is not negative"},
		{"Refused", append(rows, "--refused=1.1"), "--refused is a share"},
		{"RefusedNaN", append(rows, "--refused=NaN"), "--refused is a share"},
		{"Size", []string{"--bucket=x", "--size=67108865"}, "--size is 1 to 67108864"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := parser.Parse(append([]string{"bench"}, c.args...)); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
	if code, out, errs := command(t, "bench", url); code != 80 || out != "" || !strings.Contains(errs, "--table") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if _, err := parser.Parse(append([]string{"bench"}, rows...)); err != nil {
		t.Errorf("what is good is refused: %v", err)
	}
	for name, c := range map[string]struct {
		flag, says string
	}{
		"NoFolder": {"--json=" + filepath.Join(t.TempDir(), "none", "x.json"), "--json: "},
		"AFolder":  {"--svg=" + t.TempDir(), "--svg: "},
		"NoPID":    {"--pid=-1", "--pid: "},
		"Nobody":   {"--warmup=0s", "the gateway does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, out, errs := command(t, append([]string{"bench", c.flag}, rows...)...); code != 1 || !strings.Contains(errs, c.says) {
				t.Errorf("exit %d, no %q in:\n%s%s", code, c.says, out, errs)
			}
		})
	}
}

// benched is a gateway on a Memory with rows t/1 to t/4, whose answers a test may change.
type benched struct {
	*leaseGateway
	url    string
	writes atomic.Int64 // requests that change something, leases aside
}

func startBenched(t *testing.T, change func(w http.ResponseWriter, r *http.Request, n int64) (done bool)) *benched {
	g := &benched{leaseGateway: startLeaseGateway(t)}
	for key := range 4 {
		g.addRow(fmt.Sprint(key + 1))
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && !strings.HasPrefix(r.URL.Path, "/v1/leases/") {
			if n := g.writes.Add(1); change != nil && change(w, r, n) {
				return
			}
		}
		g.server.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	g.url = s.URL
	return g
}

// addRow makes a row and gives its lease back.
func (g *benched) addRow(key string) {
	g.t.Helper()
	h, err := g.Acquire(g.t.Context(), lease.Request{Name: "t:" + key, Principal: "p"})
	if err != nil {
		g.t.Fatal(err)
	}
	w := fence.RowWrite{Op: fence.OpPut, Row: fence.RowName{Table: "public.t", Key: []string{key}}, Body: []byte(`{"a":0}`), Access: fence.Access{Token: h.First(), Principal: "p"}}
	if _, err := g.WriteRow(g.t.Context(), w); err != nil {
		g.t.Fatal(err)
	}
	if err := g.Release(g.t.Context(), lease.Ref{Name: "t:" + key, Principal: "p", ID: h.ID}); err != nil {
		g.t.Fatal(err)
	}
}

// bench measures; 2 clients write 4 rows unless flags say otherwise.
func (g *benched) bench(flags ...string) (code int, out, errs string) {
	g.t.Helper()
	args := []string{"bench", "--url=" + g.url, "--clients=2", "--warmup=0s", "--duration=1m", "--requests=200"}
	if !strings.Contains(strings.Join(flags, " "), "--bucket") {
		args = append(args, "--table=t", "--keys=1..4", `--body={"a":{n}}`)
	}
	return command(g.t, append(args, flags...)...)
}

// allReleased demands that nobody holds a lease.
func (g *benched) allReleased() {
	g.t.Helper()
	page, err := g.List(g.t.Context(), lease.Listing{Limit: 10})
	if err != nil || len(page.Leases) != 0 {
		g.t.Errorf("%v, still held: %v", err, page.Leases)
	}
}

func TestBenchCounts(t *testing.T) {
	g := startBenched(t, nil)
	file := filepath.Join(t.TempDir(), "result.json")
	code, out, errs := g.bench("--refused=0.25", "--json="+file)
	if code != 0 || !strings.Contains(errs, "writes 4 rows of table public.t through "+g.url+": they keep what is written last") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	var r benchReport
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &r) != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if r.Accepted+r.Refused != 200 || r.Refused < 48 || r.Refused > 51 || r.Failed != 0 || len(r.Surprises) != 0 || r.Latency.P50 <= 0 || g.writes.Load() != 200 {
		t.Errorf("%d writes: %+v", g.writes.Load(), r)
	}
	g.allReleased()
}

func TestBenchObjects(t *testing.T) {
	g := startBenched(t, nil)
	code, out, errs := g.bench("--bucket=reports", "--prefix=a b/", "--size=100")
	if code != 0 || !strings.Contains(errs, "writes 2 objects of 100 bytes, reports/a b/fencegate-bench-*") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	for i := range 2 {
		o := fence.ObjectName{Bucket: "reports", Key: fmt.Sprintf("a b/fencegate-bench-%04d", i+1)}
		s, err := g.ObjectMark(t.Context(), o)
		if _, gone := g.Object(t.Context(), o, fence.Access{}); err != nil || s.Mark == 0 || fence.CodeOf(gone) != fence.CodeNotFound {
			t.Errorf("%v: mark %d (%v), %v", o, s.Mark, err, gone)
		}
	}
	g.allReleased()
}

// What should not be is told, and makes the exit code 1.
func TestBenchSeesWhatShouldNotBe(t *testing.T) {
	accept := func(w http.ResponseWriter, r *http.Request, _ int64) bool {
		stale := r.Header.Get("X-Fence-Token") == "1"
		if stale {
			w.WriteHeader(http.StatusNoContent)
		}
		return stale
	}
	refuse := func(code string) func(w http.ResponseWriter, r *http.Request, n int64) bool {
		return func(w http.ResponseWriter, _ *http.Request, n int64) bool {
			if n%8 == 0 {
				w.WriteHeader(http.StatusPreconditionFailed)
				fmt.Fprintf(w, `{"code":%q,"detail":"no"}`, code)
			}
			return n%8 == 0
		}
	}
	for _, c := range []struct {
		name, refused string
		change        func(http.ResponseWriter, *http.Request, int64) bool
		says          string
	}{
		{"StaleIsAccepted", "0.5", accept, "accepted, and should have been refused: rows/public.t/"},
		{"GoodIsRefused", "0", refuse("spent-token"), "refused, and should have been accepted: write rows/public.t/"},
		{"GoodIsRefusedAsStale", "0", refuse("stale-token"), "refused, and should have been accepted: "},
		{"StaleIsRefusedAsAnother", "1", refuse("grant-ended"), "refused, and should have been as stale-token: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := startBenched(t, c.change)
			if code, out, errs := g.bench("--refused="+c.refused, "--requests=60"); code != 1 || !strings.Contains(errs, c.says) || !strings.Contains(errs, "more answers that should not be") {
				t.Errorf("exit %d, no %q in:\n%s%s", code, c.says, out, errs)
			}
			g.allReleased()
		})
	}
}

// Failures that say nothing about fencing are told and are no reason for another exit code, unless nothing else comes.
func TestBenchTellsFailures(t *testing.T) {
	overloaded := func(every int64) func(w http.ResponseWriter, _ *http.Request, n int64) bool {
		return func(w http.ResponseWriter, _ *http.Request, n int64) bool {
			if n%every == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprint(w, `{"code":"overloaded","detail":"later"}`)
			}
			return n%every == 0
		}
	}
	g := startBenched(t, overloaded(100))
	if code, out, errs := g.bench(); code != 0 || !strings.Contains(errs, "2 writes failed, the first one: write rows/public.t/") || !strings.Contains(errs, "overloaded (503): later") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	g = startBenched(t, overloaded(1))
	if code, out, errs := g.bench(); code != 1 || out != "" || !strings.Contains(errs, "every operation failed: write rows/public.t/") || g.writes.Load() > 50 {
		t.Errorf("exit %d after %d writes: %s%s", code, g.writes.Load(), out, errs)
	}
	g.allReleased()
}

// Nothing is written when not all of it can be.
func TestBenchNeedsAllOfIt(t *testing.T) {
	g := startBenched(t, nil)
	g.hold("t:3", "worker a")
	if code, out, errs := g.bench(); code != 1 || !strings.Contains(errs, "acquire the lease t:3: ") || !strings.Contains(errs, "worker a") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if code, out, errs := g.bench("--keys=1..5"); code != 1 || !strings.Contains(errs, "rows/public.t/5: not-found (404)") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if code, out, errs := g.bench("--auth=nobody"); code != 1 || !strings.Contains(errs, "forbidden") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if page, err := g.List(t.Context(), lease.Listing{Limit: 10}); err != nil || len(page.Leases) != 1 || page.Leases[0].Holder != "worker a" || g.writes.Load() != 0 {
		t.Errorf("%v, held: %v, %d writes", err, page.Leases, g.writes.Load())
	}
}

// Who has seen enough is told what there is, and the leases are given back.
func TestBenchIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g := startBenched(t, func(_ http.ResponseWriter, _ *http.Request, n int64) bool {
		if n == 50 {
			cancel()
		}
		return false
	})
	var out, errs bytes.Buffer
	args := []string{"bench", "--url=" + g.url, "--clients=2", "--warmup=0s", "--duration=1m", "--bucket=reports", "--prefix=b/"}
	if code := run(ctx, args, streams{strings.NewReader(""), &out, &errs}); code != 0 || !strings.Contains(out.String(), ", ended early\n") {
		t.Errorf("exit %d: %s%s", code, &out, &errs)
	}
	if _, err := g.Object(t.Context(), fence.ObjectName{Bucket: "reports", Key: "b/fencegate-bench-0001"}, fence.Access{}); fence.CodeOf(err) != fence.CodeNotFound {
		t.Errorf("the object is left: %v", err)
	}
	g.allReleased()
}
