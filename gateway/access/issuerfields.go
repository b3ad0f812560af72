package access

import (
	"fmt"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

func (r *reader) issuer(n ast.Node, at *token.Position) *FileError {
	i := &Issuer{Name: textIn(n, "issuer"), Leeway: defaultLeeway, Algorithms: asymmetric()}
	bad := r.readIssuer(i, n, at)
	if bad != nil {
		bad.Issuer = i.Name
	}
	return bad
}

func (r *reader) readIssuer(i *Issuer, n ast.Node, at *token.Position) *FileError {
	fields, err := fieldsOf(n, "an issuer", at, "issuer", "audience", "jwks_url", "jwks_file", "algorithms", "leeway",
		"database_role", "database_role_claim", "database_roles", "allow")
	if err != nil {
		return err
	}
	at = positionOf(n, at)
	for k, f := range fields {
		if k == 0 {
			at = f.at
		}
		if err := i.read(f); err != nil {
			return err
		}
	}
	i.Line = at.Line
	if err := i.check(at, fields); err != nil {
		return err
	}
	if first := r.policy.byIssuer[i.Name]; first != nil {
		return errorAt(at, "the issuer is given twice, first in line %d", first.Line)
	}
	if len(r.policy.issuers) == maxIssuers {
		return errorAt(at, "a file has at most %d issuers", maxIssuers)
	}
	r.policy.issuers = append(r.policy.issuers, i)
	r.policy.byIssuer[i.Name] = i
	return nil
}

func (i *Issuer) read(f field) (err *FileError) {
	switch f.key {
	case "issuer":
		_, err = f.checked(checkIssuerName) // errors name it whether it is good or not
	case "audience":
		i.Audience, err = f.several(maxAudiences, func(s string) error { return checkText(s, maxURL) })
	case "jwks_url":
		i.KeysURL, err = f.checked(checkKeysURL)
	case "jwks_file":
		i.keysAt = positionOf(f.value, f.at)
		i.KeysFile, err = f.checked(func(s string) error { return checkText(s, maxURL) })
	case "algorithms":
		i.Algorithms, err = f.several(len(asymmetric()), checkAlgorithm)
	case "leeway":
		i.Leeway, err = f.leeway()
	case "database_role":
		i.Role, err = f.role(f.value)
	case "database_role_claim":
		i.RoleClaim, err = f.checked(func(s string) error { return checkText(s, maxClaimName) })
	case "database_roles":
		i.Roles, err = f.roles()
	case "allow":
		i.Rules, err = readRules(f)
	}
	return err
}

// checked returns a string that check lets pass.
func (f field) checked(check func(string) error) (string, *FileError) {
	t, err := f.text(f.value)
	if err != nil {
		return "", err
	}
	if bad := check(t.value); bad != nil {
		return "", errorAt(t.at, "%s: %s", f.key, bad)
	}
	return t.value, nil
}

// several returns one string or a list of them, each once, that check lets pass.
func (f field) several(most int, check func(string) error) ([]string, *FileError) {
	if _, isList := f.value.(*ast.SequenceNode); !isList {
		one, err := f.checked(check)
		return []string{one}, err
	}
	nodes, err := f.list()
	if err != nil {
		return nil, err
	}
	var values []string
	for _, n := range nodes {
		one := field{key: f.key, at: positionOf(n, f.at), value: n}
		value, err := one.checked(check)
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(values, value):
			return nil, errorAt(one.at, "%s: %s is given twice", f.key, shown(value))
		case len(values) == most:
			return nil, errorAt(one.at, "%s has at most %d entries", f.key, most)
		}
		values = append(values, value)
	}
	return values, nil
}

// roles returns a list of database roles, each once.
func (f field) roles() ([]string, *FileError) {
	nodes, err := f.list()
	if err != nil {
		return nil, err
	}
	var roles []string
	for _, n := range nodes {
		role, err := f.role(n)
		at := positionOf(n, f.at)
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(roles, role):
			return nil, errorAt(at, "%s: %s is given twice", f.key, shown(role))
		case len(roles) == maxRoles:
			return nil, errorAt(at, "%s has at most %d entries", f.key, maxRoles)
		}
		roles = append(roles, role)
	}
	return roles, nil
}

func (f field) leeway() (leeway time.Duration, _ *FileError) {
	_, err := f.checked(func(s string) (err error) {
		if leeway, err = time.ParseDuration(s); err != nil || leeway < 0 || leeway > maxLeeway {
			return fmt.Errorf("it is a time from 0s to %s", maxLeeway)
		}
		return nil
	})
	return leeway, err
}
