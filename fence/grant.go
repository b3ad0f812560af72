package fence

import "time"

// Grant is one acquisition of a lease as the ledger certified it. A lease has one newest grant; an older grant's
// tokens are void.
type Grant struct {
	// Lease is the name of the lease.
	Lease string
	// ID is the grant's secret. It is set only in answers to the grant's own holder.
	ID string
	// Principal is the authenticated caller that the grant belongs to.
	Principal string
	// Holder is the name that the holder gave itself, for people.
	Holder string
	// Acquire is the hash of principal and acquire id.
	Acquire Digest
	// Hold is the value under which the locker kept the lease when the grant was certified. Several grants have the same
	// one when a gateway hands its lease on to others that wait there.
	Hold Digest
	// Blocks are the grant's tokens in ascending order; adjacent blocks are merged. Never empty.
	Blocks []Block
	// TTL is the time to live that the acquire asked for.
	TTL time.Duration
	// GrantedAt is the ledger's time of the certificate.
	GrantedAt time.Time
	// Ended is why the grant ended: EndReleased, EndAbandoned, EndAdvanced, or EndBroken, which ": " and a reason may follow.
	// Empty while it has not ended.
	Ended string
	// EndedBy is the principal that ended it, where that is not the grant's own.
	EndedBy string
}

// Why a grant ended.
const (
	EndReleased  = "released"
	EndBroken    = "broken"
	EndAbandoned = "abandoned"
	// EndAdvanced is what fence.advance writes.
	EndAdvanced = "ledger advanced"
)

// First returns the grant's first token. It names the grant: no other grant of any lease has it.
func (g *Grant) First() Token { return g.Blocks[0].First }

// Last returns the last token of the grant's newest block.
func (g *Grant) Last() Token { return g.Blocks[len(g.Blocks)-1].Last }

// Has reports whether the grant issued t.
func (g *Grant) Has(t Token) bool {
	for _, b := range g.Blocks {
		if b.Has(t) {
			return true
		}
	}
	return false
}

// Certificate asks the ledger for a grant.
type Certificate struct {
	Lease     string
	Principal string
	Holder    string
	Acquire   Digest
	TTL       time.Duration
	// Floor is the first token of the newest grant of the lease, read before the lease was taken or proven in
	// the locker; 0 when there was none. The certificate is void when the newest grant is another one by now (I4).
	Floor Token
	// Hold is the value under which the locker keeps the lease.
	Hold Digest
	// Local says that Floor is the first token of this hold's previous grant, from which the lease is handed on without
	// asking the locker. The certificate is void, too, if that grant has ended: its lease was given up.
	Local bool
	// Handed says that the previous grant's holder has released it: it is not told as expired.
	Handed bool
}

// GrantRef names a grant by one of its properties; the first that is set counts.
type GrantRef struct {
	// ID is the grant's secret id, held by Principal.
	ID        string
	Principal string
	// Acquire is the grant's acquire digest. With Hold, which is that of the grant too, it is what an acquire was given that
	// gives up: a copy of it may have got the same grant with a lease of its own.
	Acquire Digest
	Hold    Digest
	// Newest is whichever grant is the newest (an administrator's break).
	Newest bool
}

// Ending is why a grant ends, and who ends it.
type Ending struct {
	// Why is EndReleased, EndAbandoned, or EndBroken, which ": " and a reason may follow.
	Why string
	// By is the principal that breaks somebody else's grant, empty otherwise.
	By string
}
