package lease

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Ledger certifies grants. Each method is one transaction at READ COMMITTED that takes the lease's exclusive
// advisory lock before it looks (all but Newest and Held, which lock nothing).
type Ledger interface {
	// Newest returns the newest grant of a lease, without its ID, ended or not; nil when there never was one.
	Newest(ctx context.Context, lease string) (*fence.Grant, error)
	// Held returns the newest grant, without its ID, if it is the one that by names and has not ended, else
	// CodeLeaseLost. It changes nothing.
	Held(ctx context.Context, lease string, by fence.GrantRef) (*fence.Grant, error)
	// Certify makes the certificate's acquire the newest grant and returns it with its ID. When the newest grant
	// carries this acquire already it is returned as it is; if it has ended, CodeGrantEnded; if it was asked for
	// with another holder or TTL, CodeInvalidRequest. It returns fence.ErrVoid when the newest grant's first token
	// is not the floor any more, and CodeOutcomeUnknown when the reply was lost: repeating settles it.
	Certify(ctx context.Context, c fence.Certificate) (*fence.Grant, error)
	// End ends the newest grant if it is the one that by names, and returns it. A grant that has ended already
	// is returned as it is. CodeLeaseLost when another grant, or none, is the newest.
	End(ctx context.Context, lease string, by fence.GrantRef, e fence.Ending) (*fence.Grant, error)
	// More adds a block to the newest grant if it is the one that by names and has not ended, else CodeLeaseLost. It
	// returns the grant without its ID.
	More(ctx context.Context, lease string, by fence.GrantRef) (*fence.Grant, error)
	// List returns the newest grants that have not ended, without their IDs, of leases whose names begin with prefix and
	// stand behind after in the order of their bytes, at most limit of them. Their leases may have run out. It locks nothing.
	List(ctx context.Context, prefix, after string, limit int) ([]*fence.Grant, error)
}

// Locker keeps leases: names that at most one value holds at a time, for a bounded time. It is advisory and may
// lose its data; the ledger makes up for it. Every method returns CodeUnavailable when it cannot reach its server
// within its deadline.
type Locker interface {
	// Take takes the lease for the value if nobody holds it, and finds it taken if the same value holds it (which
	// leaves the remaining time alone). It returns the holding that stands afterwards: the caller compares its
	// Value with the one it sent.
	Take(ctx context.Context, name string, h Holding) (Holding, error)
	// Extend sets the remaining time if the value holds the lease, and reports whether it does.
	Extend(ctx context.Context, name string, value fence.Digest, ttl time.Duration) (bool, error)
	// Drop deletes the lease if the value holds it, and reports whether it did.
	Drop(ctx context.Context, name string, value fence.Digest) (bool, error)
	// Look returns who holds the lease; the zero Holding when nobody does.
	Look(ctx context.Context, name string) (Holding, error)
}

// Holding is a lease as the locker has it.
type Holding struct {
	// Value is the acquire digest of whoever holds the lease.
	Value fence.Digest
	// Holder is the holder's name, for people.
	Holder string
	// Remaining is how long the lease runs from now: the TTL when it is taken.
	Remaining time.Duration
}
