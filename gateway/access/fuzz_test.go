package access_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

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
