package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A private gateway is started, measured and gone afterwards; what it costs is told apart from what the clients cost.
func TestBenchPrivate(t *testing.T) {
	t.Setenv(asProgram, "yes")
	folder, results := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", folder)
	file, drawing := filepath.Join(results, "r.json"), filepath.Join(results, "r.svg")
	code, out, errs := command(t, "bench", "--clients=4", "--keys=1..8", "--warmup=100ms", "--duration=1m", "--requests=200", "--refused=0.1", "--json="+file, "--svg="+drawing)
	if code != 0 || !strings.Contains(out, "8 rows of table public.bench, 4 clients, ") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	var r benchReport
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &r) != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if r.Accepted+r.Refused+r.Failed != 200 || r.Failed != 0 || r.Refused < 16 || r.Refused > 24 || r.URL != "" {
		t.Errorf("%+v", r)
	}
	var what []string
	for _, c := range r.CPU {
		what = append(what, c.What)
	}
	if us, _ := r.cpu(); runtime.GOOS == "linux" && (fmt.Sprint(what) != "[gateway PostgreSQL and Redis clients]" || us < 20 || us > 1e5 || r.CPU[0].Micros >= us) {
		t.Errorf("CPU of %v: %v µs", what, us)
	}
	if svg, err := os.ReadFile(drawing); err != nil || !strings.HasSuffix(string(svg), "</svg>\n") {
		t.Errorf("%v: %.100s", err, svg)
	}
	if left, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(left) != 0 {
		t.Errorf("%v, left behind: %v", err, left)
	}
}

// A real deployment is left as it was, but for what was named.
func TestBenchDeployment(t *testing.T) {
	s := startServing(t)
	for id := range 4 {
		token, lease := s.acquire(fmt.Sprintf("wallet:%d", id+1))
		s.want(http.StatusCreated, "PUT", fmt.Sprintf("/v1/rows/wallets/%d", id+1), `{"balance":-1}`, "X-Fence-Token: "+token.String())
		s.want(http.StatusNoContent, "DELETE", fmt.Sprintf("/v1/leases/wallet:%d", id+1), "", "X-Lease-Id: "+lease)
	}
	few := []string{"--url=" + s.url, "--clients=2", "--warmup=0s", "--duration=1m", "--requests=60"}
	with := func(more ...string) []string { return slices.Concat(few, more) }
	rows := func(more ...string) []string {
		return slices.Concat(few, []string{"--table=wallets", `--body={"balance":{n}}`}, more)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		says string // a pattern
	}{
		{"SameRowTwice", rows("--keys=1 %31"), 1, "rows/public.wallets/1 and rows/public.wallets/%31 are the same row"},
		{"NoSuchColumn", rows("--keys=1..4", `--body={"nope":{n}}`), 1, "every operation failed: write rows/public.wallets/.* has no column"},
		{"Objects", with("--bucket="+s.bucket, "--prefix=bench/", "--size=100"), 0, `accepted +60\n`},
		{"Rows", rows("--keys=1..4", "--refused=0.5", fmt.Sprintf("--pid=%d", os.Getpid())), 0, `refused +(29|30|31)\n`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := s.want(http.StatusOK, "GET", "/v1/rows/wallets/1", "")
			code, out, errs := command(t, append([]string{"bench"}, c.args...)...)
			if code != c.code || !regexp.MustCompile(c.says).MatchString(out+errs) {
				t.Errorf("exit %d, want %d, and %q in:\n%s%s", code, c.code, c.says, out, errs)
			}
			if told := fmt.Sprintf("process %d", os.Getpid()); c.name == "Rows" && runtime.GOOS == "linux" && !strings.Contains(out, told) {
				t.Errorf("nothing is told of %s: %s", told, out)
			}
			if after := s.want(http.StatusOK, "GET", "/v1/rows/wallets/1", ""); (before != after) != (c.name == "Rows") {
				t.Errorf("the row was %s and is %s", before, after)
			}
			if held := s.want(http.StatusOK, "GET", "/v1/leases", ""); !strings.Contains(held, `"leases":[]`) {
				t.Errorf("held: %s", held)
			}
		})
	}
	if row := s.want(http.StatusOK, "GET", "/v1/rows/wallets/42", ""); !strings.Contains(row, `"balance":100`) {
		t.Errorf("a row that nobody named is %s", row)
	}
	if objects := s.want(http.StatusOK, "GET", "/v1/objects/"+s.bucket, ""); strings.Contains(objects, "fencegate-bench") {
		t.Errorf("objects are left: %s", objects)
	}
}
