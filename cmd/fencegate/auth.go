package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
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
	Principal string `env:"FENCEGATE_AUTH_PRINCIPAL" placeholder:"NAME" help:"Only this principal; ISSUER#SUBJECT is one that comes with JWTs of an issuer."`
	TokenFile string `env:"FENCEGATE_AUTH_TOKEN_FILE" placeholder:"FILE" help:"Only the principal that the secret or JWT in this file names; - reads it from standard input. An issuer's keys are fetched."`
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
  fencegate auth check auth.yaml --principal operator --can 'admin wallet:42'
  fencegate auth check auth.yaml --principal 'https://id.example.com/#alice' --can 'write wallets'
  fencegate auth check auth.yaml --token-file alice.jwt`
}

// Run checks the file.
func (c *authCheckCmd) Run(std *streams, rc *runContext) error {
	policy, err := access.Load(c.File)
	if err != nil {
		return err
	}
	only, err := c.only(rc, std, policy)
	switch {
	case err != nil:
		return err
	case c.Can != "" && only == nil:
		return errors.New("--can needs the principal that it is about (--principal or --token-file)")
	case c.Can != "":
		return c.answer(std, only)
	case only != nil:
		describe(std, only)
		return nil
	}
	for p := range policy.Principals() {
		describe(std, p)
	}
	for i := range policy.Issuers() {
		describeIssuer(std, i)
	}
	return nil
}

// only is the principal that the flags name, nil if they name none.
func (c *authCheckCmd) only(ctx context.Context, std *streams, policy *access.Policy) (*access.Principal, error) {
	switch {
	case c.Principal != "" && c.TokenFile != "":
		return nil, errors.New("give either --principal or --token-file")
	case c.TokenFile != "":
		return c.bearer(ctx, std, policy)
	case c.Principal == "":
		return nil, nil
	}
	if p := policy.Subject(c.Principal); p != nil {
		return p, nil
	}
	if p := policy.Lookup(c.Principal); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s has no principal %q", c.File, c.Principal)
}

// maxCredential is more than a secret or JWT has, in bytes.
const maxCredential = 16 << 10

// bearer names who sends the credential of a file.
func (c *authCheckCmd) bearer(ctx context.Context, std *streams, policy *access.Policy) (*access.Principal, error) {
	source := std.in
	if c.TokenFile != "-" {
		file, err := os.Open(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		defer file.Close()
		source = file
	}
	text, err := io.ReadAll(io.LimitReader(source, maxCredential))
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	a, err := access.New(access.Config{Policy: policy})
	if err != nil {
		return nil, err
	}
	defer a.Close()
	r := (&http.Request{Header: http.Header{"Authorization": {"Bearer " + strings.TrimSpace(string(text))}}}).WithContext(ctx)
	caller, err := a.Authenticate(r)
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	p, _ := caller.(*access.Principal)
	return p, nil
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
