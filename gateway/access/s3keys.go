package access

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/fencegate/fencegate/gateway"
)

const (
	// maxS3Keys is how many S3 keys a principal has at most.
	maxS3Keys = 16

	minAccessKey, maxAccessKey = 16, 128
	minSecretKey, maxSecretKey = 32, 512
)

// s3Key is a key pair that S3's clients sign with.
type s3Key struct {
	access, secret string
	file           string // that the secret is read from; empty if it stands in the policy
	line           int
	owner          *Principal
}

func (r *reader) s3Keys(p *Principal, f field) *FileError {
	entries, err := f.list()
	if err != nil {
		return err
	}
	if len(entries) > maxS3Keys {
		return errorAt(positionOf(entries[maxS3Keys], f.at), "%s has at most %d keys", f.key, maxS3Keys)
	}
	for _, n := range entries {
		key, err := readS3Key(n, f.at)
		if err != nil {
			return err
		}
		if first, taken := r.policy.s3Keys[key.access]; taken {
			return errorAt(positionOf(n, f.at), "the same access_key stands in line %d, of principal %s", first.line, shown(first.owner.name))
		}
		key.owner = p
		r.policy.s3Keys[key.access] = key
		p.accessKeys = append(p.accessKeys, key.access)
	}
	return nil
}

// readS3Key reads a key. Its errors repeat nothing, since the secret may stand anywhere.
func readS3Key(n ast.Node, at *token.Position) (*s3Key, *FileError) {
	fields, err := fieldsOf(n, "an S3 key", at, "access_key", "secret_key", "secret_key_file")
	if err != nil {
		return nil, err
	}
	at = positionOf(n, at)
	key := &s3Key{line: at.Line}
	for _, f := range fields {
		t, err := f.text(f.value)
		if err != nil {
			return nil, err
		}
		var bad error
		switch f.key {
		case "access_key":
			key.access, bad = t.value, CheckAccessKey(t.value)
		case "secret_key":
			key.secret, bad = t.value, CheckSecretKey(t.value)
		case "secret_key_file":
			key.file = t.value
			if t.value == "" {
				bad = fmt.Errorf("the name of the file is empty")
			}
		}
		if bad != nil {
			return nil, errorAt(t.at, "%s: %s", f.key, bad)
		}
	}
	switch {
	case key.access == "":
		return nil, errorAt(at, "the S3 key has no access_key")
	case (key.secret == "") == (key.file == ""):
		return nil, errorAt(at, "an S3 key has a secret_key or a secret_key_file")
	}
	return key, nil
}

// CheckAccessKey tells whether a text can be an access key: 16 to 128 letters, digits and _.@+- that do not begin like one of AWS's temporary
// keys.
func CheckAccessKey(key string) error {
	if len(key) < minAccessKey || len(key) > maxAccessKey {
		return fmt.Errorf("an access key has %d to %d characters, this one has %d", minAccessKey, maxAccessKey, len(key))
	}
	for _, c := range key {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_.@+-", c)) {
			return fmt.Errorf("an access key has letters, digits and _.@+- only")
		}
	}
	if strings.HasPrefix(key, "ASIA") {
		return fmt.Errorf("an access key that begins with ASIA is a temporary one, which comes with a session token")
	}
	return nil
}

// CheckSecretKey tells whether a text can be a secret key: 32 to 512 characters of ASCII without spaces.
func CheckSecretKey(key string) error {
	if len(key) < minSecretKey || len(key) > maxSecretKey {
		return fmt.Errorf("a secret key has %d to %d characters, this one has %d", minSecretKey, maxSecretKey, len(key))
	}
	if strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return fmt.Errorf("a secret key has characters of ASCII without spaces only")
	}
	return nil
}

// readSecret reads the secret from its file, which lies below dir unless its name is absolute.
func (k *s3Key) readSecret(dir string) error {
	if k.file == "" {
		return nil
	}
	name := k.file
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	data, err := readFile(name, maxSecretKey+2)
	if err == nil {
		k.secret = strings.TrimRight(string(data), "\r\n")
		err = CheckSecretKey(k.secret)
	}
	if err != nil {
		return &FileError{Line: k.line, Column: 1, Principal: k.owner.name, Message: fmt.Sprintf("secret_key_file: %s", err)}
	}
	return nil
}

// AccessKeys are the principal's S3 access keys, in the order of the file. The caller must not change them.
func (p *Principal) AccessKeys() []string { return p.accessKeys }

// Key returns the secret of an S3 access key, and whose it is.
func (p *Policy) Key(access string) (secret string, owner *Principal, found bool) {
	key, found := p.s3Keys[access]
	if !found {
		return "", nil, false
	}
	return key.secret, key.owner, true
}

// Key returns the secret of an S3 access key, and whose it is, by the policy in force.
func (a *Authenticator) Key(access string) (secret string, caller gateway.Caller, found bool) {
	secret, owner, found := a.policy.Load().Key(access)
	if !found {
		return "", nil, false
	}
	return secret, owner, true
}

// NoteFailed counts a request to the S3 front that was refused as unauthenticated. There is no limit to them: nobody guesses a secret of 32
// characters, and a wrong signature tells nothing about it.
func (a *Authenticator) NoteFailed() { a.failed.Add(1) }
