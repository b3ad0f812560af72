package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/access"
)

// restricted serves callers by the rules of a file.
func restricted(t *testing.T, rules string) *api {
	t.Helper()
	policy, err := access.Parse([]byte("principals:\n  - name: ann\n    secret_sha256: \"" + strings.Repeat("0", 63) + "4\"\n    allow:\n" + rules))
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, func(cfg *gateway.Config) {
		all := cfg.Authenticate
		cfg.Authenticate = func(r *http.Request) (gateway.Caller, error) {
			if r.Header.Get("X-User") == "ann" {
				return policy.Lookup("ann"), nil
			}
			return all(r)
		}
	})
}

// Lists show what the caller may read, page by page, and groups below which it may read something.
func TestObjectsShowWhatTheCallerMayRead(t *testing.T) {
	a := restricted(t, `      - {buckets: ["reports/2026/05/*", "reports/b*"], verbs: [read]}
      - {buckets: [other], verbs: [write]}
`)
	for i, key := range []string{"2025/x", "2026/04/x", "2026/05/x", "2026/05/y", "a", "b", "ba", "c", "z/1"} {
		a.do("POST", "/v1/leases/report:"+strings.ReplaceAll(key, "/", "%2F"), "")
		a.want(201, "PUT", "/v1/objects/reports/"+key, "x", fmt.Sprintf("X-Fence-Token: %d000", i+1))
	}
	for _, c := range []struct{ query, want string }{
		{"", "2026/05/x 2026/05/y b ba"},
		{"?delimiter=/", "2026/ b ba"},
		{"?delimiter=/&prefix=2026/", "2026/05/"},
		{"?prefix=2026/05/", "2026/05/x 2026/05/y"},
		{"?prefix=2026/0", "2026/05/x 2026/05/y"},
	} {
		for _, limit := range []int{1, 100} {
			var got []string
			for after := ""; ; {
				path := "/v1/objects/reports" + c.query + map[bool]string{true: "?", false: "&"}[c.query == ""] + fmt.Sprintf("limit=%d", limit)
				if after != "" {
					path += "&after=" + after
				}
				var page struct {
					Objects []struct{ Key string }
					Groups  []string
					Next    string
				}
				if err := json.Unmarshal([]byte(a.want(200, "GET", path, "", "X-User: ann").text), &page); err != nil {
					t.Fatal(err)
				}
				keys := page.Groups
				for _, o := range page.Objects {
					keys = append(keys, o.Key)
				}
				slices.Sort(keys)
				got = append(got, keys...)
				if after = page.Next; after == "" {
					break
				}
				if !slices.Contains(got, after) {
					t.Errorf("%s goes on behind %s, which is not shown", path, after)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s by %d: %q, want %q", c.query, limit, got, c.want)
			}
		}
	}
	for _, path := range []string{"/v1/objects/reports?prefix=2025/", "/v1/objects/reports?prefix=c", "/v1/objects/other", "/v1/objects/none"} {
		a.refused(403, "forbidden", "GET", path, "", "X-User: ann")
	}
}

func TestObjectListIsReadStrictly(t *testing.T) {
	a := serve(t, nil)
	long := strings.Repeat("x", 1025)
	for _, query := range []string{"?limit=0", "?limit=1001", "?limit=x", "?prefix=" + long, "?after=" + long, "?delimiter=" + long, "?prefix=a&prefix=b", "?prefix=%ff", "?prefix=%00", "?marker=a"} {
		a.refused(400, "invalid-request", "GET", "/v1/objects/reports"+query, "")
	}
	a.refused(400, "invalid-request", "GET", "/v1/objects/reports", "", "X-Fence-Token: 1000")
	a.refused(400, "invalid-request", "GET", "/v1/objects/%ff", "")
	for _, query := range []string{"?limit=0", "?before=0", "?before=x", "?after=1"} {
		if got := a.do("GET", "/v1/versions/reports/a"+query, ""); got.StatusCode != 400 {
			t.Errorf("%s: %d %s", query, got.StatusCode, got.text)
		}
	}
	a.refused(400, "invalid-token", "GET", "/v1/objects/reports/a?token=00", "")
}

// To copy from an object takes the right to read it, to rename it that to write it, too.
func TestCopyNeedsRights(t *testing.T) {
	a := restricted(t, `      - {leases: ["*"], verbs: [lease]}
      - {buckets: ["reports/shared/w*"], verbs: [read, write]}
      - {buckets: ["reports/shared/r*"], verbs: [read]}
`)
	a.do("POST", "/v1/leases/report:shared", "")
	for _, key := range []string{"r", "w", "secret"} {
		a.want(201, "PUT", "/v1/objects/reports/shared/"+key, "x", "X-Fence-Token: 1000")
	}
	a.want(204, "DELETE", "/v1/leases/report:shared", "", "X-Lease-Id: id-1000")
	a.want(201, "POST", "/v1/leases/report:shared", "", "X-User: ann")
	post := func(status int, to, body string) {
		t.Helper()
		a.want(status, "POST", "/v1/objects/reports/shared/"+to, body, "X-User: ann", "X-Fence-Token: 2000")
	}
	post(403, "w2", `{"copy":"objects/reports/shared/secret"}`)
	post(403, "w2", `{"rename":"objects/reports/shared/secret"}`)
	post(403, "w2", `{"rename":"objects/reports/shared/r"}`)
	post(403, "r2", `{"copy":"objects/reports/shared/w"}`)
	post(201, "w2", `{"copy":"objects/reports/shared/r"}`)
	post(201, "w3", `{"rename":"objects/reports/shared/w"}`)
	commit := `{"writes":[{"op":"copy","resource":"objects/reports/shared/w4","from":"objects/reports/shared/secret"}]}`
	a.refused(403, "forbidden", "POST", "/v1/commit", commit, "X-User: ann", "X-Fence-Token: 2001")
	a.want(200, "POST", "/v1/commit", strings.Replace(commit, "secret", "r", 1), "X-User: ann", "X-Fence-Token: 2001")
}

func TestCopyIsReadStrictly(t *testing.T) {
	a := serve(t, nil)
	a.do("POST", "/v1/leases/report:a", "")
	for _, body := range []string{
		``, `{}`, `{"copy":7}`, `{"copy":"reports/a"}`, `{"copy":"objects/reports"}`, `{"copy":"objects/reports/"}`, `{"copy":"rows/t/1"}`, `{"restore":"1000"}`, `{"restore":-1}`, `{"restore":00}`, `{"restore":null}`, `{"restore":1.5}`,
		`{"restore":1000,"version":1000}`, `{"rename":"objects/reports/b","version":1}`, `{"rename":"objects/reports/a"}`, `{"copy":"objects/reports/b","restore":1}`, `{"copy":"objects/reports/b","other":1}`,
		`{"copy":"objects/reports/b","header":[]}`, `{"copy":"objects/reports/b","header":{"other":"x"}}`, `{"copy":"objects/reports/b","header":{"content_type":"a\nb"}}`, `{"copy":"objects/reports/b","header":{"meta":{"a b":"x"}}}`,
	} {
		if got := a.do("POST", "/v1/objects/reports/a", body, "X-Fence-Token: 1000"); got.StatusCode != 400 {
			t.Errorf("%s: %d %s", body, got.StatusCode, got.text)
		}
	}
	if mark := a.do("GET", "/v1/marks/objects/reports/a", ""); mark.Header.Get("X-Fence-Token") != "0" {
		t.Error("something was written")
	}
}
