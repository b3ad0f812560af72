package access_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/gateway/access"
)

func TestParseIssuers(t *testing.T) {
	p := policy(t, `
principals:
  - {name: "https://a.example#x", allow: [{leases: [l], verbs: [lease]}]}
  - {name: "https://c.example#x"}
issuers:
  - issuer: https://a.example
    audience: one
    jwks_url: https://a.example/keys?v=1
  - issuer: b
    audience: [one, two]
    jwks_file: keys.json
    algorithms: [ES256, EdDSA]
    leeway: 2m
    database_role_claim: role
    database_roles: [a, "B c"]
    allow:
      - {leases: ["*"], verbs: [read]}
`)
	a, b := slices.Collect(p.Issuers())[0], slices.Collect(p.Issuers())[1]
	if a.Line != 6 || a.Leeway != 30*time.Second || !slices.Equal(a.Audience, []string{"one"}) || a.KeysURL != "https://a.example/keys?v=1" || len(a.Algorithms) != 10 || len(a.Rules) != 0 {
		t.Errorf("%+v", a)
	}
	if b.Line != 9 || b.Leeway != 2*time.Minute || len(b.Audience) != 2 || b.KeysFile != "keys.json" || !slices.Equal(b.Algorithms, []string{"ES256", "EdDSA"}) ||
		b.RoleClaim != "role" || !slices.Equal(b.Roles, []string{"a", "B c"}) || len(b.Rules) != 1 {
		t.Errorf("%+v", b)
	}
	if p.Lookup("https://a.example#x").Issuer() != a || p.Lookup("https://c.example#x").Issuer() != nil || p.Subject("b#y").Issuer() != b {
		t.Error("subjects of the wrong issuers")
	}
}

func TestParseRefusesIssuers(t *testing.T) {
	const (
		head = "issuers:\n  - issuer: https://id.example\n    audience: a\n"
		good = head + "    jwks_url: https://id.example/keys\n"
		keys = "issuer, audience, jwks_url, jwks_file, algorithms, leeway, database_role, database_role_claim, database_roles, allow"
	)
	for _, c := range []struct {
		name, file string
		want       string // without the issuer in the middle
	}{
		{"Empty", "issuers: []\n", `1:1: issuers is an empty list`},
		{"Text", "issuers: [a]\n", `1:11: an issuer is a mapping with the keys ` + keys},
		{"UnknownKey", head + "    admin: true\n", `4:5: # an issuer has no key "admin"; it has ` + keys},
		{"NoName", "issuers:\n  - audience: a\n    jwks_url: https://x/\n", `2:5: the issuer has no issuer`},
		{"NoAudience", "issuers:\n  - issuer: https://id.example\n    jwks_url: https://x/\n", `2:5: # the issuer has no audience`},
		{"EmptyAudience", "issuers:\n  - issuer: https://id.example\n    audience: \"\"\n", `3:15: # audience: it is empty`},
		{"AudienceTwice", "issuers:\n  - issuer: https://id.example\n    audience: [a, a]\n", `3:19: # audience: "a" is given twice`},
		{"MarkInName", "issuers:\n  - issuer: a#b\n", `2:13: issuer "a#b": issuer: an issuer has no #: it stands between issuer and subject in a principal's name`},
		{"LongName", "issuers:\n  - issuer: " + strings.Repeat("x", 201) + "\n", `2:13: issuer "` + strings.Repeat("x", 80) + `"…: issuer: it has at most 200 bytes, this one has 201`},
		{"Twice", good + "  - issuer: https://id.example\n    audience: a\n    jwks_url: https://x/\n", `5:5: # the issuer is given twice, first in line 2`},

		{"NoKeys", head, `2:5: # an issuer has either jwks_url or jwks_file`},
		{"TwoKeys", good + "    jwks_file: x\n", `2:5: # an issuer has either jwks_url or jwks_file`},
		{"PlainURL", head + "    jwks_url: http://id.example/keys\n", `4:15: # jwks_url: it begins with https://; http:// is for hosts of loopback only`},
		{"FileURL", head + "    jwks_url: file://localhost/keys\n", `4:15: # jwks_url: it begins with https://; http:// is for hosts of loopback only`},
		{"NotLoopback", head + "    jwks_url: http://127.0.0.1.example/keys\n", `4:15: # jwks_url: it begins with https://; http:// is for hosts of loopback only`},
		{"NoHost", head + "    jwks_url: https:///keys\n", `4:15: # jwks_url: it is a URL, https://HOST/PATH`},
		{"Relative", head + "    jwks_url: keys\n", `4:15: # jwks_url: it is a URL, https://HOST/PATH`},
		{"Password", head + "    jwks_url: https://u:p@id.example/keys\n", `4:15: # jwks_url: it has no user or password: key sets are public`},
		{"Fragment", head + "    jwks_url: 'https://id.example/keys#x'\n", `4:15: # jwks_url: it has no fragment`},

		{"None", good + "    algorithms: [RS256, none]\n", `5:25: # algorithms: none is refused: whoever knows what the issuer publishes can make such a JWT`},
		{"Symmetric", good + "    algorithms: HS256\n", `5:17: # algorithms: HS256 is refused: whoever knows what the issuer publishes can make such a JWT`},
		{"UnknownAlgorithm", good + "    algorithms: [rs256]\n", `5:18: # algorithms: there is no algorithm "rs256"; there are RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA`},
		{"LongLeeway", good + "    leeway: 3m\n", `5:13: # leeway: it is a time from 0s to 2m0s`},
		{"NegativeLeeway", good + "    leeway: -1s\n", `5:13: # leeway: it is a time from 0s to 2m0s`},
		{"LeewayIsNumber", good + "    leeway: 30\n", `5:13: # leeway must be a string on one line; put it in quotes`},

		{"TwoRoles", good + "    database_role: r\n    database_role_claim: role\n    database_roles: [r]\n", `2:5: # an issuer has either database_role or database_role_claim`},
		{"ClaimWithoutRoles", good + "    database_role_claim: role\n", `2:5: # database_role_claim needs database_roles, the list of those that it may name`},
		{"RolesWithoutClaim", good + "    database_roles: [r]\n", `2:5: # database_roles needs database_role_claim`},
		{"SystemRole", good + "    database_role_claim: role\n    database_roles: [r, pg_monitor]\n", `6:25: # database_roles: PostgreSQL keeps none, public and names that begin with pg_ for itself`},
		{"RoleTwice", good + "    database_roles: [r, r]\n", `5:25: # database_roles: "r" is given twice`},
		{"Rule", good + "    allow: [{leases: [a], verbs: [write]}]\n", `5:14: # the verb write allows nothing in this rule: it is for tables, buckets`},

		{"SubjectWithSecret", good + "principals:\n  - name: https://id.example#a\n    secret_sha256: " + hashA + "\n", `7:5: principal "https://id.example#a": a subject of an issuer comes with JWTs, and has no secret`},
		{"SubjectWithClaims", "principals:\n  - name: https://id.example#a\n    claims: {a: 1}\n" + good, `3:5: principal "https://id.example#a": the claims of a subject of an issuer are those of its JWTs`},
		{"NoSubject", good + "principals:\n  - name: https://id.example#\n", `6:5: principal "https://id.example#": the name has no subject behind the #`},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused(t, c.file, strings.Replace(c.want, ": # ", `: issuer "https://id.example": `, 1))
		})
	}
}

