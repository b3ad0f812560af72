package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"iter"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

// Policy is what one file says of principals. It is never changed, and safe for concurrent use.
type Policy struct {
	principals []*Principal
	byName     map[string]*Principal
	secrets    []secret
	issuers    []*Issuer
	byIssuer   map[string]*Issuer
	s3Keys     map[string]*s3Key // by access key
}

type digest = [sha256.Size]byte

// secret is one hash of the file and whose it is.
type secret struct {
	sum   digest
	owner *Principal
}

// Principal is one entry of the file, or the subject of a JWT. It is never changed, and safe for concurrent use.
type Principal struct {
	name     string
	admin    bool
	secrets  int
	rules    []Rule
	identity fence.Identity
	// accessKeys are those of its S3 keys.
	accessKeys []string
	issuer     *Issuer // whose JWTs name it; nil if none
}

var _ gateway.Caller = (*Principal)(nil)

// Rule allows its verbs on everything that one of its patterns matches. The fields are as written in the file.
type Rule struct {
	// Line is where the rule stands in the file, counted from 1.
	Line                    int
	Leases, Tables, Buckets []string
	Verbs                   []gateway.Verb
	// Columns limits the rule to some columns of its tables, as the catalogue has them; nil is all.
	Columns []string

	leases  []glob
	tables  []tablePattern
	buckets []bucketPattern
}

// Principals yields the principals in the order of the file.
func (p *Policy) Principals() iter.Seq[*Principal] { return slices.Values(p.principals) }

// Issuers yields the issuers in the order of the file.
func (p *Policy) Issuers() iter.Seq[*Issuer] { return slices.Values(p.issuers) }

// Lookup returns the principal called name, nil if the file has no entry for it.
func (p *Policy) Lookup(name string) *Principal { return p.byName[name] }

// Subject returns what a JWT makes of the principal called issuer#subject, but for the role and the claims that come with
// the JWT; nil if it is of no issuer of the file.
func (p *Policy) Subject(name string) *Principal {
	issuer, subject, found := strings.Cut(name, subjectMark)
	i := p.byIssuer[issuer]
	if !found || i == nil || subject == "" || CheckName(name) != nil {
		return nil
	}
	if own := p.byName[name]; own != nil {
		return i.subject(name, own)
	}
	return i.subject(name, &Principal{rules: i.Rules})
}

// bySum returns whose secret has this hash, nil if nobody's. It compares with every hash, found or not, each in the
// same time, so that the time taken tells nothing about the hashes of the file.
func (p *Policy) bySum(sum digest) *Principal {
	found := 0
	for i := range p.secrets {
		same := subtle.ConstantTimeCompare(p.secrets[i].sum[:], sum[:])
		found = subtle.ConstantTimeSelect(same, i+1, found)
	}
	if found == 0 {
		return nil
	}
	return p.secrets[found-1].owner
}

// Principal returns the principal's name.
func (p *Principal) Principal() string { return p.name }

// Identity is as whom the database sees the principal. That of an entry for a subject lacks the claims, which come with a JWT.
func (p *Principal) Identity() fence.Identity { return p.identity }

// Columns returns the columns of a table that the rules allow for the verb of a, key columns aside: those of all rules that
// allow a, or nil (all) if one of them has no list. The caller must not change the slice.
func (p *Principal) Columns(a gateway.Action) []string {
	if a.Table == "" || !wellFormed(a) {
		return nil
	}
	columns := []string{}
	for i := range p.rules {
		r := &p.rules[i]
		switch {
		case !r.allows(a):
		case r.Columns == nil:
			return nil
		case len(columns) == 0:
			columns = r.Columns
		default:
			columns = append(slices.Clip(columns), r.Columns...)
			slices.Sort(columns)
			columns = slices.Compact(columns)
		}
	}
	return columns
}

// Issuer is the issuer whose JWTs name the principal, nil if it is of none.
func (p *Principal) Issuer() *Issuer { return p.issuer }

// Admin reports whether the principal may end what belongs to others.
func (p *Principal) Admin() bool { return p.admin }

// Secrets is how many secrets the principal has; 0 means that it comes with a JWT of its issuer or, if it is of none, with a
// client certificate.
func (p *Principal) Secrets() int { return p.secrets }

// Rules returns the principal's rules in the order of the file. The caller must not change them.
func (p *Principal) Rules() []Rule { return p.rules }

// May reports whether any rule, or being an admin, allows a. What does not name exactly one target is not allowed.
func (p *Principal) May(a gateway.Action) bool {
	if !wellFormed(a) {
		return false
	}
	if p.admin && a.Lease != "" && (a.Verb == gateway.VerbAdmin || a.Verb == gateway.VerbRead) {
		return true
	}
	return slices.ContainsFunc(p.rules, func(r Rule) bool { return r.allows(a) })
}

// MayBelow tells whether a rule allows the action with some object whose key begins with that of a.
func (p *Principal) MayBelow(a gateway.Action) bool {
	return a.Bucket != "" && wellFormed(a) && slices.ContainsFunc(p.rules, func(r Rule) bool {
		return slices.Contains(dataVerbs(), a.Verb) && slices.Contains(r.Verbs, a.Verb) &&
			slices.ContainsFunc(r.buckets, func(b bucketPattern) bool { return b.below(a.Bucket, a.Key) })
	})
}

func wellFormed(a gateway.Action) bool {
	targets := 0
	for _, named := range []bool{a.Lease != "", a.Schema != "" || a.Table != "", a.Bucket != "" || a.Key != ""} {
		if named {
			targets++
		}
	}
	halfTable := (a.Schema == "") != (a.Table == "")
	return targets == 1 && !halfTable && (a.Key == "" || a.Bucket != "")
}

func (r *Rule) allows(a gateway.Action) bool {
	switch {
	case a.Lease != "":
		return r.allowsOnLeases(a.Verb) && slices.ContainsFunc(r.leases, func(g glob) bool { return g.match(a.Lease) })
	case !slices.Contains(dataVerbs(), a.Verb) || !slices.Contains(r.Verbs, a.Verb):
		return false
	case a.Table != "":
		return slices.ContainsFunc(r.tables, func(t tablePattern) bool { return t.match(a.Schema, a.Table) })
	default:
		return slices.ContainsFunc(r.buckets, func(b bucketPattern) bool { return b.match(a.Bucket, a.Key) })
	}
}

// allowsOnLeases: who may take a lease may also look at it.
func (r *Rule) allowsOnLeases(v gateway.Verb) bool {
	switch v {
	case gateway.VerbLease:
		return slices.Contains(r.Verbs, gateway.VerbLease)
	case gateway.VerbRead:
		return slices.Contains(r.Verbs, gateway.VerbRead) || slices.Contains(r.Verbs, gateway.VerbLease)
	}
	return false
}

// leaseVerbs and dataVerbs are the verbs that a rule can give on leases, and on tables and buckets.
func leaseVerbs() []gateway.Verb { return []gateway.Verb{gateway.VerbLease, gateway.VerbRead} }
func dataVerbs() []gateway.Verb  { return []gateway.Verb{gateway.VerbRead, gateway.VerbWrite} }
