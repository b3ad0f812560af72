package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/access"
)

// newPrincipal runs auth new, and returns the secret and the policy of what it prints.
func newPrincipal(t *testing.T, args ...string) (secret string, policy *access.Policy) {
	t.Helper()
	code, out, errs := command(t, append([]string{"auth", "new"}, args...)...)
	label, rest, _ := strings.Cut(out, "\n")
	secret, labelled := strings.CutPrefix(label, "secret: ")
	if code != 0 || errs != "" || !labelled || !regexp.MustCompile(`^fg_[A-Za-z0-9_-]{43}$`).MatchString(secret) {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	if strings.Contains(rest, secret) {
		t.Error("the secret is printed twice")
	}
	_, entry, _ := strings.Cut(out, "\n  - ")
	policy, err := access.Parse([]byte("principals:\n  - " + entry))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return secret, policy
}

func TestAuthNew(t *testing.T) {
	t.Run("SecretOpensTheGateway", func(t *testing.T) {
		secret, policy := newPrincipal(t, "worker-a")
		other, _ := newPrincipal(t, "worker-a")
		a, err := access.New(access.Config{Policy: policy})
		if err != nil || secret == other {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		if who, err := a.Authenticate(r); err != nil || who.Principal() != "worker-a" {
			t.Fatal(who, err)
		}
		if p := policy.Lookup("worker-a"); p.Admin() || len(p.Rules()) != 0 {
			t.Error("it may do something before anybody has said so")
		}
	})
	for _, c := range []struct {
		name  string
		args  []string
		rules string
	}{
		{"Admin", []string{"--admin"}, ""},
		{"Leases", []string{"--allow-lease=wallet:*", "--allow-lease=a,b"}, "lease; leases wallet:* a,b"},
		{"All", []string{"--allow-lease=l", `--allow-table="a.b"."T"`, "--allow-bucket=b/*"}, `lease; leases l|read, write; tables "a.b"."T"; buckets b/*`},
		{"ReadOnly", []string{"--allow-lease=l", "--allow-table=*", "--verb=read"}, "read; leases l|read; tables *"},
		{"WriteOnly", []string{"--allow-bucket=b", "--verb=write"}, "write; buckets b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const name = `a "b" \n: #`
			_, policy := newPrincipal(t, append(c.args, name)...)
			p := policy.Lookup(name)
			if p == nil || p.Admin() != (c.name == "Admin") {
				t.Fatalf("%+v", p)
			}
			var rules []string
			for _, r := range p.Rules() {
				rules = append(rules, ruleText(r))
			}
			if got := strings.Join(rules, "|"); got != c.rules {
				t.Errorf("%s", got)
			}
		})
	}
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"EmptyName", []string{""}, "the name is empty"},
		{"ControlName", []string{"a\nb"}, "control character"},
		{"Anonymous", []string{gateway.Anonymous}, "without authentication"},
		{"BadTable", []string{"a", "--allow-table=a b"}, "in double quotes"},
		{"BadBucket", []string{"a", "--allow-bucket=b/"}, "matches nothing"},
		{"UnknownVerb", []string{"a", "--allow-lease=l", "--verb=lock"}, `no verb "lock"`},
		{"VerbWithoutTarget", []string{"a", "--verb=read"}, "nothing that it could be allowed on"},
		{"VerbForOtherTarget", []string{"a", "--allow-lease=l", "--verb=lease,write"}, "--verb write"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := command(t, append([]string{"auth", "new"}, c.args...)...)
			if code != 1 || out != "" || !strings.Contains(errs, c.says) {
				t.Errorf("exit %d, %q in:\n%s%s", code, c.says, out, errs)
			}
		})
	}
}

func TestAuthCheck(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	const file = `principals:
  - name: worker
    secret_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    allow:
      - {leases: ["wallet:*"], verbs: [lease]}
      - {tables: [wallets], buckets: ["reports/daily/*"], verbs: [write]}
  - {name: operator, admin: true}
  - {name: idle}
`
	for path, text := range map[string]string{good: file, bad: strings.Replace(file, "[write]", "[wirte]", 1)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	worker := func(question string) []string { return []string{good, "--principal=worker", "--can=" + question} }
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"Lists", []string{good}, 0, "\"worker\" (1 secret)\n  line 5: lease; leases wallet:*\n  line 6: write; tables wallets; buckets reports/daily/*\n" +
			"\"operator\" (client certificate only, admin)\n\"idle\" (client certificate only, may do nothing)\n"},
		{"ListsOne", []string{good, "--principal=operator"}, 0, "\"operator\" (client certificate only, admin)\n"},
		{"NamesTheLine", []string{bad}, 1, bad + `:6:67: principal "worker": verbs: there is no verb "wirte"`},
		{"NoFile", []string{filepath.Join(dir, "none")}, 1, "no such file"},
		{"NoPrincipal", []string{good, "--principal=x"}, 1, `no principal "x"`},
		{"NobodyAsked", []string{good, "--can=lease x"}, 1, "--can needs the principal"},
		{"Lease", worker("lease wallet:42"), 0, "yes"},
		{"LeaseLooks", worker("read leases/wallet:42"), 0, "yes"},
		{"NoLease", worker("lease job"), 1, "no: "},
		{"Table", worker("write wallets"), 0, "yes"},
		{"TableWithSchema", worker(`write rows/"public".wallets`), 0, "yes"},
		{"NoRead", worker("read wallets"), 1, "no: "},
		{"Object", worker("write objects/reports/daily/a.csv"), 0, "yes"},
		{"NoObject", worker("write objects/reports/weekly"), 1, "no: "},
		{"NoAdmin", worker("admin wallet:42"), 1, "no: "},
		{"Admin", []string{good, "--principal=operator", "--can=admin leases/wallet:42"}, 0, "yes"},
		{"UnknownVerb", worker("lock wallet:42"), 1, `no verb "lock"`},
		{"NoTarget", worker("read"), 1, "a question is"},
		{"NoTable", worker("read a b"), 1, "not a table's name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := command(t, append([]string{"auth", "check"}, c.args...)...)
			if code != c.code || !strings.Contains(out+errs, c.says) {
				t.Errorf("exit %d, want %d, and %q in:\n%s%s", code, c.code, c.says, out, errs)
			}
		})
	}
}
