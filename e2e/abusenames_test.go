package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostileNames are what a program that pastes names into SQL, a path, a format or a shell would stumble over.
func hostileNames() []string {
	return []string{
		`'; DROP TABLE wallets; --`, `1'; UPDATE wallets SET balance = 0; --`, `" OR ""="`, `1 OR 1=1`, `1); SELECT pg_sleep(30); --`, `$1`, `$$;$$`,
		`\'; --`, `E'\\'`, `wallets"; DROP TABLE wallets; --`, `fence.grants`, `pg_catalog.pg_authid`, `*`, `?`, `:name`, `{id}`, `{{.}}`,
		`%s%n%d`, `$(touch owned)`, "`id`", `${jndi:ldap://localhost/a}`, `<script>alert(1)</script>`, `../../../../etc/passwd`,
		`KEYS[1]`, `"}*`, `a b`, `ünï`, "\u202egnp.exe", "𝒳", `null`, `true`, `~sha256:00`, `COPY wallets TO PROGRAM 'id'`,
	}
}

// A name is a name: it is stored and compared as it is, or refused, and is never read as anything else.
func TestAbuseNames(t *testing.T) {
	t.Parallel()
	v := abused(t)
	protectTable(t, v.servers.database, "notes", "note:{id}", "id text PRIMARY KEY, body text")
	g := v.acquire("wallet:1", `"ttl":"10m"`)
	token := g.token(0)
	t.Run("Refused", func(t *testing.T) {
		v := v.in(t)
		for _, name := range hostileNames() {
			escaped := url.PathEscape(name)
			quoted, _ := json.Marshal(name)
			v.unchanged(func() {
				for what, r := range map[string]response{
					"table":          v.do("PATCH", "/v1/rows/"+escaped+"/1", `{"balance":1}`, token),
					"quoted table":   v.do("PATCH", "/v1/rows/"+url.PathEscape(`"`+strings.ReplaceAll(name, `"`, `""`)+`"`)+"/1", `{"balance":1}`, token),
					"schema":         v.do("GET", "/v1/rows/"+escaped+".wallets/1", ""),
					"key":            v.do("PATCH", "/v1/rows/wallets/"+escaped, `{"balance":1}`, token),
					"column":         v.do("PATCH", "/v1/rows/wallets/1", "{"+string(quoted)+":1}", token),
					"number":         v.do("PATCH", "/v1/rows/wallets/1", `{"balance":`+string(quoted)+"}", token),
					"bucket":         v.do("PUT", "/v1/objects/"+escaped+"/a", "x", token),
					"query":          v.do("GET", "/v1/rows/wallets/1?owner=eq."+url.QueryEscape(name), ""),
					"lease id":       v.do("DELETE", "/v1/leases/wallet:1", "", "X-Lease-Id: "+name),
					"ttl":            v.do("POST", "/v1/leases/x", `{"ttl":`+string(quoted)+"}"),
					"field":          v.do("POST", "/v1/leases/x", "{"+string(quoted)+":1}"),
					"token":          v.do("PATCH", "/v1/rows/wallets/1", `{"balance":1}`, "X-Fence-Token: "+name),
					"If-Match":       v.do("PATCH", "/v1/rows/wallets/1", `{"balance":1}`, token, "If-Match: \""+strings.ReplaceAll(name, `"`, "")+`"`),
					"verify":         v.do("POST", "/v1/leases/wallet:1/verify", fmt.Sprintf(`{"token":%d,"principal":%s}`, g.Token, quoted)),
					"mark of bucket": v.do("GET", "/v1/marks/objects/"+escaped+"/a", ""),
				} {
					if r.status < 400 || r.status >= 500 || r.code() == "" || r.code() == "outcome-unknown" {
						t.Errorf("%q as %s: %v", name, what, r)
					}
				}
			})
		}
	})
	t.Run("Kept", func(t *testing.T) {
		v := v.in(t)
		for n, name := range hostileNames() {
			escaped := url.PathEscape(name)
			quoted, _ := json.Marshal(name)
			// As a lease's name, holder and acquire id.
			path := "/v1/leases/" + escaped
			acquired := v.want(201, "POST", path, fmt.Sprintf(`{"ttl":"10m","holder":%s,"acquire_id":%s}`, quoted, quoted))
			if h := holdingOf(t, acquired); h.Name != name || h.Holder != name {
				t.Errorf("lease %q has name %q and holder %q", name, h.Name, h.Holder)
			}
			v.want(204, "POST", path+"/break", `{"reason":`+string(quoted)+"}")
			// As a value, in the table's own column.
			v.want(200, "PATCH", "/v1/rows/wallets/1", `{"owner":`+string(quoted)+"}", g.token(int64(n)))
			if got := queryText(t, v.servers.database, "SELECT owner FROM wallets WHERE id = 1"); got != name {
				t.Errorf("value %q was stored as %q", name, got)
			}
			// As a key, whose lease has its name from it.
			note := v.acquire("note:" + name)
			v.want(201, "PUT", "/v1/rows/notes/"+strings.ReplaceAll(escaped, ",", "%2C"), `{"body":"x"}`, note.token(0))
			// As an object's key.
			object := v.acquire("report:" + name)
			v.want(201, "PUT", "/v1/objects/reports/"+escaped, name, object.token(0))
			if r := v.want(200, "GET", "/v1/objects/reports/"+escaped, ""); r.body != name {
				t.Errorf("object %q holds %q", name, r.body)
			}
		}
		n := len(hostileNames())
		if got := queryText(t, v.servers.database, "SELECT count(*) || ' ' || count(DISTINCT id) FROM notes"); got != fmt.Sprintf("%d %d", n, n) {
			t.Errorf("%s rows and names of %d notes", got, n)
		}
		if got := queryText(t, v.servers.database, "SELECT count(*) || ' ' || sum(balance) FROM wallets"); got != "50 5000" {
			t.Errorf("the wallets are %s, want 50 with 5000", got)
		}
	})
}

