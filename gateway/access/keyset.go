package access

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/MicahParks/jwkset"
)

const (
	// maxKeySet and maxSetKeys bound a key set, in bytes and in keys.
	maxKeySet, maxSetKeys = 256 << 10, 64
	// RFC 7518 wants RSA keys of at least 2048 bits; the time that a check takes grows with the square of their length.
	minRSA, maxRSA = 2048, 8192
)

// keySet is what an issuer signs with (RFC 7517). It is never changed.
type keySet struct {
	sum  digest // of its text
	keys []key
}

type key struct {
	id        string // empty if it has none
	algorithm string // empty if it is for all that fit
	public    any
}

// parseKeys reads a key set. A key that cannot check a signature (one for encryption, a secret one, a curve that is not
// known) is passed over, as RFC 7517 wants it; a set may be left with none, and then no JWT is good.
func parseKeys(text []byte) (*keySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil || set.Keys == nil {
		return nil, errors.New(`it is no key set: a JSON object with the list "keys"`)
	}
	if len(set.Keys) > maxSetKeys {
		return nil, fmt.Errorf("the key set has more than %d keys", maxSetKeys)
	}
	parsed := &keySet{sum: sha256.Sum256(text)}
	for _, raw := range set.Keys {
		if k, ok := parseKey(raw); ok {
			parsed.keys = append(parsed.keys, k)
		}
	}
	return parsed, nil
}

func parseKey(raw json.RawMessage) (key, bool) {
	var m jwkset.JWKMarshal
	if json.Unmarshal(raw, &m) != nil {
		return key{}, false
	}
	if m.USE != "" && m.USE != jwkset.UseSig || len(m.KEYOPS) > 0 && !slices.Contains(m.KEYOPS, jwkset.KeyOpsVerify) {
		return key{}, false
	}
	// Certificates say nothing that the set does not say itself, and an x5u would be fetched from wherever it points to.
	m.X5C, m.X5T, m.X5TS256, m.X5U = nil, "", "", ""
	parsed, err := jwkset.NewJWKFromMarshal(m, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
	if err != nil {
		return key{}, false
	}
	k := key{id: m.KID, algorithm: string(m.ALG), public: parsed.Key()}
	return k, slices.ContainsFunc(asymmetric(), k.fits)
}

// fits tells whether the key is for an algorithm. The curve belongs to it: the same signature means something else on another.
func (k key) fits(algorithm string) bool {
	if k.algorithm != "" && k.algorithm != algorithm {
		return false
	}
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		bits := public.N.BitLen()
		return (strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")) && bits >= minRSA && bits <= maxRSA
	case *ecdsa.PublicKey:
		return algorithm == "ES256" && public.Curve == elliptic.P256() ||
			algorithm == "ES384" && public.Curve == elliptic.P384() ||
			algorithm == "ES512" && public.Curve == elliptic.P521()
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	}
	return false
}

var (
	errNoKey    = errors.New("no key of the issuer has this id and is for this algorithm")
	errManyKeys = errors.New("several keys of the issuer may be meant")
)

// find returns the one key that is meant by an id, or without an id by the algorithm alone.
func (s *keySet) find(id string, hasID bool, algorithm string) (any, error) {
	var found any
	for _, k := range s.keys {
		if hasID && k.id != id || !k.fits(algorithm) {
			continue
		}
		if found != nil {
			return nil, errManyKeys
		}
		found = k.public
	}
	if found == nil {
		return nil, errNoKey
	}
	return found, nil
}

// readKeys reads the key set that the file names, below the file's own folder.
func (i *Issuer) readKeys(folder string) error {
	if i.KeysFile == "" {
		return nil
	}
	path := i.KeysFile
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	text, err := readFile(path, maxKeySet)
	if err == nil && len(text) > maxKeySet {
		err = fmt.Errorf("it has more than %d bytes", maxKeySet)
	}
	if err == nil {
		i.keys, err = parseKeys(text)
	}
	if err == nil && len(i.keys.keys) == 0 {
		err = errors.New("it has no key that can check a signature")
	}
	if err != nil {
		bad := errorAt(i.keysAt, "jwks_file: %s", err)
		bad.Issuer = i.Name
		return bad
	}
	return nil
}
