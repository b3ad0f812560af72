package access_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/access"
)

// FuzzParse: no file ends the program, and what a file allows is what its rules say, read a second time in another way.
func FuzzParse(f *testing.F) {
	f.Add(team, "read", "nightly", "sales", "orders", "logs", "daily/a")
	f.Add(team, "lease", "wallet:42", "a.b", "Reply", "reports", "")
	f.Add("principals: [{name: a, allow: [{tables: ['\"a\"\"b\".*'], verbs: [read, write]}]}]", "write", "", "a\"b", "t", "", "")
	f.Add("principals:\n  - name: &a x\n    admin: *a\n", "admin", "l", "", "", "", "")
	f.Add("principals: [[[[[[[[[[[[", "", "", "", "", "", "")
	f.Add("principals: [{name: a, database_role: r, claims: {s: [1, x]}, allow: [{tables: [t], verbs: [read], columns: [c]}, {tables: ['*'], verbs: [read], columns: [d, c]}]}]",
		"read", "", "public", "t", "", "")
	f.Add("issuers: [{issuer: i, audience: a, jwks_url: 'https://h/', algorithms: ES256, leeway: 1s, database_role_claim: r, database_roles: [q], allow: [{leases: [l], verbs: [read]}]}]\n"+
		"principals: [{name: 'i#s', admin: true}]", "read", "l", "", "", "", "")
	f.Fuzz(func(t *testing.T, file, verb, lease, schema, table, bucket, key string) {
		p, err := access.Parse([]byte(file))
		if err != nil {
			var bad *access.FileError
			if !errors.As(err, &bad) || bad.Line < 1 || bad.Column < 1 || bad.Line > 1+strings.Count(file, "\n")+strings.Count(file, "\r") {
				t.Fatalf("an error without its place: %v", err)
			}
			return
		}
		for _, a := range []gateway.Action{{Lease: lease}, {Schema: schema, Table: table}, {Bucket: bucket, Key: key}} {
			a.Verb = gateway.Verb(verb)
			for who := range p.Principals() {
				if got, want := who.May(a), reference(who, a); got != want {
					t.Fatalf("%s, %+v: %v, the reference says %v", who.Principal(), a, got, want)
				}
				if got, want := who.Columns(a), referenceColumns(who, a); (got == nil) != (want == nil) || !sameColumns(got, want) {
					t.Fatalf("%s, %+v: columns %q, the reference says %q", who.Principal(), a, got, want)
				}
				if claims := who.Identity().Claims; claims != "" && !json.Valid([]byte(claims)) {
					t.Fatalf("%s: claims are no JSON: %s", who.Principal(), claims)
				}
			}
		}
	})
}

func reference(p *access.Principal, a gateway.Action) bool {
	isLease, isTable, isObject := a.Lease != "", a.Schema != "" && a.Table != "", a.Bucket != ""
	if isLease && p.Admin() && (a.Verb == "admin" || a.Verb == "read") {
		return true
	}
	for _, r := range p.Rules() {
		may := func(v gateway.Verb) bool { return slices.Contains(r.Verbs, v) }
		switch {
		case isLease && (a.Verb == "lease" && may("lease") || a.Verb == "read" && (may("read") || may("lease"))):
			if slices.ContainsFunc(r.Leases, func(p string) bool { return like(p, a.Lease) }) {
				return true
			}
		case (a.Verb == "read" || a.Verb == "write") && may(a.Verb):
			if isTable && slices.ContainsFunc(r.Tables, func(p string) bool { return likeTable(p, a.Schema, a.Table) }) ||
				isObject && slices.ContainsFunc(r.Buckets, func(p string) bool { return likeObject(p, a.Bucket, a.Key) }) {
				return true
			}
		}
	}
	return false
}

// referenceColumns asks each rule by itself.
func referenceColumns(p *access.Principal, a gateway.Action) []string {
	if a.Table == "" || a.Schema == "" {
		return nil
	}
	union := []string{}
	for _, r := range p.Rules() {
		may := slices.Contains(r.Verbs, a.Verb) && slices.ContainsFunc(r.Tables, func(p string) bool { return likeTable(p, a.Schema, a.Table) })
		switch {
		case may && (a.Verb == "read" || a.Verb == "write") && len(r.Columns) == 0:
			return nil
		case may:
			union = append(union, r.Columns...)
		}
	}
	return union
}

func sameColumns(a, b []string) bool {
	set := func(s []string) map[string]bool {
		m := make(map[string]bool)
		for _, column := range s {
			m[column] = true
		}
		return m
	}
	return maps.Equal(set(a), set(b))
}

func like(pattern, s string) bool {
	expr := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`)
	return regexp.MustCompile(`(?s)\A` + expr + `\z`).MatchString(s)
}

func likeTable(pattern, schema, table string) bool {
	if pattern == "*" {
		return true
	}
	parts := regexp.MustCompile(`(?s)"(?:[^"]|"")*"|[^".]+`).FindAllString(pattern, -1)
	for i, part := range parts {
		if inner, isQuoted := strings.CutPrefix(part, `"`); isQuoted {
			parts[i] = strings.ReplaceAll(strings.TrimSuffix(inner, `"`), `""`, `"`)
			continue
		}
		parts[i] = regexp.MustCompile(`[A-Z]+`).ReplaceAllStringFunc(part, strings.ToLower)
	}
	if len(parts) == 1 {
		parts = []string{"public", parts[0]}
	}
	return like(parts[0], schema) && like(parts[1], table)
}

func likeObject(pattern, bucket, key string) bool {
	name, below, isBelow := strings.Cut(pattern, "/")
	return like(name, bucket) && (!isBelow || key != "" && like(below, key))
}

// FuzzJWT: no credential ends the program, and of those that look like a token only what the issuer has signed is let in.
func FuzzJWT(f *testing.F) {
	key := edKey(f)
	good := sign(f, key, "EdDSA", "1", claimsAt(time.Now(), nil))
	dir := f.TempDir()
	for name, text := range map[string]string{
		"keys.json": keySet(jwk(f, key, "1", "")),
		"auth.yaml": "issuers:\n  - issuer: " + issuerName + "\n    audience: fencegate\n    jwks_file: keys.json\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	p, err := access.Load(filepath.Join(dir, "auth.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	a := authenticator(f, access.Config{Policy: p, Burst: 1 << 30})
	header, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	f.Add(header, payload, signature)
	f.Add(header, payload, "")
	f.Add("eyJhbGciOiJub25lIn0", payload, "")
	f.Add("eyJhbGciOiJIUzI1NiIsImtpZCI6IjEifQ", payload, signature)
	f.Add("e30", "bnVsbA", "AAAA")
	f.Fuzz(func(t *testing.T, header, payload, signature string) {
		token := header + "." + payload + "." + signature
		_, err := a.Authenticate(request(here, "Bearer "+token))
		if err == nil && strings.Trim(token, " ") != good {
			t.Fatalf("let in: %s", token)
		}
		if token == good && err != nil {
			t.Fatal(err)
		}
		if code := fence.CodeOf(err); err != nil && code != fence.CodeUnauthenticated && code != fence.CodeRateLimited {
			t.Fatal(err)
		}
	})
}
