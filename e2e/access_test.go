package e2e

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// secretOf is the bearer secret that the tests give a principal.
func secretOf(name string) string { return "fg_secret-of-" + name }

// principal is an entry of an auth file; rules are lines of YAML below allow.
func principal(name string, admin bool, rules ...string) string {
	sum := sha256.Sum256([]byte(secretOf(name)))
	return fmt.Sprintf("  - name: %s\n    secret_sha256: %s\n    admin: %t\n    allow:\n      - %s\n", name, hex.EncodeToString(sum[:]), admin, strings.Join(rules, "\n      - "))
}

func writeAuthFile(t testing.TB, path string, entries ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("principals:\n"+strings.Join(entries, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// as is the same client with somebody's secret.
func (c *client) as(name string) *client {
	other := *c
	other.http = &http.Client{Transport: bearing{c.http.Transport, secretOf(name)}, Timeout: patience}
	return &other
}

type bearing struct {
	next   http.RoundTripper
	secret string
}

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.secret)
	return b.next.RoundTrip(r)
}

func TestAccess(t *testing.T) {
	s := testServers(t)
	file := filepath.Join(t.TempDir(), "auth.yaml")
	worker := principal("worker", false, `{leases: ["wallet:*", "report:daily/*"], verbs: [lease]}`, `{tables: [wallets], buckets: ["reports/daily/*"], verbs: [read, write]}`)
	other := principal("other", false, `{leases: ["wallet:*"], verbs: [lease]}`, `{tables: [wallets], verbs: [write]}`)
	reader := principal("reader", false, `{leases: ["*"], tables: ["*"], buckets: ["*"], verbs: [read]}`)
	operator := principal("operator", true, `{tables: ["*"], verbs: [read]}`)
	writeAuthFile(t, file, worker, other, reader, operator)
	// Authentication lifts the restriction to loopback; the port is reached over loopback all the same.
	p := startServe(t, s, "--auth-file="+file, "--listen=0.0.0.0:0")
	execSQL(t, s.database, walletsSQL+`CREATE TABLE secrets (id bigint PRIMARY KEY); SELECT fence.protect('secrets', 'secret:{id}')`)
	protectBucket(t, s.database, "reports", "report:{key}")
	p.url = "http://127.0.0.1:" + p.url[strings.LastIndex(p.url, ":")+1:]
	c := p.client()

	t.Run("Unauthenticated", func(t *testing.T) {
		for _, path := range []string{"rows/wallets/1", "rows/secrets/1", "rows/nowhere/1", "leases/wallet:1", "marks/rows/wallets/1"} {
			r := c.get(path)
			r.want(t, "unauthenticated")
			if r.mark() != -1 || r.header.Get("X-Fence-Lease") != "" || r.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: %v", path, r.header)
			}
		}
		if r, err := c.try(t.Context(), http.MethodGet, "/readyz", nil); err != nil || !r.ok() {
			t.Errorf("probes need no secret: %v %v", r, err)
		}
	})
	t.Run("Rules", func(t *testing.T) {
		w := c.as("worker")
		g := w.acquire("wallet:1", time.Minute)
		w.patch("wallets/1", g.Token, `{"balance":1}`).want(t, "")
		w.get("rows/wallets/1").want(t, "")
		d := w.acquire("report:daily/a", time.Minute)
		w.put("reports/daily/a", d.Token, []byte("x")).want(t, "")
		for what, r := range map[string]reply{
			"another table":         w.get("rows/secrets/1"),
			"a table that is not":   w.get("rows/nowhere/1"),
			"another schema":        w.get("rows/fence.settings/1"),
			"another bucket key":    w.get("objects/reports/weekly/a"),
			"another lease":         w.must(w.try(t.Context(), http.MethodPost, "/v1/leases/secret:1", nil)),
			"break without admin":   w.must(w.try(t.Context(), http.MethodPost, "/v1/leases/wallet:1/break", nil)),
			"write by a reader":     c.as("reader").patch("wallets/1", g.Token, `{"balance":2}`),
			"a lease for a reader":  c.as("reader").must(c.as("reader").try(t.Context(), http.MethodPost, "/v1/leases/wallet:9", nil)),
			"read by a writer":      c.as("other").get("rows/wallets/1"),
			"a mark for a writer":   c.as("other").get("marks/rows/wallets/1"),
			"write by the operator": c.as("operator").patch("wallets/1", g.Token, `{"balance":2}`),
		} {
			if r.code() != "forbidden" || r.mark() != -1 || strings.Contains(string(r.body), "holder") || strings.Contains(string(r.body), "first_token") {
				t.Errorf("%s: %v %v", what, r, r.header)
			}
		}
		c.as("reader").get("leases/wallet:1").want(t, "")
		c.as("operator").get("leases/wallet:1").want(t, "")
		c.as("other").patch("wallets/1", g.Token+1, `{"balance":3}`).want(t, "foreign-token")
		c.as("operator").must(c.as("operator").try(t.Context(), http.MethodPost, "/v1/leases/wallet:1/break", strings.NewReader(`{"reason":"stuck"}`), "Content-Type", "application/json")).want(t, "")
		w.patch("wallets/1", g.Token+1, `{"balance":4}`).want(t, "grant-ended")
	})
	t.Run("Reload", func(t *testing.T) {
		fresh := principal("fresh", false, `{tables: [wallets], verbs: [read]}`)
		c.as("fresh").get("rows/wallets/1").want(t, "unauthenticated")
		writeAuthFile(t, file, worker, other, operator, fresh)
		hangup(t, p)
		within(t, patience, "the new principal is known", func() bool { return c.as("fresh").get("rows/wallets/1").ok() })
		c.as("reader").get("rows/wallets/1").want(t, "unauthenticated")
		for name, content := range map[string]string{"line": "principals:\n  - name: x\n    colour: red\n", "twice": "principals:\n" + worker + worker, "broken": "principals: [\n"} {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			before := strings.Count(p.stderr.String(), "the old ones stay in force")
			hangup(t, p)
			within(t, patience, "the broken file is reported", func() bool { return strings.Count(p.stderr.String(), "the old ones stay in force") > before })
			if name == "line" && !strings.Contains(p.stderr.String(), "auth.yaml:3:") {
				t.Errorf("the line is not named: %s", p.stderr.String())
			}
			c.as("fresh").get("rows/wallets/1").want(t, "")
		}
	})
	t.Run("FailedLogins", func(t *testing.T) {
		for n := 0; ; n++ {
			r := c.as("guess" + itoa(int64(n))).get("rows/wallets/1")
			if r.code() == "rate-limited" {
				if r.header.Get("Retry-After") == "" {
					t.Errorf("no Retry-After: %v", r.header)
				}
				break
			}
			r.want(t, "unauthenticated")
			if n > 100 {
				t.Fatal("logins fail without a limit")
			}
		}
		// Who has been let in before stays served from the same address.
		c.as("fresh").get("rows/wallets/1").want(t, "")
	})
}

