package history

// Kind is what an operation asks for.
type Kind string

// The kinds of operations.
const (
	Acquire Kind = "acquire"
	Renew   Kind = "renew"
	Tokens  Kind = "tokens"
	Release Kind = "release"
	Break   Kind = "break"
	Patch   Kind = "patch"
	Put     Kind = "put"
	Delete  Kind = "delete"
	Get     Kind = "get"
	Mark    Kind = "mark"
)

// Writes tells whether the kind changes a resource.
func (k Kind) Writes() bool { return k == Patch || k == Put || k == Delete }

// Reads tells whether the kind changes nothing and tells of a resource.
func (k Kind) Reads() bool { return k == Get || k == Mark }

// Line is what a client writes of an operation: one line with Call before its first request, one with Again before each
// repetition, one with Reply after each answer or when it has given up waiting.
type Line struct {
	// ID names the operation in the whole run.
	ID string `json:"id"`
	// At is the reading of the clock that all processes share, in nanoseconds.
	At    int64  `json:"at"`
	Call  *Call  `json:"call,omitempty"`
	Again bool   `json:"again,omitempty"`
	Reply *Reply `json:"reply,omitempty"`
}

// Call is what an operation asks for.
type Call struct {
	Client    string `json:"client"`
	Principal string `json:"principal"`
	Kind      Kind   `json:"kind"`
	Lease     string `json:"lease"`
	// Resource is the resource's name in the ledger; empty in calls about leases.
	Resource string `json:"resource,omitempty"`
	// Token is the token of a write, and of a read that asks whether it is still good.
	Token int64 `json:"token,omitempty"`
	// First is the first token of the grant that a call about a lease names.
	First int64 `json:"first,omitempty"`
	// Value is what a write writes, the same for no other operation; empty in a delete.
	Value string `json:"value,omitempty"`
	// TTL is that of an acquire or renewal, in nanoseconds.
	TTL int64 `json:"ttl,omitempty"`
	// Holder is the name that an acquire gives itself, and Reason that of a break: the same for no other operation, so
	// that the audit tells whose grant or end it is.
	Holder string `json:"holder,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Class says why a client sent it, for the summary: its own token, an old one, a forged one. ClassCommit says how, too.
	Class string `json:"class,omitempty"`
}

// ClassCommit is the class of a write of a commit, which is replayed as long as one of its resources has its mark: what the answer says of the
// others is how they stand by then.
const ClassCommit = "commit"

// Reply is what a client learned from one attempt.
type Reply struct {
	// Lost says that there was no whole answer.
	Lost   bool `json:"lost,omitempty"`
	Status int  `json:"status,omitempty"`
	// Code is the refusal's; empty when the operation was accepted.
	Code string `json:"code,omitempty"`
	// Mark is the resource's mark as the answer gives it, -1 without one.
	Mark int64 `json:"mark"`
	// Value is what was read; empty when there is nothing.
	Value string `json:"value,omitempty"`
	// Created and Replayed are what the answer to a write says.
	Created  bool `json:"created,omitempty"`
	Replayed bool `json:"replayed,omitempty"`
	// First and Last are the first token of the grant and the last of its newest block.
	First int64 `json:"first,omitempty"`
	Last  int64 `json:"last,omitempty"`
	// Torn says that a whole answer was not the body it said to be (I6).
	Torn bool `json:"torn,omitempty"`
	// Note is for people.
	Note string `json:"note,omitempty"`
}

// unknownOutcome is the code of an answer that says it does not know.
const unknownOutcome = "outcome-unknown"

// settles tells whether the answer says what became of the attempt.
func (r *Reply) settles() bool { return r != nil && !r.Lost && r.Code != unknownOutcome }
