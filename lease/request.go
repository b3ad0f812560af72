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

// View is a lease that is held, as others see it: without the grant's ID, and with those that wait for it.
type View struct {
	Held
	// Queued is how many wait. Waiting are the first of them, in their order.
	Queued  int
	Waiting []Waiting
}

// Waiting is one that waits for a lease.
type Waiting struct {
	Holder string
	// For is how long it has waited, about.
	For time.Duration
}

// Listing asks for a page of the leases that are held, in the order of their names' bytes.
type Listing struct {
	// Prefix is what their names begin with. After is the Next of the page before.
	Prefix, After string
	// Limit is how many the page has at most. Defaults to 100; at most MaxPage.
	Limit int
}

// MaxPage is the largest Limit of a Listing.
const MaxPage = 1000

// Page is a page of leases that are held. It can be short, or empty, although there is another.
type Page struct {
	Leases []View
	// Next is After of the next page, empty on the last.
	Next string
}
