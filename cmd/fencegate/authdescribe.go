package main

import (
	"fmt"
	"strings"

	"github.com/fencegate/fencegate/gateway/access"
)

// describe prints what a principal may do.
func describe(std *streams, p *access.Principal) {
	var traits []string
	switch n := p.Secrets(); {
	case n > 1:
		traits = append(traits, fmt.Sprintf("%d secrets", n))
	case n == 1:
		traits = append(traits, "1 secret")
	case len(p.AccessKeys()) > 0:
	case p.Issuer() != nil:
		traits = append(traits, fmt.Sprintf("JWTs of %q only", p.Issuer().Name))
	default:
		traits = append(traits, "client certificate only")
	}
	if keys := p.AccessKeys(); len(keys) > 0 {
		traits = append(traits, "S3 keys "+strings.Join(keys, " "))
	}
	if p.Admin() {
		traits = append(traits, "admin")
	}
	as := p.Identity()
	switch {
	case as.Role != "":
		traits = append(traits, fmt.Sprintf("database role %q", as.Role))
	case p.Issuer() != nil:
		traits = append(traits, roleText(p.Issuer())...)
	}
	if len(p.Rules()) == 0 && !p.Admin() {
		traits = append(traits, "may do nothing")
	}
	fmt.Fprintf(std.out, "%q (%s)\n", p.Principal(), strings.Join(traits, ", "))
	if as.Claims != "" {
		fmt.Fprintf(std.out, "  claims %s\n", as.Claims)
	}
	describeRules(std, p.Rules())
}

// describeIssuer prints whose JWTs are accepted, and what subjects without an entry may do.
func describeIssuer(std *streams, i *access.Issuer) {
	traits := append([]string{"audience " + quotedList(i.Audience), "leeway " + i.Leeway.String()}, roleText(i)...)
	if len(i.Rules) == 0 {
		traits = append(traits, "subjects without an entry may do nothing")
	}
	fmt.Fprintf(std.out, "issuer %q (%s)\n  keys from %s%s, for %s\n", i.Name, strings.Join(traits, ", "), i.KeysURL, i.KeysFile, strings.Join(i.Algorithms, " "))
	describeRules(std, i.Rules)
}

func roleText(i *access.Issuer) []string {
	switch {
	case i.Role != "":
		return []string{fmt.Sprintf("database role %q", i.Role)}
	case i.RoleClaim != "":
		return []string{fmt.Sprintf("database role of the claim %q: %s", i.RoleClaim, quotedList(i.Roles))}
	}
	return nil
}

func describeRules(std *streams, rules []access.Rule) {
	for _, r := range rules {
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
	if len(r.Columns) > 0 {
		fmt.Fprintf(&b, "; columns %s", quotedList(r.Columns))
	}
	return b.String()
}

func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(quoted, " ")
}
