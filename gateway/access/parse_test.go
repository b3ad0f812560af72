package access_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/gateway/access"
)

const (
	hashA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" // of "test"
	hashB = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752" // of "test2"
)

func TestParseRefuses(t *testing.T) {
	const head = "principals:\n  - name: a\n"
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		name string
		file string
		want string // the whole message
	}{
		{"Empty", "", `1:1: the file is empty: it needs the key principals`},
		{"OnlyComments", "# none yet\n", `1:1: the file is empty: it needs the key principals`},
		{"NoKeys", "{}", `1:1: the file needs the key principals`},
		{"NotAMapping", "- a\n", `1:1: the file is a mapping with the keys principals, issuers`},
		{"NoPrincipals", "principals:\n", `1:1: principals must be a list`},
		{"EmptyList", "\nprincipals: []\n", `2:1: principals is an empty list`},
		{"UnknownTopKey", "principals:\n  - name: a\nprincipal: []\n", `3:1: the file has no key "principal"; it has principals, issuers`},
		{"TopKeyTwice", head + "principals:\n  - name: b\n", `3:1: principals is given twice, first in line 1`},
		{"TwoDocuments", head + "---\nprincipals: []\n", `3:1: the file has more than one document`},
		{"Unclosed", head + "    allow: [\n", `3:12: this is not YAML: sequence end token ']' not found`},
		{"Tab", "principals:\n\t- name: a\n", `2:1: this is not YAML: found character '	' that cannot start any token`},
		{"NotUTF8", "principals:\n  - name: \"\xff\"\n", `2:12: the file is not UTF-8 here`},
		{"TooLarge", head + strings.Repeat("# padding\n", 110_000), `1:1: the file has more than 1048576 bytes`},
		{"Anchor", "principals: &p\n  - name: a\n", `1:13: anchors, tags, directives, merge keys and keys with ? are not allowed`},
		{"MergeKey", "principals:\n  - <<: {name: a}\n", `2:5: anchors, tags, directives, merge keys and keys with ? are not allowed`},
		{"Tag", "principals:\n  - name: !!str 1\n", `2:11: anchors, tags, directives, merge keys and keys with ? are not allowed`},
		{"QuestionKey", "? principals\n: []\n", `1:1: anchors, tags, directives, merge keys and keys with ? are not allowed`},
		{"Alias", head + "    allow:\n      - leases: [*]\n        verbs: [lease]\n", `4:18: aliases are not allowed; put a pattern that begins with * in quotes`},

		{"EntryIsText", "principals:\n  - a\n", `2:5: a principal is a mapping with the keys name, secret_sha256, s3_keys, admin, database_role, claims, allow`},
		{"EntryIsNull", "principals:\n  -\n", `2:5: a principal is a mapping with the keys name, secret_sha256, s3_keys, admin, database_role, claims, allow`},
		{"NoName", "principals:\n  - admin: true\n", `2:10: the principal has no name`},
		{"EmptyName", "principals:\n  - name: \"\"\n", `2:11: the name is empty`},
		{"NullName", "principals:\n  - name:\n", `2:11: name must be a string on one line; put it in quotes`},
		{"NumberName", "principals:\n  - name: 42\n", `2:11: name must be a string on one line; put it in quotes`},
		{"BlockName", "principals:\n  - name: |\n      a\n", `2:11: name must be a string on one line; put it in quotes`},
		{"ControlName", "principals:\n  - name: \"a\\nb\"\n", `2:11: principal "a\nb": the name has a control character`},
		{"LongName", "principals:\n  - name: " + long + "\n", `2:11: principal "` + long[:80] + `"…: a name has at most 256 bytes, this one has 300`},
		{"Anonymous", "principals:\n  - name: anonymous\n", `2:11: principal "anonymous": anonymous is what everybody is called without authentication`},
		{"SameName", head + "  - admin: true\n    name: a\n", `4:11: principal "a": the name is taken: line 2 has it`},
		{"NameTwice", head + "    name: b\n", `3:5: principal "a": name is given twice, first in line 2`},
		{"UnknownKey", "principals:\n  - secret: x\n    name: a\n", `2:5: principal "a": a principal has no key "secret"; it has name, secret_sha256, s3_keys, admin, database_role, claims, allow`},
		{"NumberKey", head + "    1: x\n", `3:5: principal "a": a principal has no key of this kind; it has name, secret_sha256, s3_keys, admin, database_role, claims, allow`},
		{"AdminWord", head + "    admin: yes\n", `3:5: principal "a": admin must be true or false`},

		{"ShortHash", head + "    secret_sha256: " + hashA[1:] + "\n", `3:20: principal "a": secret_sha256 is 64 hexadecimal digits, this one has 63 characters`},
		{"OddHash", head + "    secret_sha256: g" + hashA[1:] + "\n", `3:20: principal "a": secret_sha256 has a character that is no hexadecimal digit`},
		{"SecretItself", head + "    secret_sha256: fg_" + hashA[:43] + "\n", `3:20: principal "a": secret_sha256 holds a secret, not its SHA-256: take a new secret, this one was written down`},
		{"HashOfNothing", head + "    secret_sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n", `3:20: principal "a": secret_sha256 is the hash of an empty secret`},
		{"NullHash", head + "    secret_sha256:\n", `3:20: principal "a": secret_sha256 must be a string on one line; put it in quotes`},
		{"NoHashes", head + "    secret_sha256: []\n", `3:5: principal "a": secret_sha256 is an empty list`},
		{"FiveHashes", head + "    secret_sha256: [a, b, c, d, e]\n", `3:33: principal "a": secret_sha256 has at most 4 hashes`},
		{"SameHash", head + "    secret_sha256: " + hashA + "\n  - name: b\n    secret_sha256: " + strings.ToUpper(hashA) + "\n", `5:20: principal "b": secret_sha256: the same secret stands in line 3, of principal "a"`},
		{"SameHashOfOne", head + "    secret_sha256: [" + hashB + "," + hashB + "]\n", `3:86: principal "a": secret_sha256: the same secret stands in line 3, of principal "a"`},
		{"AfterCRLF", "principals:\r\n  - name: a\r\n\r\n    admin: 1\r\n", `4:5: principal "a": admin must be true or false`},
		{"AfterComments", "# one\n\nprincipals: # two\n  # three\n  - name: a # four\n    # five\n    admin: 1\n", `7:5: principal "a": admin must be true or false`},
		{"AfterFoldedText", "principals:\n  - name: \"a\n      b\"\n    admin: 1\n", `4:5: principal "a b": admin must be true or false`},
		{"AfterFoldedPlainText", "principals:\n  - name: a\n      b\n    admin: 1\n", `4:5: principal "a b": admin must be true or false`},
		{"AfterOtherLetters", "principals:\n  - {name: äöü, admin: 1}\n", `2:17: principal "äöü": admin must be true or false`},
		{"ManyKeys", "principals:\n  - name: a\n" + strings.Repeat("    x: 1\n", 16), `18:6: a mapping has more than 16 keys`},
		{"HashAsName", "principals:\n  - name: " + hashA + "\n    admin: 1\n", `3:5: principal (not shown: it looks like a secret): admin must be true or false`},
		{"HashAsKey", head + "    " + hashA + ": x\n", `3:5: principal "a": a principal has no key (not shown: it looks like a secret); it has name, secret_sha256, s3_keys, admin, database_role, claims, allow`},
		{"HashAsKeyTwice", head + "    " + hashA + ": x\n    " + hashA + ": x\n", `3:5: principal "a": a principal has no key (not shown: it looks like a secret); it has name, secret_sha256, s3_keys, admin, database_role, claims, allow`},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.file, c.want) })
	}
}

