package gateway

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// codes are all codes that package fence declares.
func codes(t *testing.T) []fence.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../fence/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []fence.Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		s, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fence.Code(s))
		return true
	})
	return all
}

func TestEveryCodeHasItsStatus(t *testing.T) {
	want := map[fence.Code]int{
		"stale-token": 412, "spent-token": 412, "grant-ended": 412, "precondition-failed": 412,
		"unissued-token": 403, "foreign-token": 403, "forbidden": 403, "unauthenticated": 401, "token-required": 428,
		"invalid-token": 400, "invalid-request": 400, "checksum-mismatch": 400,
		"lease-held": 409, "lease-lost": 409, "constraint-violation": 409, "write-suppressed": 409, "upload-expired": 409,
		"not-found": 404, "method-not-allowed": 405, "too-large": 413, "unsupported-media-type": 415,
		"range-not-satisfiable": 416, "rate-limited": 429, "contention": 503, "overloaded": 503,
		"outcome-unknown": 503, "unavailable": 503, "store-unavailable": 502, "internal": 500,
	}
	all := codes(t)
	if len(all) != len(want)+2 {
		t.Fatalf("fence declares %d codes, the table has %d and two are no refusals", len(all), len(want))
	}
	for _, c := range all {
		if c == fence.CodeAccepted || c == fence.CodeReplayed {
			continue
		}
		if out := outcomes[c]; out.status != want[c] || out.title == "" {
			t.Errorf("%s: %+v, want %d", c, out, want[c])
		}
	}
}

func TestRetryAfterRoundsUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 1, -time.Second: 1, time.Millisecond: 1, time.Second: 1, 1001 * time.Millisecond: 2, 29500 * time.Millisecond: 30,
	} {
		if got := retryAfter(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}

func TestEscapeName(t *testing.T) {
	if got := escapeName("wallet:4 2/€~-._"); got != "wallet%3A4%202%2F%E2%82%AC~-._" {
		t.Fatal(got)
	}
}
