package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/gateway"
)

// A commit that is malformed is 400 with the field and the write, and nothing reaches the backend.
func TestCommitIsReadStrictly(t *testing.T) {
	one := func(write string) string { return `{"writes":[` + write + `]}` }
	good := `{"op":"patch","resource":"rows/public.wallets/42","token":1000,"body":{"balance":9}}`
	for _, c := range []struct {
		name, body, field string
		write             string // of the problem, empty if none
		status            int
	}{
		{"NoBody", "", "writes", "", 400},
		{"NoWrites", `{"writes":[]}`, "writes", "", 400},
		{"NotAList", `{"writes":{}}`, "writes", "", 400},
		{"TooMany", one(strings.Repeat(good+",", 1000) + good), "writes", "", 400},
		{"UnknownMember", one(`{"op":"delete","resource":"rows/t/1","token":1,"if":"1"}`), "writes", "0", 400},
		{"Null", one("null"), "writes", "0", 400},
		{"MemberInCapitals", one(`{"op":"delete","Resource":"rows/t/1","token":1}`), "writes", "0", 400},
		{"TokenIsText", one(`{"op":"delete","resource":"rows/t/1","token":"1000"}`), "writes", "0", 400},
		{"TokenIsNull", one(`{"op":"delete","resource":"rows/t/1","token":null}`), "writes", "0", 400},
		{"TokenIsAFraction", one(`{"op":"delete","resource":"rows/t/1","token":1.5}`), "", "0", 400},
		{"TokenIsNothing", one(`{"op":"delete","resource":"rows/t/1","token":0}`), "", "0", 400},
		{"NoToken", one(good + `,{"op":"delete","resource":"rows/t/1"}`), "", "1", 428},
		{"NoResource", one(`{"op":"delete","token":1}`), "resource", "0", 400},
		{"NoKey", one(`{"op":"delete","resource":"rows/t","token":1}`), "resource", "0", 400},
		{"SlashInKey", one(`{"op":"delete","resource":"rows/t/1/2","token":1}`), "resource", "0", 400},
		{"Escape", one(`{"op":"delete","resource":"rows/t/%zz","token":1}`), "key", "0", 400},
		{"OtherOp", one(`{"op":"post","resource":"rows/t/1","token":1,"body":{"a":1}}`), "op", "0", 400},
		{"InsertNamesTheKey", one(`{"op":"insert","resource":"rows/t/1","token":1,"body":{"a":1}}`), "op", "0", 400},
		{"NoRow", one(`{"op":"patch","resource":"rows/t/1","token":1}`), "body", "0", 400},
		{"EmptyRow", one(`{"op":"patch","resource":"rows/t/1","token":1,"body":{}}`), "body", "0", 400},
		{"RowIsAList", one(`{"op":"patch","resource":"rows/t/1","token":1,"body":[]}`), "body", "0", 400},
		{"DeleteWithBody", one(`{"op":"delete","resource":"rows/t/1","token":1,"body":{"a":1}}`), "body", "0", 400},
		{"RowWithBlob", one(`{"op":"put","resource":"rows/t/1","token":1,"blob":"x"}`), "blob", "0", 400},
		{"ObjectWithBody", one(`{"op":"put","resource":"objects/b/k","token":1,"body":{}}`), "body", "0", 400},
		{"ObjectWithoutBlob", one(`{"op":"put","resource":"objects/b/k","token":1}`), "blob", "0", 400},
		{"ObjectPatch", one(`{"op":"patch","resource":"objects/b/k","token":1,"blob":"x"}`), "op", "0", 400},
		{"CopyWithoutSource", one(`{"op":"copy","resource":"objects/b/k","token":1}`), "from", "0", 400},
		{"CopyOfARow", one(`{"op":"copy","resource":"objects/b/k","token":1,"from":"rows/t/1"}`), "from", "0", 400},
		{"CopyWithBlob", one(`{"op":"copy","resource":"objects/b/k","token":1,"from":"objects/b/l","blob":"x"}`), "blob", "0", 400},
		{"CopyOfNoVersion", one(`{"op":"copy","resource":"objects/b/k","token":1,"from":"objects/b/l","version":-1}`), "version", "0", 400},
		{"VersionInQuotes", one(`{"op":"copy","resource":"objects/b/k","token":1,"from":"objects/b/l","version":"7"}`), "writes", "0", 400},
		{"PutWithSource", one(`{"op":"put","resource":"objects/b/k","token":1,"blob":"x","from":"objects/b/l"}`), "from", "0", 400},
		{"RowWithSource", one(`{"op":"put","resource":"rows/t/1","token":1,"body":{"a":1},"from":"rows/t/2"}`), "from", "0", 400},
		{"ObjectWithoutKey", one(`{"op":"delete","resource":"objects/b/","token":1}`), "key", "0", 400},
		{"BadCondition", one(`{"op":"delete","resource":"rows/t/1","token":1,"if_match":"1000"}`), "If-Match", "0", 400},
		{"SameRow", one(good + "," + strings.Replace(good, "public.", "", 1)), "resource", "1", 400},
		{"SameBlob", one(`{"op":"put","resource":"objects/b/k","token":1,"blob":"x"},{"op":"put","resource":"objects/b/l","token":1,"blob":"x"}`), "blob", "1", 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := serve(t, nil)
			a.do("POST", "/v1/leases/wallets:42", "")
			got := a.do("POST", "/v1/commit", c.body)
			want := fmt.Sprintf(`"write":%s,`, c.write)
			if got.StatusCode != c.status || c.field != "" && !strings.Contains(got.text, fmt.Sprintf(`"field":%q`, c.field)) ||
				c.write != "" && !strings.Contains(got.text, want) || c.write == "" && strings.Contains(got.text, `"write"`) {
				t.Errorf("%d %s", got.StatusCode, got.text)
			}
			if mark := a.do("GET", "/v1/marks/rows/wallets/42", ""); mark.Header.Get("X-Fence-Token") != "0" {
				t.Error("something was written")
			}
		})
	}
}