func TestParseRefusesRules(t *testing.T) {
	for _, c := range []struct {
		name string
		rule string // what stands in allow, from line 4 and column 7 on
		want string // without the principal
	}{
		{"Null", "", `3:5: allow must be a list`},
		{"Text", "- wallets", `4:9: a rule is a mapping with the keys leases, tables, buckets, verbs, columns`},
		{"UnknownKey", "- lease: [a]", `4:9: a rule has no key "lease"; it has leases, tables, buckets, verbs, columns`},
		{"KeyTwice", "- {leases: [a], leases: [b], verbs: [lease]}", `4:23: leases is given twice, first in line 4`},
		{"NoVerbs", "- {leases: [a]}", `4:10: the rule has no verbs`},
		{"EmptyVerbs", "- {leases: [a], verbs: []}", `4:23: verbs is an empty list`},
		{"NoTargets", "- {verbs: [read]}", `4:10: the rule has no leases, tables or buckets`},
		{"UnknownVerb", "- {leases: [a], verbs: [lock]}", `4:31: verbs: there is no verb "lock"; there are lease, read and write`},
		{"CapitalVerb", "- {leases: [a], verbs: [Lease]}", `4:31: verbs: there is no verb "Lease"; there are lease, read and write`},
		{"AdminVerb", "- {leases: [a], verbs: [admin]}", `4:31: verbs: admin is a key of the principal, not a verb of a rule`},
		{"VerbTwice", "- {leases: [a], verbs: [lease, lease]}", `4:38: verbs: lease is given twice`},
		{"VerbIsText", "- {leases: [a], verbs: lease}", `4:23: verbs must be a list`},
		{"LeaseOnTables", "- {tables: [a], verbs: [read, lease]}", `4:10: the verb lease allows nothing in this rule: it is for leases`},
		{"WriteOnLeases", "- {leases: [a], verbs: [lease, write]}", `4:10: the verb write allows nothing in this rule: it is for tables, buckets`},
		{"LeasesWithoutVerb", "- {leases: [a], tables: [a], verbs: [write]}", `4:10: the rule's leases need the verb lease or read`},
		{"TablesWithoutVerb", "- {leases: [a], tables: [a], verbs: [lease]}", `4:10: the rule's tables and buckets need the verb read or write`},

		{"PatternIsNumber", "- {leases: [1], verbs: [lease]}", `4:19: leases must be a string on one line; put it in quotes`},
		{"EmptyPattern", `- {leases: [""], verbs: [lease]}`, `4:19: leases: the pattern is empty`},
		{"ControlInPattern", `- {leases: ["a\tb"], verbs: [lease]}`, `4:19: leases: the pattern has a control character`},
		{"LongPattern", "- {leases: [" + strings.Repeat("*", 2101) + "], verbs: [lease]}", `4:19: aliases are not allowed; put a pattern that begins with * in quotes`},
		{"LongQuotedPattern", `- {leases: ["` + strings.Repeat("*", 2101) + `"], verbs: [lease]}`, `4:19: leases: a pattern has at most 2100 bytes, this one has 2101`},
		{"LongerThanAnyLease", `- {leases: ["` + strings.Repeat("a", 2049) + `*"], verbs: [lease]}`, `4:19: leases: the pattern matches nothing: a lease name has at most 2048 bytes`},
		{"LongerThanAnyTable", `- {tables: ["` + strings.Repeat("a", 64) + `"], verbs: [read]}`, `4:19: tables: the pattern matches nothing: PostgreSQL cuts identifiers at 63 bytes`},
		{"LongerThanAnyKey", `- {buckets: ["b/` + strings.Repeat("a", 1025) + `"], verbs: [read]}`, `4:20: buckets: the pattern matches nothing: an object key has at most 1024 bytes`},
		{"ThreeParts", "- {tables: [a.b.c], verbs: [read]}", `4:19: tables: a table is schema.table, nothing more`},
		{"EmptySchema", "- {tables: [.c], verbs: [read]}", `4:19: tables: a part of the table's name is empty`},
		{"EmptyTable", "- {tables: [a.], verbs: [read]}", `4:19: tables: a part of the table's name is empty`},
		{"EmptyQuotes", `- {tables: ['""'], verbs: [read]}`, `4:19: tables: a part of the table's name is empty`},
		{"OpenQuote", `- {tables: ['"a'], verbs: [read]}`, `4:19: tables: the closing double quote is missing`},
		{"Hyphen", "- {tables: [a-b], verbs: [read]}", `4:19: tables: put an identifier with other characters than letters, digits, _ and $ in double quotes, as in SQL`},
		{"TextAfterQuote", `- {tables: ['"a"b'], verbs: [read]}`, `4:19: tables: put an identifier with other characters than letters, digits, _ and $ in double quotes, as in SQL`},
		{"Space", `- {tables: [" a"], verbs: [read]}`, `4:19: tables: put an identifier with other characters than letters, digits, _ and $ in double quotes, as in SQL`},
		{"Digit", "- {tables: [2a], verbs: [read]}", `4:19: tables: put an identifier that begins with a digit or $ in double quotes, as in SQL`},
		{"NoBucket", "- {buckets: [/a], verbs: [read]}", `4:20: buckets: the bucket's name is empty`},
		{"EmptyKey", "- {buckets: [a/], verbs: [read]}", `4:20: buckets: the pattern matches nothing: write bucket, or bucket/* for the keys below it`},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := "principals:\n  - name: a\n    allow:\n      " + c.rule + "\n"
			at, message, _ := strings.Cut(c.want, ": ")
			if !strings.HasPrefix(message, "aliases") {
				message = `principal "a": ` + message
			}
			refused(t, file, at+": "+message)
		})
	}
}

