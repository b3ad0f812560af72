package gateway_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the transcripts in testdata anew")

// step is one request of a transcript.
type step struct {
	about, method, path, body string
	headers                   []string
}

var transcripts = map[string][]step{
	"lease": {
		{"acquire", "POST", "/v1/leases/wallets%3A42", `{"ttl":"30s","holder":"worker-a"}`, nil},
		{"somebody else asks", "POST", "/v1/leases/wallets%3A42", "", []string{"X-User: worker-b"}},
		{"inspect", "GET", "/v1/leases/wallets%3A42", "", nil},
		{"renew", "PUT", "/v1/leases/wallets%3A42", `{"ttl":"1m"}`, []string{"X-Lease-Id: id-1000"}},
		{"more tokens", "POST", "/v1/leases/wallets%3A42/tokens", "", []string{"X-Lease-Id: id-1000"}},
		{"verify", "POST", "/v1/leases/wallets%3A42/verify", `{"token":1001}`, nil},
		{"release", "DELETE", "/v1/leases/wallets%3A42", "", []string{"X-Lease-Id: id-1000"}},
		{"verify after the release", "POST", "/v1/leases/wallets%3A42/verify", `{"token":1001}`, nil},
		{"nobody holds it", "GET", "/v1/leases/wallets%3A42", "", nil},
		{"a TTL of nothing", "POST", "/v1/leases/wallets%3A42", `{"ttl":"0s"}`, nil},
		{"acquire again", "POST", "/v1/leases/wallets%3A42", "", nil},
		{"acquire another", "POST", "/v1/leases/report%3Aa", `{"holder":"nightly"}`, nil},
		{"list", "GET", "/v1/leases?limit=1", "", nil},
		{"the next page", "GET", "/v1/leases?limit=1&after=report%3Aa", "", nil},
		{"a parameter that there is not", "GET", "/v1/leases?offset=1", "", nil},
		{"break", "POST", "/v1/leases/wallets%3A42/break", `{"reason":"stuck"}`, []string{"X-User: operator"}},
		{"renew after the break", "PUT", "/v1/leases/wallets%3A42", "", []string{"X-Lease-Id: id-3000"}},
		{"verify after the break", "POST", "/v1/leases/wallets%3A42/verify", `{"token":3000}`, nil},
	},
	"row": {
		{"acquire", "POST", "/v1/leases/wallets%3A42", "", nil},
		{"insert", "PUT", "/v1/rows/wallets/42", `{"owner":"ann","balance":10.50}`, []string{"X-Fence-Token: 1000", "If-None-Match: *"}},
		{"the reply was lost", "PUT", "/v1/rows/wallets/42", `{"owner":"ann","balance":10.50}`, []string{"X-Fence-Token: 1000", "If-None-Match: *"}},
		{"read", "GET", "/v1/rows/wallets/42", "", nil},
		{"change", "PATCH", "/v1/rows/wallets/42", `{"balance":9.50}`, []string{"X-Fence-Token: 1001", `If-Match: "1000"`}},
		{"an older token", "PATCH", "/v1/rows/wallets/42", `{"balance":0}`, []string{"X-Fence-Token: 1000"}},
		{"a spent token", "PATCH", "/v1/rows/wallets/42", `{"balance":0}`, []string{"X-Fence-Token: 1001"}},
		{"a token that nobody was given", "PATCH", "/v1/rows/wallets/42", `{"balance":0}`, []string{"X-Fence-Token: 999999999999999"}},
		{"another caller's token", "PATCH", "/v1/rows/wallets/42", `{"balance":0}`, []string{"X-Fence-Token: 1002", "X-User: eve"}},
		{"no token", "PATCH", "/v1/rows/wallets/42", `{"balance":0}`, nil},
		{"no JSON", "PATCH", "/v1/rows/wallets/42", "balance=0", []string{"X-Fence-Token: 1002", "Content-Type: application/x-www-form-urlencoded"}},
		{"a name twice", "PATCH", "/v1/rows/wallets/42", `{"balance":0,"balance":1}`, []string{"X-Fence-Token: 1002"}},
		{"no body wanted", "PATCH", "/v1/rows/wallets/42", `{"balance":8}`, []string{"X-Fence-Token: 1002", "Prefer: return=minimal"}},
		{"delete", "DELETE", "/v1/rows/wallets/42", "", []string{"X-Fence-Token: 1003"}},
		{"the mark stays", "GET", "/v1/marks/rows/wallets/42", "", nil},
		{"gone", "GET", "/v1/rows/wallets/42", "", nil},
		{"wrong method", "POST", "/v1/rows/wallets/42", "{}", nil},
		{"wrong path", "GET", "/v1/wallets/42", "", nil},
	},
	"insert": {
		{"acquire", "POST", "/v1/leases/payments", "", nil},
		{"insert", "POST", "/v1/rows/payments", `{"amount":10.50}`, []string{"X-Fence-Token: 1000"}},
		{"the reply was lost", "POST", "/v1/rows/payments", `{"amount":10.50}`, []string{"X-Fence-Token: 1000"}},
		{"the next one, no body wanted", "POST", "/v1/rows/payments", `{"amount":1}`, []string{"X-Fence-Token: 1001", "Prefer: return=minimal"}},
		{"an older token", "POST", "/v1/rows/payments", `{"amount":2}`, []string{"X-Fence-Token: 1000"}},
		{"a row that exists", "POST", "/v1/rows/payments", `{"amount":2}`, []string{"X-Fence-Token: 1002", "If-Match: *"}},
	},
	"objects": {
		{"acquire", "POST", "/v1/leases/report%3Ashared", "", nil},
		{"put", "PUT", "/v1/objects/reports/shared/a.csv", "one", []string{"X-Fence-Token: 1000", "Content-Type: text/csv"}},
		{"replace", "PUT", "/v1/objects/reports/shared/a.csv", "two", []string{"X-Fence-Token: 1001", "Content-Type: text/csv"}},
		{"history", "GET", "/v1/versions/reports/shared/a.csv", "", nil},
		{"history, the next page", "GET", "/v1/versions/reports/shared/a.csv?limit=1&before=1001", "", nil},
		{"a version", "GET", "/v1/objects/reports/shared/a.csv?token=1000", "", nil},
		{"no such version", "GET", "/v1/objects/reports/shared/a.csv?token=7", "", nil},
		{"restore", "POST", "/v1/objects/reports/shared/a.csv", `{"restore":1000}`, []string{"X-Fence-Token: 1002"}},
		{"the reply was lost", "POST", "/v1/objects/reports/shared/a.csv", `{"restore":1000}`, []string{"X-Fence-Token: 1002"}},
		{"copy", "POST", "/v1/objects/reports/shared/b.csv", `{"copy":"objects/reports/shared/a.csv","version":1001,"header":{"content_type":"text/plain"}}`, []string{"X-Fence-Token: 1000"}},
		{"rename", "POST", "/v1/objects/reports/shared/x/c.csv", `{"rename":"objects/reports/shared/b.csv"}`, []string{"X-Fence-Token: 1001"}},
		{"renamed", "GET", "/v1/objects/reports/shared/x/c.csv", "", nil},
		{"nothing to copy", "POST", "/v1/objects/reports/shared/d.csv", `{"copy":"objects/reports/shared/b.csv"}`, []string{"X-Fence-Token: 1000"}},
		{"another lease", "POST", "/v1/objects/reports/elsewhere", `{"rename":"objects/reports/shared/a.csv"}`, []string{"X-Fence-Token: 1003"}},
		{"copy and rename", "POST", "/v1/objects/reports/shared/d.csv", `{"copy":"objects/reports/a","rename":"objects/reports/a"}`, []string{"X-Fence-Token: 1003"}},
		{"no token", "POST", "/v1/objects/reports/shared/d.csv", `{"copy":"objects/reports/shared/a.csv"}`, nil},
		{"redirected", "GET", "/v1/objects/reports/shared/a.csv", "", []string{"Prefer: redirect"}},
		{"a direct upload", "POST", "/v1/uploads/reports?presign", `{"size":3,"sha256":"7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed","header":{"content_type":"text/csv"}}`, nil},
		{"a direct upload of any size", "POST", "/v1/uploads/reports?presign", `{"sha256":"7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"}`, nil},
		{"a direct upload of anything", "POST", "/v1/uploads/reports?presign&key=a", `{"size":3}`, nil},
		{"list", "GET", "/v1/objects/reports?prefix=shared/&delimiter=/&limit=1", "", nil},
		{"the next page", "GET", "/v1/objects/reports?prefix=shared/&delimiter=/&limit=1&after=shared/a.csv", "", nil},
		{"a parameter that there is not", "GET", "/v1/objects/reports?marker=a", "", nil},
	},
	"commit": {
		{"acquire", "POST", "/v1/leases/wallets%3A42", "", nil},
		{"acquire the other", "POST", "/v1/leases/wallets%3A43", "", nil},
		{"acquire the report's", "POST", "/v1/leases/report%3Aa.csv", "", nil},
		{"store a body", "POST", "/v1/uploads/reports", "day,sum\n", []string{"Content-Type: text/csv"}},
		{"commit", "POST", "/v1/commit", `{"writes":[{"op":"put","resource":"rows/public.wallets/42","token":1000,"body":{"balance":10.50}},` +
			`{"op":"put","resource":"rows/wallets/43","token":2000,"if_none_match":"*","body":{"balance":0}},{"op":"put","resource":"objects/reports/a.csv","blob":"upload-1"}]}`, []string{"X-Fence-Token: 3000"}},
		{"the reply was lost", "POST", "/v1/commit", `{"writes":[{"op":"put","resource":"rows/public.wallets/42","token":1000,"body":{"balance":10.50}},` +
			`{"op":"put","resource":"rows/wallets/43","token":2000,"if_none_match":"*","body":{"balance":0}},{"op":"put","resource":"objects/reports/a.csv","blob":"upload-1"}]}`, []string{"X-Fence-Token: 3000"}},
		{"one of the tokens is old", "POST", "/v1/commit", `{"writes":[{"op":"patch","resource":"rows/public.wallets/42","token":1001,"body":{"balance":9}},` +
			`{"op":"patch","resource":"rows/public.wallets/43","token":1999,"body":{"balance":1}}]}`, nil},
		{"no rows wanted", "POST", "/v1/commit", `{"writes":[{"op":"patch","resource":"rows/public.wallets/42","token":1001,"body":{"balance":9}},` +
			`{"op":"delete","resource":"objects/reports/a.csv","token":3001}]}`, []string{"Prefer: return=minimal"}},
		{"no token", "POST", "/v1/commit", `{"writes":[{"op":"delete","resource":"rows/public.wallets/42"}]}`, nil},
	},
	"rows": {
		{"acquire", "POST", "/v1/leases/wallets%3A1", "", nil},
		{"insert", "PUT", "/v1/rows/wallets/1", `{"owner":"ann","balance":10.50}`, []string{"X-Fence-Token: 1000"}},
		{"acquire the next", "POST", "/v1/leases/wallets%3A2", "", nil},
		{"insert the next", "PUT", "/v1/rows/wallets/2", `{"owner":"bob, the builder","balance":9007199254740993}`, []string{"X-Fence-Token: 2000"}},
		{"all rows", "GET", "/v1/rows/wallets", "", nil},
		{"a page, and how many there are", "GET", "/v1/rows/wallets?limit=1", "", []string{"Prefer: count=exact"}},
		{"the next page", "GET", "/v1/rows/wallets?limit=1&after=rows/public.wallets/1", "", nil},
		{"a filter", "GET", "/v1/rows/wallets?owner=eq.bob,%20the+builder", "", nil},
		{"no row passes", "GET", "/v1/rows/wallets?owner=eq.eve", "", nil},
		{"no filter", "GET", "/v1/rows/wallets?owner=bob", "", nil},
		{"a name that must be quoted", "GET", "/v1/rows/wallets?User%20Id=eq.1", "", nil},
		{"a list without its parentheses", "GET", "/v1/rows/wallets?owner=in.ann,bob", "", nil},
		{"a list takes no token", "GET", "/v1/rows/wallets", "", []string{"X-Fence-Token: 1001"}},
		{"a write of what passes a filter", "PATCH", "/v1/rows/wallets?owner=eq.ann", `{"balance":0}`, []string{"X-Fence-Token: 1001"}},
		{"a write of all rows", "DELETE", "/v1/rows/wallets", "", []string{"X-Fence-Token: 1001"}},
	},
	"object": {
		{"acquire", "POST", "/v1/leases/report%3A2026%2Fa.csv", "", nil},
		{"put", "PUT", "/v1/objects/reports/2026/a.csv", "day,sum\n1,10\n", []string{"X-Fence-Token: 1000", "Content-Type: text/csv", "X-Meta-Source: nightly"}},
		{"read", "GET", "/v1/objects/reports/2026/a.csv", "", nil},
		{"a part", "GET", "/v1/objects/reports/2026/a.csv", "", []string{"Range: bytes=0-6"}},
		{"beyond the end", "GET", "/v1/objects/reports/2026/a.csv", "", []string{"Range: bytes=100-"}},
		{"unchanged", "GET", "/v1/objects/reports/2026/a.csv", "", []string{`If-None-Match: "1000"`}},
		{"another checksum", "PUT", "/v1/objects/reports/2026/a.csv", "x", []string{"X-Fence-Token: 1001", "Content-MD5: AAAAAAAAAAAAAAAAAAAAAA=="}},
		{"replace", "PUT", "/v1/objects/reports/2026/a.csv", "day,sum\n", []string{"X-Fence-Token: 1001"}},
		{"an older token", "PUT", "/v1/objects/reports/2026/a.csv", "late", []string{"X-Fence-Token: 1000"}},
		{"delete", "DELETE", "/v1/objects/reports/2026/a.csv", "", []string{"X-Fence-Token: 1002"}},
		{"the mark stays", "GET", "/v1/marks/objects/reports/2026/a.csv", "", nil},
	},
}

