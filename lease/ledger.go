package lease

import (
	"context"

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