// A write without a token learns which lease to acquire.
func TestCommitWithoutATokenTellsTheLease(t *testing.T) {
	a := serve(t, nil)
	for resource, lease := range map[string]string{"rows/public.wallets/42": "wallets%3A42", "objects/reports/a": "report%3Aa"} {
		got := a.do("POST", "/v1/commit", fmt.Sprintf(`{"writes":[{"op":"delete","resource":%q}]}`, resource))
		if got.StatusCode != 428 || got.Header.Get("X-Fence-Lease") != lease || got.Header.Get("X-Fence-Token") != "0" {
			t.Errorf("%s: %d %v", resource, got.StatusCode, got.Header)
		}
	}
}

// Each write of a commit is authorised by itself, and a refusal tells nothing but which one it is.
func TestCommitIsAuthorisedByWrite(t *testing.T) {
	a := serve(t, func(c *gateway.Config) {
		c.Authenticate = func(*http.Request) (gateway.Caller, error) {
			return caller{name: "worker-a", may: func(a gateway.Action) bool {
				return a.Lease != "" || a.Table == "wallets" || a.Bucket == "reports" && a.Key == "a"
			}}, nil
		}
	})
	a.do("POST", "/v1/leases/wallets:42", "")
	row := `{"op":"put","resource":"rows/wallets/42","token":1000,"body":{"n":1}}`
	for _, other := range []string{
		`{"op":"put","resource":"rows/secrets/1","token":1000,"body":{"n":1}}`,
		`{"op":"delete","resource":"objects/reports/b","token":1000}`,
		`{"op":"delete","resource":"objects/other/a","token":1000}`,
	} {
		got := a.do("POST", "/v1/commit", `{"writes":[`+row+`,`+other+`]}`)
		if got.StatusCode != 403 || !strings.Contains(got.text, `"write":1,`) || got.Header.Get("X-Fence-Token") != "" {
			t.Errorf("%s: %d %s", other, got.StatusCode, got.text)
		}
	}
	if got := a.do("POST", "/v1/commit", `{"writes":[`+row+`]}`); got.StatusCode != 200 {
		t.Errorf("%d %s", got.StatusCode, got.text)
	}
	for path, want := range map[string]int{"/v1/uploads/reports": 403, "/v1/uploads/reports?key=a": 201, "/v1/uploads/reports?key=b": 403, "/v1/uploads/other?key=a": 403} {
		if got := a.do("POST", path, "x"); got.StatusCode != want {
			t.Errorf("POST %s: %d %s", path, got.StatusCode, got.text)
		}
	}
}
