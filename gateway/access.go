package gateway

import (
	"net/http"

	"github.com/fencegate/fencegate/fence"
)

// Verb is a kind of access. VerbLease does not contain the others, nor VerbWrite VerbRead.
type Verb string

// VerbLease takes and keeps a lease, VerbRead and VerbWrite concern rows, objects and marks (VerbRead also who holds a
// lease), VerbAdmin ends what belongs to somebody else.
const (
	VerbLease Verb = "lease"
	VerbRead  Verb = "read"
	VerbWrite Verb = "write"
	VerbAdmin Verb = "admin"
)

// Action is what a request wants to do. It names exactly one of a lease, a table and a bucket; VerbAdmin names a lease.
type Action struct {
	Verb Verb
	// Lease is a lease's name.
	Lease string
	// Schema and Table are identifiers as the catalogue has them, without quotes.
	Schema, Table string
	// Bucket and Key name an object.
	Bucket, Key string
}

// Caller is an authenticated principal and what it may do. May decides from names alone: it is asked before anything
// is read from the ledger, so that a refusal discloses nothing.
type Caller interface {
	Principal() string
	May(Action) bool
	// MayBelow tells whether the caller may do it with some object whose key begins with that of the action.
	MayBelow(Action) bool
	// Identity is as whom the database sees the caller.
	Identity() fence.Identity
	// Columns lists the columns of a table to which the verb of an action is limited, key columns aside; nil when it is not.
	Columns(Action) []string
}

// Everybody is the caller of a gateway without authentication: it may do everything.
type Everybody struct{}

// Principal returns Anonymous.
func (Everybody) Principal() string { return Anonymous }

// May returns true.
func (Everybody) May(Action) bool { return true }

// MayBelow returns true.
func (Everybody) MayBelow(Action) bool { return true }

// Identity returns the zero Identity: the gateway's own role.
func (Everybody) Identity() fence.Identity { return fence.Identity{} }

// Columns returns nil: all.
func (Everybody) Columns(Action) []string { return nil }

// allowed refuses an action that the caller may not do.
func allowed(r *http.Request, a Action) error {
	caller := callerOf(r.Context())
	if caller == nil || !caller.May(a) {
		return fence.Errorf(fence.CodeForbidden, "this principal may not %s %s", a.words(), a.target())
	}
	return nil
}

// target names what an action is about, as the caller did.
func (a Action) target() string {
	switch {
	case a.Lease != "":
		return "the lease " + a.Lease
	case a.Table != "":
		return "the table " + fence.TableName{Schema: a.Schema, Name: a.Table}.String()
	}
	return "the object " + a.Bucket + "/" + a.Key
}

func (a Action) with(v Verb) Action {
	a.Verb = v
	return a
}

// words are the verb in a sentence.
func (a Action) words() string {
	switch a.Verb {
	case VerbLease:
		return "take or keep"
	case VerbAdmin:
		return "break"
	case VerbRead, VerbWrite:
	}
	return string(a.Verb)
}