func TestKeysOfAFile(t *testing.T) {
	key := edKey(t)
	now := time.Now()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("auth.yaml", "issuers:\n  - issuer: "+issuerName+"\n    audience: fencegate\n    jwks_file: keys.json\n")
	load := func() (*access.Policy, error) { return access.Load(filepath.Join(dir, "auth.yaml")) }
	for text, want := range map[string]string{
		"":                         "keys.json: no such file",
		"{}":                       `it is no key set: a JSON object with the list "keys"`,
		keySet():                   "it has no key that can check a signature",
		strings.Repeat(" ", 1<<19): "it has more than 262144 bytes",
	} {
		if text != "" {
			write("keys.json", text)
		}
		_, err := load()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `auth.yaml:4:16: issuer "https://id.example.com/": jwks_file: `) {
			t.Errorf("%.20s: %v, want %q", text, err, want)
		}
		_ = os.Remove(filepath.Join(dir, "keys.json"))
	}
	// What cannot be used is passed over, and the x5u of a key is not looked at.
	small := strings.Replace(jwk(t, rsaKeys()[0], "small", ""), `"n":"`, `"n":"AQAB","m":"`, 1)
	foreign := strings.Replace(jwk(t, key, "1", ""), `{`, `{"x5u":"http://192.0.2.1/cert","x5c":["AAAA"],`, 1)
	encrypts := strings.Replace(jwk(t, rsaKeys()[1], "enc", ""), `"use":"sig"`, `"use":"enc"`, 1)
	write("keys.json", keySet(`{"kty":"oct","kid":"secret","k":"AAAA"}`, `{"kty":"new"}`, "7", small, encrypts, foreign))
	p, err := load()
	if err != nil {
		t.Fatal(err)
	}
	a := authenticator(t, access.Config{Policy: p, Burst: 100})
	for name, c := range map[string]tokenCase{
		"Usable":     {token: sign(t, key, "EdDSA", "1", claimsAt(now, nil)), code: ok},
		"Small":      {token: sign(t, rsaKeys()[0], "RS256", "small", claimsAt(now, nil)), code: wrong, says: "no key of the issuer"},
		"Encryption": {token: sign(t, rsaKeys()[1], "RS256", "enc", claimsAt(now, nil)), code: wrong, says: "no key of the issuer"},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, a) })
	}
	// Another file is in force with the policy that is read anew.
	other := edKey(t)
	write("keys.json", keySet(jwk(t, other, "1", "")))
	if p, err = load(); err != nil {
		t.Fatal(err)
	}
	a.Replace(p)
	if got := codeOf(a, sign(t, key, "EdDSA", "1", claimsAt(now, nil))); got != wrong {
		t.Errorf("the old key: %s", got)
	}
	if got := codeOf(a, sign(t, other, "EdDSA", "1", claimsAt(now, nil))); got != ok {
		t.Errorf("the new key: %s", got)
	}
	// A policy that was parsed without its folder has no keys to check by.
	b := authenticator(t, access.Config{Policy: policy(t, "issuers:\n  - {issuer: "+issuerName+", audience: fencegate, jwks_file: keys.json}\n")})
	if got := codeOf(b, sign(t, other, "EdDSA", "1", claimsAt(now, nil))); got != unavailable {
		t.Errorf("without keys: %s", got)
	}
}
