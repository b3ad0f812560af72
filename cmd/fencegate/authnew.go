package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/access"
)

type authNewCmd struct {
	Name        string   `arg:"" help:"Name of the principal."`
	Admin       bool     `env:"FENCEGATE_AUTH_ADMIN" help:"It may end grants of others, and look at every lease."`
	AllowLease  []string `env:"FENCEGATE_AUTH_ALLOW_LEASE" sep:"none" placeholder:"PATTERN" help:"Leases it may take (--verb read: look at). May be repeated."`
	AllowTable  []string `env:"FENCEGATE_AUTH_ALLOW_TABLE" sep:"none" placeholder:"PATTERN" help:"Tables it may read and write, quoted as in SQL. May be repeated."`
	AllowBucket []string `env:"FENCEGATE_AUTH_ALLOW_BUCKET" sep:"none" placeholder:"PATTERN" help:"Buckets (reports) or parts of them (reports/daily/*) it may read and write. May be repeated."`
	Verb        []string `env:"FENCEGATE_AUTH_VERB" placeholder:"VERB" help:"Allow only these verbs: lease, read, write. Defaults to all that fit."`
}

// Help is shown below the flags of fencegate auth new.
func (authNewCmd) Help() string {
	return `The secret is printed once; the entry holds only its hash, and is pasted below "principals:" in the file.

  fencegate auth new worker-a --allow-lease 'wallet:*' --allow-table wallets --allow-bucket 'reports/daily/*'
  fencegate auth new dashboard --allow-table '*' --allow-bucket '*' --verb read
  fencegate auth new operator --admin`
}

// secretBytes are more than anybody guesses.
const secretBytes = 32

// Run makes the secret.
func (c *authNewCmd) Run(std *streams) error {
	if err := access.CheckName(c.Name); err != nil {
		return err
	}
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // never fails
	secret := access.GeneratedPrefix + base64.RawURLEncoding.EncodeToString(random)
	entry, err := c.entry(secret)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, `secret: %s

# The secret is not shown again. Its bearer sends it as Authorization: Bearer (clients of fencegate read FENCEGATE_AUTH_TOKEN).
# This goes below "principals:" in the file of FENCEGATE_AUTH_FILE, of which a SIGHUP makes the gateway read the new state:

%s`, secret, entry)
	return nil
}

// entry is YAML that says what the flags say, which is seen by reading it back.
func (c *authNewCmd) entry(secret string) (string, error) {
	rules, err := c.rules()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(secret))
	var b strings.Builder
	fmt.Fprintf(&b, "  - name: %s\n    secret_sha256: %s\n", yamlString(c.Name), yamlString(hex.EncodeToString(sum[:])))
	if c.Admin {
		b.WriteString("    admin: true\n")
	}
	switch {
	case len(rules) > 0:
		b.WriteString("    allow:\n" + strings.Join(rules, ""))
	case !c.Admin:
		b.WriteString("    # It may do nothing until a rule says so:\n" +
			"    # allow:\n    #   - leases: [\"wallet:*\"]\n    #     verbs: [lease]\n    #   - tables: [\"public.wallets\"]\n    #     verbs: [read, write]\n")
	}
	policy, err := access.Parse([]byte("principals:\n" + b.String()))
	var bad *access.FileError
	switch {
	case errors.As(err, &bad):
		return "", errors.New(bad.Message)
	case err != nil:
		return "", err
	case policy.Lookup(c.Name) == nil:
		return "", fmt.Errorf("the name %q cannot be written in the file", c.Name)
	}
	return b.String(), nil
}

// rules are one for leases and one for tables and buckets, each with the verbs that it can give.
func (c *authNewCmd) rules() ([]string, error) {
	verbs := c.Verb
	if len(verbs) == 0 {
		verbs = []string{string(gateway.VerbLease), string(gateway.VerbRead), string(gateway.VerbWrite)}
	}
	leases, data := len(c.AllowLease) > 0, len(c.AllowTable)+len(c.AllowBucket) > 0
	var onLeases, onData []string
	for _, v := range verbs {
		fits := false
		if leases && v != string(gateway.VerbWrite) {
			onLeases, fits = append(onLeases, v), true
		}
		if data && v != string(gateway.VerbLease) {
			onData, fits = append(onData, v), true
		}
		if !fits && len(c.Verb) > 0 {
			return nil, fmt.Errorf("--verb %s: there is nothing that it could be allowed on", v)
		}
	}
	if slices.Contains(onLeases, string(gateway.VerbLease)) {
		// Who may take a lease may look at it.
		onLeases = slices.DeleteFunc(onLeases, func(v string) bool { return v == string(gateway.VerbRead) })
	}
	var rules []string
	if leases {
		rules = append(rules, ruleYAML(onLeases, yamlList{"leases", c.AllowLease}))
	}
	if data {
		rules = append(rules, ruleYAML(onData, yamlList{"tables", c.AllowTable}, yamlList{"buckets", c.AllowBucket}))
	}
	return rules, nil
}

type yamlList struct {
	key    string
	values []string
}

func ruleYAML(verbs []string, targets ...yamlList) string {
	var b strings.Builder
	indent := "      - "
	for _, l := range append(targets, yamlList{"verbs", verbs}) {
		if len(l.values) == 0 {
			continue
		}
		quoted := make([]string, len(l.values))
		for i, v := range l.values {
			quoted[i] = yamlString(v)
		}
		fmt.Fprintf(&b, "%s%s: [%s]\n", indent, l.key, strings.Join(quoted, ", "))
		indent = "        "
	}
	return b.String()
}

// yamlString quotes always: a name such as 42 or null is a string nevertheless.
func yamlString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
