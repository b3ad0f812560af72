package access_test

import (
	"os"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/access"
)

const team = `
principals:
  - name: worker
    secret_sha256: ` + hashA + `
    allow:
      - leases: ["wallet:*"]
        verbs: [lease]
      - tables: [wallets, sales.*, '"a.b"."Re*ply"', LOUD, '"Loud"', ünits]
        buckets: [reports, "logs/daily/*", "arch*/x", "open/*"]
        verbs: [write]
  - name: reader
    secret_sha256: [` + hashB + `]
    allow:
      - {leases: [nightly], tables: ["*"], buckets: ["*"], verbs: [read]}
  - {name: operator, admin: true}
  - name: "CN=nobody,O=Example"
`

func policy(t testing.TB, file string) *access.Policy {
	t.Helper()
	p, err := access.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMay(t *testing.T) {
	p := policy(t, team)
	lease := func(v gateway.Verb, name string) gateway.Action { return gateway.Action{Verb: v, Lease: name} }
	table := func(v gateway.Verb, schema, name string) gateway.Action {
		return gateway.Action{Verb: v, Schema: schema, Table: name}
	}
	object := func(v gateway.Verb, bucket, key string) gateway.Action {
		return gateway.Action{Verb: v, Bucket: bucket, Key: key}
	}
	const l, r, w, a = gateway.VerbLease, gateway.VerbRead, gateway.VerbWrite, gateway.VerbAdmin
	for _, c := range []struct {
		name, principal string
		action          gateway.Action
		want            bool
	}{
		{"Lease", "worker", lease(l, "wallet:42"), true},
		{"LeaseShowsHolder", "worker", lease(r, "wallet:42"), true},
		{"LeaseIsNotWrite", "worker", lease(w, "wallet:42"), false},
		{"LeaseIsNotAdmin", "worker", lease(a, "wallet:42"), false},
		{"OtherLease", "worker", lease(l, "wallets:42"), false},
		{"Table", "worker", table(w, "public", "wallets"), true},
		{"WriteIsNotRead", "worker", table(r, "public", "wallets"), false},
		{"OtherSchema", "worker", table(w, "private", "wallets"), false},
		{"OtherTable", "worker", table(w, "public", "wallets2"), false},
		{"WholeSchema", "worker", table(w, "sales", "any.thing"), true},
		{"SchemasPrefixIsNotTheSchema", "worker", table(w, "sales2", "x"), false},
		{"DotsStayInTheirPart", "worker", table(w, "sales.x", "y"), false},
		{"Quoted", "worker", table(w, "a.b", "Re-any-ply"), true},
		{"QuotedKeepsCase", "worker", table(w, "a.b", "reply"), false},
		{"UnquotedIsFolded", "worker", table(w, "public", "loud"), true},
		{"QuotedIsNotFolded", "worker", table(w, "public", "Loud"), true},
		{"NoOtherCase", "worker", table(w, "public", "LOUD"), false},
		{"Umlaut", "worker", table(w, "public", "ünits"), true},
		{"Bucket", "worker", object(w, "reports", "any/key"), true},
		{"BucketItself", "worker", object(w, "reports", ""), true},
		{"OtherBucket", "worker", object(w, "reports2", "k"), false},
		{"Prefix", "worker", object(w, "logs", "daily/2026/a"), true},
		{"PrefixItselfHasNoWildKey", "worker", object(w, "logs", ""), false},
		{"AllKeys", "worker", object(w, "open", "k"), true},
		{"AllKeysAreNotTheBucket", "worker", object(w, "open", ""), false},
		{"OtherPrefix", "worker", object(w, "logs", "weekly/a"), false},
		{"BucketGlob", "worker", object(w, "archive", "x"), true},
		{"BucketGlobOtherKey", "worker", object(w, "archive", "y/x"), false},

		{"ReadLease", "reader", lease(r, "nightly"), true},
		{"ReadIsNotLease", "reader", lease(l, "nightly"), false},
		{"EveryTable", "reader", table(r, "any", "thing"), true},
		{"EveryBucket", "reader", object(r, "any", "a/b"), true},
		{"ReadIsNotWrite", "reader", object(w, "any", "a/b"), false},
		{"ReadOtherLease", "reader", lease(r, "daily"), false},

		{"AdminBreaks", "operator", lease(a, "any"), true},
		{"AdminLooks", "operator", lease(r, "any"), true},
		{"AdminTakesNoLease", "operator", lease(l, "any"), false},
		{"AdminReadsNoRows", "operator", table(r, "public", "wallets"), false},
		{"AdminWritesNothing", "operator", object(w, "reports", "k"), false},

		{"NoRules", "CN=nobody,O=Example", lease(l, "wallet:42"), false},
		{"NoTarget", "operator", gateway.Action{Verb: a}, false},
		{"NoVerb", "reader", gateway.Action{Lease: "nightly"}, false},
		{"TwoTargets", "reader", gateway.Action{Verb: r, Lease: "nightly", Bucket: "b"}, false},
		{"NoSchema", "reader", gateway.Action{Verb: r, Table: "t"}, false},
		{"KeyWithoutBucket", "reader", gateway.Action{Verb: r, Key: "k"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			who := p.Lookup(c.principal)
			if who == nil || who.Principal() != c.principal {
				t.Fatal("no such principal")
			}
			if got := who.May(c.action); got != c.want {
				t.Errorf("%+v: %v", c.action, got)
			}
		})
	}
}

func TestPolicyTellsWhatItHolds(t *testing.T) {
	var names []string
	for p := range policy(t, team).Principals() {
		names = append(names, p.Principal())
	}
	if len(names) != 4 || names[0] != "worker" || names[3] != "CN=nobody,O=Example" {
		t.Errorf("%q", names)
	}
	rules := policy(t, team).Lookup("worker").Rules()
	if len(rules) != 2 || rules[0].Line != 6 || rules[1].Line != 8 || rules[1].Tables[1] != "sales.*" || rules[1].Verbs[0] != gateway.VerbWrite {
		t.Errorf("%+v", rules)
	}
	if policy(t, team).Lookup("nobody") != nil {
		t.Error("a principal that is not there")
	}
}

func TestDocumentedFilesAreGood(t *testing.T) {
	text, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	policies, whole := make(map[string]*access.Policy), 0
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if !strings.HasPrefix(block, "principals:") && !strings.HasPrefix(block, "issuers:") {
			continue // a part of an entry
		}
		whole++
		p := policy(t, block)
		for who := range p.Principals() {
			policies[who.Principal()] = p
		}
		for i := range p.Issuers() {
			policies[i.Name+"#somebody"] = p
		}
	}
	if whole != 4 {
		t.Errorf("%d whole files", whole)
	}
	const realm = "https://sso.example.com/realms/main"
	for name, a := range map[string]gateway.Action{
		"worker-a":              {Verb: gateway.VerbWrite, Bucket: "reports", Key: "daily/2026/a.csv"},
		"dashboard":             {Verb: gateway.VerbRead, Schema: "sales", Table: "orders"},
		"CN=operator,O=Example": {Verb: gateway.VerbAdmin, Lease: "wallet:42"},
		"clerk":                 {Verb: gateway.VerbWrite, Schema: "public", Table: "wallets"},
		"alice":                 {Verb: gateway.VerbWrite, Schema: "public", Table: "wallets"},
		realm + "#somebody":     {Verb: gateway.VerbWrite, Schema: "public", Table: "wallets"},
		realm + "#8f14e45f-ceea-4678-a1b2-0c5d7e9b3a11": {Verb: gateway.VerbAdmin, Lease: "wallet:42"},
		"https://example.eu.auth0.com/#somebody":        {Verb: gateway.VerbRead, Schema: "public", Table: "wallets"},
	} {
		p := policies[name]
		if p == nil {
			t.Errorf("no file has %s", name)
			continue
		}
		who := p.Subject(name)
		if who == nil {
			who = p.Lookup(name)
		}
		if who == nil || !who.May(a) {
			t.Errorf("%s may not: %+v", name, a)
		}
	}
}