// Whatever an object is called, its bytes are kept below the blob directory, and nothing else is served.
func TestAbuseObjectKeys(t *testing.T) {
	t.Parallel()
	v := abused(t)
	if err := os.WriteFile(filepath.Join(v.around, "outside"), []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := strings.Join(v.files(), " ")
	for _, key := range []string{
		"../outside", "../../outside", "../../../outside", "..", ".", "./a", "a/../b", "a/..", "/", "//", "/etc/passwd", "a//b", "a/", `..\..\outside`, `C:\outside`,
		".tmp/x", "../.tmp/x", "../reports/x", "CON", "a:b", "a.", " ", "~", "-rf", strings.Repeat("a", 1024), strings.Repeat("../", 341), "\r\n", "\t", "\x7f", "\u2028",
	} {
		escaped := strings.ReplaceAll(url.PathEscape(key), ".", "%2E")
		for _, path := range []string{url.PathEscape(key), escaped, strings.ReplaceAll(escaped, "%2F", "/")} {
			if r := v.do("GET", "/v1/objects/reports/"+path, ""); strings.Contains(r.body, "outside") && !strings.Contains(r.header.Get("X-Fence-Lease"), "outside") || r.status != 404 && r.status != 200 {
				t.Errorf("key %.40q as %.60s: %v", key, path, r)
			}
		}
		// The lease's name is for the gateway to say: a key may have characters that a lease may not.
		lease, err := url.PathUnescape(v.want(428, "PUT", "/v1/objects/reports/"+escaped, "x").header.Get("X-Fence-Lease"))
		if err != nil {
			t.Fatal(err)
		}
		v.want(201, "PUT", "/v1/objects/reports/"+escaped, "the bytes of "+key, v.acquire(lease).token(0))
		if r := v.want(200, "GET", "/v1/objects/reports/"+escaped, ""); r.body != "the bytes of "+key {
			t.Errorf("key %.40q holds %.60q", key, r.body)
		}
	}
	if now := strings.Join(v.files(), " "); now != files {
		t.Errorf("files were made outside the bucket: %s, before %s", now, files)
	}
	v.unchanged(func() {
		for _, path := range []string{"reports/a%00b", "reports/" + strings.Repeat("a", 1025), "reports/%ff", "reports/", "..%2Freports/a", "%2E%2E/a", "./a"} {
			if r := v.do("PUT", "/v1/objects/"+path, "x", "X-Fence-Token: 1000"); r.status != 400 && r.status != 404 {
				t.Errorf("%.60s: %v", path, r)
			}
		}
	})
}

// A link that somebody has put into the blob directory does not lead the gateway out of it.
func TestAbuseLinkInTheBlobDirectory(t *testing.T) {
	t.Parallel()
	v := abused(t)
	outside := t.TempDir()
	g := v.acquire("report:a", `"ttl":"10m"`)
	if err := os.Symlink(outside, filepath.Join(v.p.data, "blobs", "reports")); err != nil {
		t.Fatal(err)
	}
	v.refused(502, "unavailable", "PUT", "/v1/objects/reports/a", "x", g.token(0))
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("the link was followed: %v, %v", left, err)
	}
	if mark := v.mark("/v1/objects/reports/a"); mark != 0 {
		t.Errorf("the mark is %d", mark)
	}
	v.want(404, "GET", "/v1/objects/reports/a", "")
}

