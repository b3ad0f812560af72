package access

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

const (
	// subjectMark stands between the issuer and the subject in the name of a principal. No issuer's name has one, so that a name
	// can be read in one way only.
	subjectMark = "#"
	// maxIssuer leaves room for a subject in a principal's name, and maxIssuers bounds what is fetched.
	maxIssuer, maxIssuers = 200, 32
	maxAudiences          = 32
	maxRoles              = 256
	maxClaimName          = 200
	maxURL                = 2048

	defaultLeeway = 30 * time.Second
	maxLeeway     = 2 * time.Minute
)

// asymmetric are the algorithms that a JWT may be signed with. None of them can be computed from what the issuer publishes.
func asymmetric() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// Issuer is whose JWTs are accepted, and what their subjects may do. The fields are as written in the file, or their
// defaults. It is never changed, and safe for concurrent use.
type Issuer struct {
	// Line is where the entry begins in the file, counted from 1.
	Line int
	// Name is what the claim iss says.
	Name string
	// Audience lists what the claim aud may name; one of them suffices.
	Audience []string
	// KeysURL and KeysFile are where the key set is; one of them is empty.
	KeysURL, KeysFile string
	Algorithms        []string
	// Leeway is how much the clocks of issuer and gateway may differ.
	Leeway time.Duration
	// Role is the database role of all subjects. If RoleClaim is not empty, that claim names it, one of Roles.
	Role, RoleClaim string
	Roles           []string
	// Rules are those of subjects without an entry of their own.
	Rules []Rule

	keysAt *token.Position
	keys   *keySet // of KeysFile
}

// subject is the principal that a JWT makes: what its entry (or, without one, the issuer) says of it.
func (i *Issuer) subject(name string, entry *Principal) *Principal {
	p := &Principal{name: name, admin: entry.admin, rules: entry.rules, identity: entry.identity, issuer: i}
	if p.identity.Role == "" {
		p.identity.Role = i.Role
	}
	return p
}

// subject judges an entry by the issuers: it is the subject of one, or a principal of its own.
func (r *reader) subject(p *Principal, fields []field) *FileError {
	issuer, subject, found := strings.Cut(p.name, subjectMark)
	p.issuer = r.policy.byIssuer[issuer]
	if !found {
		p.issuer = nil
	}
	if p.issuer == nil {
		return nil
	}
	for _, f := range fields {
		switch {
		case f.key == "name" && subject == "":
			return errorAt(f.at, "the name has no subject behind the %s", subjectMark)
		case f.key == "secret_sha256":
			return errorAt(f.at, "a subject of an issuer comes with JWTs, and has no secret")
		case f.key == "s3_keys":
			return errorAt(f.at, "a subject of an issuer comes with JWTs, and has no S3 keys")
		case f.key == "claims":
			return errorAt(f.at, "the claims of a subject of an issuer are those of its JWTs")
		}
	}
	return nil
}

// check looks at what concerns several keys of the entry.
func (i *Issuer) check(at *token.Position, fields []field) *FileError {
	for _, key := range []string{"issuer", "audience"} {
		if !given(fields, key) {
			return errorAt(at, "the issuer has no %s", key)
		}
	}
	switch {
	case (i.KeysURL == "") == (i.KeysFile == ""):
		return errorAt(at, "an issuer has either jwks_url or jwks_file")
	case i.Role != "" && i.RoleClaim != "":
		return errorAt(at, "an issuer has either database_role or database_role_claim")
	case i.RoleClaim != "" && len(i.Roles) == 0:
		return errorAt(at, "database_role_claim needs database_roles, the list of those that it may name")
	case i.RoleClaim == "" && len(i.Roles) > 0:
		return errorAt(at, "database_roles needs database_role_claim")
	}
	return nil
}

func checkIssuerName(s string) error {
	if err := checkText(s, maxIssuer); err != nil {
		return err
	}
	if strings.Contains(s, subjectMark) {
		return fmt.Errorf("an issuer has no %s: it stands between issuer and subject in a principal's name", subjectMark)
	}
	return nil
}

func checkText(s string, most int) error {
	switch {
	case s == "":
		return errors.New("it is empty")
	case len(s) > most:
		return fmt.Errorf("it has at most %d bytes, this one has %d", most, len(s))
	case !utf8.ValidString(s):
		return errors.New("it is not UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("it has a control character")
	}
	return nil
}

// checkKeysURL wants a way on which nobody can change the keys. Its errors do not repeat the URL, which may hold a password.
func checkKeysURL(s string) error {
	if err := checkText(s, maxURL); err != nil {
		return err
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return errors.New("it is a URL, https://HOST/PATH")
	case u.User != nil:
		return errors.New("it has no user or password: key sets are public")
	case u.Fragment != "":
		return errors.New("it has no fragment")
	case !trusted(u):
		return errors.New("it begins with https://; http:// is for hosts of loopback only")
	}
	return nil
}

// trusted tells whether nobody on the way can change what is fetched.
func trusted(u *url.URL) bool {
	if u.Scheme == "https" {
		return true
	}
	addr, err := netip.ParseAddr(u.Hostname())
	loopback := err == nil && addr.Zone() == "" && addr.IsLoopback() || strings.EqualFold(u.Hostname(), "localhost")
	return u.Scheme == "http" && loopback
}

func checkAlgorithm(s string) error {
	switch {
	case slices.Contains(asymmetric(), s):
		return nil
	case s == "none" || strings.HasPrefix(s, "HS"):
		return fmt.Errorf("%s is refused: whoever knows what the issuer publishes can make such a JWT", s)
	}
	return fmt.Errorf("there is no algorithm %s; there are %s", shown(s), strings.Join(asymmetric(), ", "))
}
