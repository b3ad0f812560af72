package access_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

func TestIdentityOfTheFile(t *testing.T) {
	p := policy(t, `
principals:
  - name: plain
  - name: role
    database_role: 'App User'
  - name: claims
    database_role: app_user
    claims: {sub: "a<b", n: 9007199254740993, big: 12345678901234567890123, f: 1.50, e: 1e3, text: "1e3", yes: true, list: [a, 1, false], empty: []}
`)
	for name, want := range map[string]fence.Identity{
		"plain": {},
		"role":  {Role: "App User"},
		"claims": {Role: "app_user",
			Claims: `{"big":12345678901234567890123,"e":1e3,"empty":[],"f":1.50,"list":["a",1,false],"n":9007199254740993,"sub":"a<b","text":"1e3","yes":true}`},
	} {
		got := p.Lookup(name).Identity()
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if got.Claims != "" && !json.Valid([]byte(got.Claims)) {
			t.Errorf("%s: no JSON: %s", name, got.Claims)
		}
	}
}

func TestParseRefusesIdentities(t *testing.T) {
	const head = "principals:\n  - name: a\n    "
	long := strings.Repeat("x", 64)
	for _, c := range []struct {
		name string
		file string // what stands in line 3 from column 5
		want string // without the principal
	}{
		{"RoleIsNumber", "database_role: 1", `3:20: database_role must be a string on one line; put it in quotes`},
		{"EmptyRole", `database_role: ""`, `3:20: database_role: the name is empty`},
		{"LongRole", "database_role: " + long, `3:20: database_role: a name in PostgreSQL has at most 63 bytes, this one has 64`},
		{"ControlRole", `database_role: "a\0b"`, `3:20: database_role: the name has a control character`},
		{"QuotedRole", `database_role: '"App"'`, `3:20: database_role: the name stands as the catalogue has it, without the double quotes of SQL`},
		{"NoneRole", "database_role: none", `3:20: database_role: PostgreSQL keeps none, public and names that begin with pg_ for itself`},
		{"SystemRole", "database_role: pg_monitor", `3:20: database_role: PostgreSQL keeps none, public and names that begin with pg_ for itself`},

		{"ClaimsAreText", "claims: x", `3:13: claims is a mapping of names to strings, numbers, true, false, or lists of those`},
		{"NoClaims", "claims: {}", `3:13: claims is a mapping of names to strings, numbers, true, false, or lists of those`},
		{"ClaimTwice", "claims: {s: 1, s: 2}", `3:20: claims: "s" is given twice`},
		{"NumberAsName", "claims: {1: x}", `3:14: claims: a claim's name is a string`},
		{"Null", "claims: {s: null}", `3:17: claims: a claim is a string on one line, a number, true, false, or a list of those`},
		{"Mapping", "claims: {s: {t: 1}}", `3:17: claims: a claim is a string on one line, a number, true, false, or a list of those`},
		{"ListInList", "claims: {s: [[1]]}", `3:18: claims: a claim is a string on one line, a number, true, false, or a list of those`},
		{"Octal", "claims: {s: 012}", `3:17: claims: write a number as JSON has it, or put it in quotes`},
		{"Hexadecimal", "claims: {s: 0x1F}", `3:17: claims: write a number as JSON has it, or put it in quotes`},
		{"Infinity", "claims: {s: .inf}", `3:17: claims: a claim is a string on one line, a number, true, false, or a list of those`},
		{"TooLarge", "claims: {s: 1e999}", `3:17: claims: write a number as JSON has it, or put it in quotes`},
		{"ZeroByte", `claims: {s: "a\0b"}`, `3:17: claims: PostgreSQL has no text with a zero byte`},
		{"ZeroByteInName", `claims: {"a\0b": 1}`, `3:14: claims: PostgreSQL has no text with a zero byte`},
		{"TooManyBytes", "claims: {s: " + strings.Repeat("x", 4100) + "}", `3:5: claims has at most 4096 bytes as JSON, this has 4108`},

		{"ColumnsWithoutTables", "allow: [{leases: [a], verbs: [lease], columns: [b]}]", `3:14: the rule has columns and no tables`},
		{"ColumnsOfBuckets", "allow: [{buckets: [a], verbs: [read], columns: [b]}]", `3:14: the rule has columns and no tables`},
		{"NoColumns", "allow: [{tables: [a], verbs: [read], columns: []}]", `3:42: columns is an empty list`},
		{"ColumnTwice", "allow: [{tables: [a], verbs: [read], columns: [b, b]}]", `3:55: columns: "b" is given twice`},
		{"AnyColumn", "allow: [{tables: [a], verbs: [read], columns: ['b*']}]", `3:52: columns: a column is named in full, without *; a rule without columns allows all`},
		{"QuotedColumn", `allow: [{tables: [a], verbs: [read], columns: ['"b"']}]`, `3:52: columns: the name stands as the catalogue has it, without the double quotes of SQL`},
		{"LongColumn", "allow: [{tables: [a], verbs: [read], columns: [" + long + "]}]", `3:52: columns: a name in PostgreSQL has at most 63 bytes, this one has 64`},
	} {
		t.Run(c.name, func(t *testing.T) {
			at, message, _ := strings.Cut(c.want, ": ")
			refused(t, head+c.file+"\n", at+`: principal "a": `+message)
		})
	}
}

func TestColumns(t *testing.T) {
	p := policy(t, `
principals:
  - name: a
    allow:
      - {tables: [wallets], verbs: [read, write], columns: [owner, balance, aab]}
      - {tables: ["wa*"], verbs: [read], columns: [aaa]}
      - {tables: ["w*"], verbs: [read], columns: [Note, owner]}
      - {tables: [whole], verbs: [read, write]}
      - {tables: [whole], verbs: [write], columns: [x]}
      - {tables: [mixed], buckets: [b], leases: [l], verbs: [lease, read], columns: [x]}
`).Lookup("a")
	table := func(v gateway.Verb, name string) gateway.Action {
		return gateway.Action{Verb: v, Schema: "public", Table: name}
	}
	for _, c := range []struct {
		name   string
		action gateway.Action
		want   []string // sorted
	}{
		{"Union", table(gateway.VerbRead, "wallets"), []string{"Note", "aaa", "aab", "balance", "owner"}},
		{"OfTheVerb", table(gateway.VerbWrite, "wallets"), []string{"aab", "balance", "owner"}},
		{"OfOneRule", table(gateway.VerbRead, "ways"), []string{"Note", "aaa", "owner"}},
		{"AllWins", table(gateway.VerbRead, "whole"), nil},
		{"AllWinsFirst", table(gateway.VerbWrite, "whole"), nil},
		{"NoneWithoutRule", table(gateway.VerbWrite, "mixed"), []string{}},
		{"ObjectsHaveNone", gateway.Action{Verb: gateway.VerbRead, Bucket: "b", Key: "k"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := p.Columns(c.action)
			if (got == nil) != (c.want == nil) {
				t.Fatalf("%#v, want %#v", got, c.want)
			}
			if got = slices.Clone(got); got != nil {
				slices.Sort(got)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	// What is answered is of the policy: the union is not made in a rule's own list.
	if got := p.Rules()[0].Columns; !slices.Equal(got, []string{"owner", "balance", "aab"}) {
		t.Errorf("the rule is now about %q", got)
	}
	if !p.May(table(gateway.VerbRead, "mixed")) || !p.May(gateway.Action{Verb: gateway.VerbRead, Bucket: "b", Key: "k"}) {
		t.Error("columns limit more than tables")
	}
}
