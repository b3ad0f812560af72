package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/access"
)

type authCmd struct {
	New   authNewCmd   `cmd:"" help:"Make a secret for a principal, and print the entry for the file of principals."`
	Check authCheckCmd `cmd:"" help:"Check a file of principals, list what it allows, or ask it a question."`
}

type authCheckCmd struct {
	File      string `arg:"" env:"FENCEGATE_AUTH_FILE" help:"File of principals (YAML)."`
	Principal string `env:"FENCEGATE_AUTH_PRINCIPAL" placeholder:"NAME" help:"Only this principal."`
	Can       string `env:"FENCEGATE_AUTH_CAN" placeholder:"QUESTION" help:"Ask whether the principal may do this; the exit code is 0 for yes and 1 for no."`
}

// Help is shown below the flags of fencegate auth check.
func (authCheckCmd) Help() string {
	return `A question is a verb and what it is about, named as in the paths of the API; a table needs no rows/ before it.

  fencegate auth check auth.yaml
  fencegate auth check auth.yaml --principal worker-a --can 'lease wallet:42'
  fencegate auth check auth.yaml --principal worker-a --can 'write public.wallets'
  fencegate auth check auth.yaml --principal worker-a --can 'read objects/reports/2026/a.csv'
  fencegate auth check auth.yaml --principal worker-a --can 'read leases/wallet:42'
  fencegate auth check auth.yaml --principal operator --can 'admin wallet:42'`
}

// Run checks the file.
func (c *authCheckCmd) Run(std *streams) error {
	policy, err := access.Load(c.File)
	if err != nil {
		return err
	}
	only := policy.Lookup(c.Principal)
	switch {
	case c.Principal != "" && only == nil:
		return fmt.Errorf("%s has no principal %q", c.File, c.Principal)
	case c.Can != "" && only == nil:
		return errors.New("--can needs the principal that it is about (--principal)")
	case c.Can != "":
		return c.answer(std, only)
	}
	for p := range policy.Principals() {
		if only == nil || p == only {
			describe(std, p)
		}
	}
	return nil
}

func (c *authCheckCmd) answer(std *streams, p *access.Principal) error {
	a, err := question(c.Can)
	if err != nil {
		return fmt.Errorf("--can %q: %w", c.Can, err)
	}
	if !p.May(a) {
		return fmt.Errorf("no: %q may not %s", p.Principal(), c.Can)
	}
	fmt.Fprintf(std.out, "yes: %q may %s\n", p.Principal(), c.Can)
	return nil
}

func describe(std *streams, p *access.Principal) {
	var traits []string
	switch n := p.Secrets(); n {
	case 0:
		traits = append(traits, "client certificate only")
	case 1:
		traits = append(traits, "1 secret")
	default:
		traits = append(traits, fmt.Sprintf("%d secrets", n))
	}
	if p.Admin() {
		traits = append(traits, "admin")
	}
	if len(p.Rules()) == 0 && !p.Admin() {
		traits = append(traits, "may do nothing")
	}
	fmt.Fprintf(std.out, "%q (%s)\n", p.Principal(), strings.Join(traits, ", "))
	for _, r := range p.Rules() {
		fmt.Fprintf(std.out, "  line %d: %s\n", r.Line, ruleText(r))
	}
}

func ruleText(r access.Rule) string {
	var b strings.Builder
	for i, v := range r.Verbs {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(v))
	}
	for _, targets := range []struct {
		kind     string
		patterns []string
	}{{"leases", r.Leases}, {"tables", r.Tables}, {"buckets", r.Buckets}} {
		if len(targets.patterns) > 0 {
			fmt.Fprintf(&b, "; %s %s", targets.kind, strings.Join(targets.patterns, " "))
		}
	}
	return b.String()
}

// question reads what --can asks.
func question(s string) (gateway.Action, error) {
	word, about, _ := strings.Cut(s, " ")
	about = strings.TrimSpace(about)
	a := gateway.Action{Verb: gateway.Verb(word)}
	if about == "" {
		return a, fmt.Errorf("a question is a verb and what it is about, such as %q", "write public.wallets")
	}
	switch a.Verb {
	case gateway.VerbLease, gateway.VerbAdmin:
		a.Lease = strings.TrimPrefix(about, "leases/")
		return a, nil
	case gateway.VerbRead, gateway.VerbWrite:
	default:
		return a, fmt.Errorf("there is no verb %q; there are lease, read, write and admin", word)
	}
	if lease, found := strings.CutPrefix(about, "leases/"); found {
		a.Lease = lease
		return a, nil
	}
	if object, found := strings.CutPrefix(about, "objects/"); found {
		a.Bucket, a.Key, _ = strings.Cut(object, "/")
		return a, nil
	}
	t, err := fence.ParseTableName(strings.TrimPrefix(about, "rows/"))
	a.Schema, a.Table = t.Schema, t.Name
	return a, err
}
