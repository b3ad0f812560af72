package lease

import (
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Request asks for a lease.
type Request struct {
	Name      string
	Principal string
	// Holder is a name for people. Defaults to Principal.
	Holder string
	// AcquireID makes the request repeatable: the same principal with the same id gets the same grant. It is for
	// one attempt. Defaults to a random one.
	AcquireID string
	// TTL is how long the lease runs unless it is renewed. Defaults to 30 s.
	TTL time.Duration
	// Wait is how long to wait for a lease that somebody else holds. Defaults to 0.
	Wait time.Duration
}

// Ref names a grant by its secret id.
type Ref struct {
	Name      string
	Principal string
	ID        string
}

// Held is a grant and how long its lease still runs.
type Held struct {
	fence.Grant
	Remaining time.Duration
}
