package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/fencegate/fencegate/gateway"
)

// maxName is the longest name of a principal in bytes, as long as a holder's.
const maxName = 256

// Load reads a policy from a file, and the key sets and secrets that it names. What is wrong with its content is a *FileError.
func Load(path string) (*Policy, error) {
	data, err := readFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read principals: %w", err)
	}
	policy, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	// Half a file can be valid YAML, and a pattern that was cut short allows more than the whole one.
	if !bytes.HasSuffix(data, []byte("\n")) {
		return nil, fmt.Errorf("%s:%d: the file does not end with a newline: is it whole?", path, 1+bytes.Count(data, []byte("\n")))
	}
	for _, i := range policy.issuers {
		if err := i.readKeys(filepath.Dir(path)); err != nil {
			return nil, fmt.Errorf("%s:%w", path, err)
		}
	}
	for _, p := range policy.principals {
		for _, access := range p.accessKeys {
			if err := policy.s3Keys[access].readSecret(filepath.Dir(path)); err != nil {
				return nil, fmt.Errorf("%s:%w", path, err)
			}
		}
	}
	return policy, nil
}

// readFile reads a regular file, up to one byte more than most.
func readFile(path string, most int64) ([]byte, error) {
	// What is not a file may never end, and opening a pipe waits for a writer.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// Parse reads a policy, without the key sets that it names: the JWTs of an issuer with jwks_file have nothing to be checked
// by. It refuses what it does not know, what is said twice, and what could match nothing, with a
// *FileError: a rule that is not understood must not be one that is silently ignored.
func Parse(data []byte) (*Policy, error) {
	body, err := document(data)
	if err != nil {
		return nil, err
	}
	r := reader{
		policy: &Policy{byName: make(map[string]*Principal), byIssuer: make(map[string]*Issuer), s3Keys: make(map[string]*s3Key)},
		named:  make(map[string]int), hashed: make(map[digest]hashPlace),
	}
	if err := r.file(body); err != nil {
		return nil, err
	}
	return r.policy, nil
}

// CheckName tells whether a principal may be called name: 1 to 256 bytes of UTF-8 without control characters, and not
// the name of everybody.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > maxName:
		return fmt.Errorf("a name has at most %d bytes, this one has %d", maxName, len(name))
	case !utf8.ValidString(name):
		return errors.New("the name is not UTF-8")
	case strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("the name has a control character")
	case name == gateway.Anonymous:
		// Grants that were taken before there was authentication belong to this name.
		return fmt.Errorf("%s is what everybody is called without authentication", gateway.Anonymous)
	}
	return nil
}

// reader builds a policy and remembers where things were said first.
type reader struct {
	policy *Policy
	named  map[string]int // name to line
	hashed map[digest]hashPlace
}

type hashPlace struct {
	line  int
	owner string
}

func (r *reader) file(body ast.Node) *FileError {
	start := &token.Position{Line: 1, Column: 1}
	fields, err := fieldsOf(body, "the file", start, "principals", "issuers")
	if err != nil {
		return err
	}
	if len(fields) == 0 {
		return errorAt(start, "the file needs the key principals")
	}
	// A principal is judged by the issuers, wherever they stand.
	if err := each(fields, "issuers", r.issuer); err != nil {
		return err
	}
	return each(fields, "principals", r.principal)
}

// each reads the entries of the list under a key, if there is one.
func each(fields []field, key string, read func(ast.Node, *token.Position) *FileError) *FileError {
	for _, f := range fields {
		if f.key != key {
			continue
		}
		entries, err := f.list()
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if err := read(entry, f.at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) principal(n ast.Node, at *token.Position) *FileError {
	fields, err := fieldsOf(n, "a principal", at, "name", "secret_sha256", "s3_keys", "admin", "database_role", "claims", "allow")
	p := &Principal{name: textIn(n, "name")}
	if err != nil {
		return err.of(p)
	}
	if p.name == "" && !given(fields, "name") {
		return errorAt(positionOf(n, at), "the principal has no name")
	}
	for _, f := range fields {
		if err := r.principalField(p, f); err != nil {
			return err.of(p)
		}
	}
	if err := r.subject(p, fields); err != nil {
		return err.of(p)
	}
	r.policy.principals = append(r.policy.principals, p)
	r.policy.byName[p.name] = p
	return nil
}

func (r *reader) principalField(p *Principal, f field) (err *FileError) {
	switch f.key {
	case "name":
		err = r.name(f)
	case "secret_sha256":
		err = r.secrets(p, f)
	case "s3_keys":
		err = r.s3Keys(p, f)
	case "admin":
		p.admin, err = f.bool()
	case "database_role":
		p.identity.Role, err = f.role(f.value)
	case "claims":
		p.identity.Claims, err = f.claims()
	case "allow":
		p.rules, err = readRules(f)
	}
	return err
}

func (r *reader) name(f field) *FileError {
	name, err := f.text(f.value)
	if err != nil {
		return err
	}
	if bad := CheckName(name.value); bad != nil {
		return errorAt(name.at, "%s", bad)
	}
	if line, taken := r.named[name.value]; taken {
		return errorAt(name.at, "the name is taken: line %d has it", line)
	}
	r.named[name.value] = name.at.Line
	return nil
}

// textIn finds the text under a key of an entry before the entry is known to be good, so that an error above it can name it too.
func textIn(n ast.Node, key string) string {
	mapping, ok := n.(*ast.MappingNode)
	if !ok {
		return ""
	}
	for _, entry := range mapping.Values {
		name, isKey := entry.Key.(*ast.StringNode)
		value, isText := entry.Value.(*ast.StringNode)
		if isKey && isText && name.Value == key {
			return value.Value
		}
	}
	return ""
}

func given(fields []field, key string) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return f.key == key })
}

func (e *FileError) of(p *Principal) *FileError {
	e.Principal = p.name
	return e
}