func refused(t *testing.T, file, want string) {
	t.Helper()
	_, err := access.Parse([]byte(file))
	var bad *access.FileError
	if !errors.As(err, &bad) {
		t.Fatalf("%v", err)
	}
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	for _, hash := range []string{hashA, hashB, strings.ToUpper(hashA), hashA[1:], hashA[:43]} {
		if strings.Contains(err.Error(), hash) {
			t.Errorf("the error shows a hash: %s", err)
		}
	}
	if at := fmt.Sprintf("%d:%d: ", bad.Line, bad.Column); !strings.HasPrefix(want, at) {
		t.Errorf("the error's place is %s", at)
	}
}

// A small file must not become a large one, nor a deep one end the program.
func TestParseRefusesBombs(t *testing.T) {
	const size = 1 << 18
	for name, piece := range map[string]string{
		"Brackets": "[", "Braces": "{", "Entries": "- ", "Keys": "? ", "Tags": "!a ", "Anchors": "&a ", "Aliases": "*a ",
		"Colons": ": ", "Lines": "a:\n", "Documents": "---\n", "Nulls": "\x00", "Comments": "#\n", "Quotes": "''\n", "Pairs": "{a: ", "Values": "a: ",
		"EmptyMaps": "a: {}\n", "EmptyLists": "a: []\n", "NestedKeys": "a:\n b:\n", "FlowKeys": "a: b,", "Items": "- a\n",
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			if _, err := access.Parse([]byte(strings.Repeat(piece, size/len(piece)))); err == nil {
				t.Error("it was read")
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Run("OK", func(t *testing.T) {
		p, err := access.Load(write("good.yaml", "\ufeffprincipals:\r\n  - name: a\r\n    admin: true\r\n"))
		if err != nil || p.Lookup("a") == nil || !p.Lookup("a").Admin() {
			t.Fatal(p, err)
		}
	})
	t.Run("NamesFileAndLine", func(t *testing.T) {
		path := write("bad.yaml", "principals:\n  - name: a\n    admin: 1\n")
		_, err := access.Load(path)
		if want := path + `:3:5: principal "a": admin must be true or false`; err == nil || err.Error() != want {
			t.Fatalf("%v, want %s", err, want)
		}
	})
	t.Run("Missing", func(t *testing.T) {
		if _, err := access.Load(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	})
	t.Run("Folder", func(t *testing.T) {
		if _, err := access.Load(dir); err == nil {
			t.Fatal("a folder was read")
		}
	})
}
