package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"iter"
	"slices"

	"github.com/fencegate/fencegate/gateway"
)

// Policy is what one file says of principals. It is never changed, and safe for concurrent use.
type Policy struct {
	principals []*Principal
	byName     map[string]*Principal
	secrets    []secret
}

type digest = [sha256.Size]byte

// secret is one hash of the file and whose it is.
type secret struct {
	sum   digest
	owner *Principal
}

// Principal is one entry of the file. It is never changed, and safe for concurrent use.
type Principal struct {
	name    string
	admin   bool
	secrets int
	rules   []Rule
}

var _ gateway.Caller = (*Principal)(nil)

// Rule allows its verbs on everything that one of its patterns matches. The fields are as written in the file.
type Rule struct {
	// Line is where the rule stands in the file, counted from 1.
	Line                    int
	Leases, Tables, Buckets []string
	Verbs                   []gateway.Verb

	leases  []glob
	tables  []tablePattern
	buckets []bucketPattern
}

// Principals yields the principals in the order of the file.
func (p *Policy) Principals() iter.Seq[*Principal] { return slices.Values(p.principals) }

// Lookup returns the principal called name, nil if there is none.
func (p *Policy) Lookup(name string) *Principal { return p.byName[name] }

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

// Admin reports whether the principal may end what belongs to others.
func (p *Principal) Admin() bool { return p.admin }

// Secrets is how many secrets the principal has; 0 means that it comes with a client certificate.
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
