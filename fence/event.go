package fence

import "time"

// Event is something that happened to a lease, or a write that was refused for its token. Events are for people and for
// monitoring; no decision rests on them.
type Event struct {
	// Position is where the event stands among all, for going on after it. Positions have no meaning beyond their order in
	// the answers of one ledger.
	Position string
	At       time.Time
	Kind     EventKind
	Lease    string
	// Principal and Holder are those of the grant, or of the write that was refused.
	Principal, Holder string
	// First is the first token of the grant.
	First Token
	// Why is why a grant ended, and By the principal that broke it.
	Why, By string
	// Resource, Token and Code describe a refused write.
	Resource string
	Token    Token
	Code     Code
}

// EventKind is what happened.
type EventKind string

// What can happen. EventExpired is noticed, at the latest when the next grant is made: the grant was neither released nor
// broken, and its lease ran out or was lost.
const (
	EventGranted   EventKind = "granted"
	EventReleased  EventKind = "released"
	EventBroken    EventKind = "broken"
	EventAbandoned EventKind = "abandoned"
	EventExpired   EventKind = "expired"
	EventRefused   EventKind = "refused"
)
