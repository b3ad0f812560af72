package access

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// maxSecrets is how many secrets a principal has at most: two while one replaces the other, and some to spare.
const maxSecrets = 4

// secretPrefix makes secrets easy to find for scanners, and for people who put one in the wrong place.
const secretPrefix = "fg_"

func (r *reader) secrets(p *Principal, f field) *FileError {
	var texts []text
	var err *FileError
	if _, several := f.value.(*ast.SequenceNode); several {
		texts, err = f.texts()
	} else {
		var one text
		one, err = f.text(f.value)
		texts = []text{one}
	}
	switch {
	case err != nil:
		return err
	case len(texts) > maxSecrets:
		return errorAt(texts[maxSecrets].at, "%s has at most %d hashes", f.key, maxSecrets)
	}
	for _, t := range texts {
		sum, err := hash(t)
		if err != nil {
			return err
		}
		if first, taken := r.hashed[sum]; taken {
			return errorAt(t.at, "%s: the same secret stands in line %d, of principal %s", f.key, first.line, shown(first.owner))
		}
		r.hashed[sum] = hashPlace{line: t.at.Line, owner: p.name}
		r.policy.secrets = append(r.policy.secrets, secret{sum: sum, owner: p})
		p.secrets++
	}
	return nil
}

// hash reads a SHA-256. Its errors do not repeat the text, which may be the secret itself.
func hash(t text) (digest, *FileError) {
	var sum digest
	if strings.HasPrefix(t.value, secretPrefix) {
		return sum, errorAt(t.at, "secret_sha256 holds a secret, not its SHA-256: take a new secret, this one was written down")
	}
	if want := hex.EncodedLen(len(sum)); len(t.value) != want {
		return sum, errorAt(t.at, "secret_sha256 is %d hexadecimal digits, this one has %d characters", want, len([]rune(t.value)))
	}
	if _, err := hex.Decode(sum[:], []byte(t.value)); err != nil {
		return sum, errorAt(t.at, "secret_sha256 has a character that is no hexadecimal digit")
	}
	if sum == sha256.Sum256(nil) {
		return sum, errorAt(t.at, "secret_sha256 is the hash of an empty secret")
	}
	return sum, nil
}