// What a client stores beside an object comes back as one header's value, never as another header or another answer.
func TestAbuseHeaderValues(t *testing.T) {
	t.Parallel()
	v := abused(t)
	g := v.acquire("report:a", `"ttl":"10m"`)
	const injected = "a%0d%0aInjected:%20yes"
	v.want(201, "PUT", "/v1/objects/reports/a", "body", g.token(0), "X-Meta-A: "+injected, "X-Meta-Content-Length: 0", "X-Meta-Set-Cookie: a=b",
		"Content-Type: text/html; charset=utf-8", "Content-Disposition: attachment; filename=\"%0d%0aInjected: yes\"", `Cache-Control: "\r\nInjected: yes"`)
	r := v.want(200, "GET", "/v1/objects/reports/a", "")
	if r.header.Get("X-Meta-A") != injected || r.header.Get("Injected") != "" || r.header.Get("Set-Cookie") != "" || r.body != "body" {
		t.Errorf("got %v", r)
	}
	if r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Content-Security-Policy") != "sandbox" {
		t.Errorf("a browser would run it: %v", r.header)
	}
	put := func(header string) string {
		return httpRequest("PUT", "/v1/objects/reports/a", "other", g.token(1), header)
	}
	v.unchanged(func() {
		for _, header := range []string{
			"X-Meta-A: a\rInjected: yes", "X-Meta-A: a\x00b", "X-Meta-A: \x1b[2J", "X-Meta-A: \xff\xfe", "X-Meta-A: \xe2\x80\xae", "X-Meta-\r\n: a", "X-Meta-: a", "X-Meta-A B: a",
			"Content-Type: a\rb", "Content-Type: " + strings.Repeat("a", 2000), "Content-Type: a\r\nContent-Type: b", "Content-Disposition: \x7f",
		} {
			v.ask(put(header)).among(t, 400)
		}
	})
	// A line break in a request ends the header: what follows is one of the request's, none of the answer's.
	v.ask(put("X-Meta-A: a\r\nInjected: yes")).among(t, 200)
	if r := v.want(200, "GET", "/v1/objects/reports/a", ""); r.header.Get("Injected") != "" || r.header.Get("X-Meta-A") != "a" {
		t.Errorf("got %v", r)
	}
	// Names that the gateway itself puts into headers are escaped there.
	if r := v.want(404, "GET", "/v1/objects/reports/%0d%0aInjected:%20yes", ""); r.header.Get("Injected") != "" || strings.ContainsAny(r.header.Get("X-Fence-Lease"), "\r\n") {
		t.Errorf("got %v", r)
	}
}