func TestServeRefusesABrokenAuthFile(t *testing.T) {
	s := testServers(t)
	file := filepath.Join(t.TempDir(), "auth.yaml")
	for name, c := range map[string]struct{ content, says string }{
		"UnknownField": {"principals:\n  - name: x\n    colour: red\n", "auth.yaml:3:"},
		"TwoOfAName":   {"principals:\n" + principal("x", false, `{tables: [t], verbs: [read]}`) + principal("x", false, `{tables: [t], verbs: [read]}`), "auth.yaml:7:"},
		"NoSecret":     {"principals:\n  - name: x\n    allow:\n      - {tables: [t], verbs: [read]}\n", "without --tls-client-ca"},
		"Broken":       {"principals:\n  - name: [\n", "auth.yaml:2:"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			launchServe(t, s, "--auth-file="+file).endsWith(1, c.says)
		})
	}
}

func TestClientCertificates(t *testing.T) {
	s, dir := testServers(t), t.TempDir()
	ca := certificate(t, dir, "ca", pkix.Name{CommonName: "test authority"}, nil)
	certificate(t, dir, "server", pkix.Name{CommonName: "gateway"}, ca)
	known := certificate(t, dir, "known", pkix.Name{CommonName: "worker-a", Organization: []string{"acme"}}, ca)
	unknown := certificate(t, dir, "unknown", pkix.Name{CommonName: "worker-z"}, ca)
	foreign := certificate(t, dir, "foreign", pkix.Name{CommonName: "worker-a", Organization: []string{"acme"}}, nil)
	file := filepath.Join(dir, "auth.yaml")
	writeAuthFile(t, file, "  - name: CN=worker-a,O=acme\n    allow:\n      - {tables: [wallets], leases: [\"wallet:*\"], verbs: [lease, read, write]}\n")
	p := startServe(t, s, "--auth-file="+file, "--tls-cert="+filepath.Join(dir, "server.pem"), "--tls-key="+filepath.Join(dir, "server.key"), "--tls-client-ca="+filepath.Join(dir, "ca.pem"))
	execSQL(t, s.database, walletsSQL)
	if !strings.HasPrefix(p.url, "https://") {
		t.Fatalf("ready on %s", p.url)
	}
	with := func(certs ...tls.Certificate) *client {
		pool := x509.NewCertPool()
		pool.AddCert(ca.Leaf)
		config := &tls.Config{RootCAs: pool}
		if len(certs) > 0 {
			// Sent whatever authorities the server names.
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certs[0], nil }
		}
		transport := &http.Transport{TLSClientConfig: config}
		t.Cleanup(transport.CloseIdleConnections)
		return &client{t: t, url: p.url, http: &http.Client{Transport: transport, Timeout: patience}}
	}
	c := with(*known)
	g := c.acquire("wallet:1", time.Minute)
	c.patch("wallets/1", g.Token, `{"balance":7}`).want(t, "")
	var m struct{ Principal string }
	c.get("marks/rows/wallets/1").decode(t, &m)
	if m.Principal != "CN=worker-a,O=acme" {
		t.Errorf("the mark is %q's", m.Principal)
	}
	with(*unknown).get("rows/wallets/1").want(t, "unauthenticated")
	with().get("rows/wallets/1").want(t, "unauthenticated")
	if r, err := with(*foreign).try(t.Context(), http.MethodGet, "/v1/rows/wallets/1", nil); err == nil {
		t.Errorf("a certificate of another authority got %v", r)
	}
	// Taking an authority out ends its clients, those that are connected too.
	authority, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	other, _ := os.ReadFile(filepath.Join(dir, "foreign.pem"))
	replace := func(content []byte, ok bool) {
		if err := os.WriteFile(filepath.Join(dir, "ca.pem"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		hangup(t, p)
		within(t, patience, "the authorities are read again", func() bool { return c.get("rows/wallets/1").ok() == ok })
	}
	replace(other, false)
	replace(authority, true)
	// The server's certificate is read again, too.
	certificate(t, dir, "server", pkix.Name{CommonName: "renewed"}, ca)
	hangup(t, p)
	within(t, patience, "the new certificate is served", func() bool {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(p.url, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return false
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName == "renewed"
	})
}

func hangup(t testing.TB, p *program) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}