var masks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?m)^(< X-Trace-Id: )[0-9a-f]{32}$`), "${1}TRACE"},
	{regexp.MustCompile(`("trace_id":")[0-9a-f]{32}"`), `${1}TRACE"`},
	{regexp.MustCompile(`(?m)^(< Date: ).*$`), "${1}DATE"},
}

func TestTranscripts(t *testing.T) {
	for name, steps := range transcripts {
		t.Run(name, func(t *testing.T) {
			a := serve(t, nil)
			var b strings.Builder
			for _, s := range steps {
				record(&b, s, a.do(s.method, s.path, s.body, s.headers...))
			}
			got := b.String()
			for _, m := range masks {
				got = m.what.ReplaceAllString(got, m.with)
			}
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Fatalf("%s differs (rewrite it with -update):\n%s", file, firstDifference(string(want), got))
			}
		})
	}
}

func record(b *strings.Builder, s step, got answer) {
	fmt.Fprintf(b, "# %s\n> %s %s\n", s.about, s.method, s.path)
	for _, h := range s.headers {
		fmt.Fprintf(b, "> %s\n", h)
	}
	lines(b, "> ", s.body)
	fmt.Fprintf(b, "< %s\n", got.Status)
	writeHeader(b, got.Header)
	lines(b, "< ", got.text)
	b.WriteString("\n")
}

func writeHeader(b *strings.Builder, h http.Header) {
	var names []string
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(b, "< %s: %s\n", name, strings.Join(h.Values(name), ", "))
	}
}

func lines(b *strings.Builder, prefix, text string) {
	if text == "" {
		return
	}
	fmt.Fprintf(b, "%s\n", strings.TrimSpace(prefix))
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		fmt.Fprintf(b, "%s%s\n", prefix, line)
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}
