package lease

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// Window is how long a lease that was handed to somebody who waited is reserved for him: until then it is claimed, or it
// goes on to the next.
const Window = 250 * time.Millisecond

// Locker keeps leases, and queues of those that wait for them. A lease is held by one value at a time, for a bounded time. A
// value is 32 bytes: 28 random ones that name a hold, made by its gateway, and a count. Behind one value any number of requests
// may wait in the gateway that made it; the locker knows them as a number and a note for people. Whenever something comes
// between two of them who have the lease in turn, the count goes up (NextValue), so that a drop which arrives late finds
// its value gone.
//
// A locker is advisory and may lose its data; the ledger makes up for it. Each Locker has a random identity of its own, by
// which others reach it: two lockers in one process are two gateways.
//
// Whenever a lease becomes free (dropped, expired, a reservation not claimed) it goes to the first of its queue: it is
// reserved for that value for Window, the value leaves the queue, and its gateway is told by a Pushed signal. Queues of
// gateways that are known to be gone are skipped. A free lease is never given to somebody else while its queue is not
// empty. Nobody need watch the clock of a lease but those that wait for it: any call about the lease hands it on once it
// is free.
//
// All methods are safe for concurrent use, can be repeated without harm when a reply was lost, and return CodeUnavailable
// when the server cannot be reached within the deadline. A context that is over gives CodeUnavailable, too.
type Locker interface {
	// Enter takes the lease for the entry if nobody holds it and nobody stands before it in the queue. If it is held, an
	// entry with Waiters > 0 takes its stand in the queue: at its Place if it has one, else at the end. An entry that holds
	// the lease, has it reserved, or stands in the queue already stays where it is, and its note is renewed.
	// CodeRateLimited when the queue is full.
	Enter(ctx context.Context, name string, e Entry) (Standing, error)
	// Stay renews the note of an entry that holds the lease or stands in its queue, and tells how it stands; it never
	// takes the lease, nor a stand in the queue. What has neither sees it by Standing.Value and Standing.Place.
	Stay(ctx context.Context, name string, e Entry) (Standing, error)
	// Extend lets the lease run for x.TTL from now if the value holds it, or claims it if it is reserved for the value; then
	// it is x.Next's. Standing.Value tells which value holds it afterwards. An extension without x.Next never shortens a lease:
	// it may come late, when the lease was handed on under the same value. One by another gateway than the one that made the
	// value is remembered as Standing.Renewed.
	Extend(ctx context.Context, name string, x Extension) (Standing, error)
	// Drop gives up the lease if the value holds it or has it reserved, or its stand in the queue, and reports whether it
	// had either. A lease that is dropped by another gateway than the one that made its value, where others wait behind it
	// (its note says so), is reserved for the hold's NextValue: they are next.
	Drop(ctx context.Context, name string, value fence.Digest) (Dropped, error)
	// Look tells how a lease stands, with at most so many of its queue's entries.
	Look(ctx context.Context, name string, entries int) (Standing, error)
	// Listen tells the signals for this locker's entries until ctx is over, then returns nil. f must not block. It connects
	// anew by itself when it is cut off, and tells a signal with Resync once it listens, the first time too: signals
	// before that may be lost. It returns an error only if it can never listen.
	Listen(ctx context.Context, f func(Signal)) error
}

// NextValue is the value under which the hold of v goes on after something came between.
func NextValue(v fence.Digest) fence.Digest {
	return withCount(v, countOf(v)+1)
}

func countOf(v fence.Digest) uint32 { return binary.BigEndian.Uint32(v[countAt:]) }

func withCount(v fence.Digest, n uint32) fence.Digest {
	binary.BigEndian.PutUint32(v[countAt:], n)
	return v
}

// HoldOf is what the values of one hold have in common: the first of them.
func HoldOf(v fence.Digest) fence.Digest { return withCount(v, 0) }

// SameHold tells whether two values are of one hold.
func SameHold(v, w fence.Digest) bool { return HoldOf(v) == HoldOf(w) }

// countAt is where in a value its count begins.
const countAt = len(fence.Digest{}) - 4

// Entry is one that wants a lease.
type Entry struct {
	Value fence.Digest
	// Holder is the name of who will hold the lease first, for people.
	Holder string
	// TTL is how long the lease runs if it is taken.
	TTL time.Duration
	// Waiters is how many requests wait behind the value. The first of them has the lease if Enter takes it, or has taken it.
	// With 0 it is taken at once or not at all.
	Waiters int
	// Note describes them for people, opaque to the locker, at most MaxNote bytes of text.
	Note string
	// Place is where the entry stood in the queue before (Standing.Place); 0 if it did not.
	Place int64
}

// MaxNote is the longest note in bytes.
const MaxNote = 2048

// MaxQueue is how many entries a queue has at most. Each stands for all that wait behind it in one gateway.
const MaxQueue = 10_000

// Extension renews or claims a lease, or proves that it is still held.
type Extension struct {
	Value fence.Digest
	// TTL is how long the lease is to run from now.
	TTL time.Duration
	// Next is whose the lease is from then on, a value of the same hold that never had it; the answer is about it then. Zero
	// leaves the lease with Value.
	Next fence.Digest
	// Tenant is the acquire digest of the one for whom it is extended, and Holder his name.
	Tenant fence.Digest
	Holder string
	// Waiters is how many requests wait behind the value from then on, for its own gateway to say. KeepWaiters: as many as before.
	Waiters int
}

// KeepWaiters leaves it at what the locker knows of those that wait behind a value.
const KeepWaiters = -1

// Standing is how a lease stands, and how the value that was asked about stands to it.
type Standing struct {
	// Value holds the lease, or has it reserved; zero when nobody does. A lease that is held by something that is none of
	// ours has a value that nobody made.
	Value fence.Digest
	// Reserved says that the lease was handed to Value and not claimed yet.
	Reserved bool
	// Holder is the name of who took or claimed the lease: its hold may have had others since.
	Holder string
	// Remaining is how long the lease, or its reservation, still runs.
	Remaining time.Duration
	// Tenant is for whom it was last extended, zero if it never was.
	Tenant fence.Digest
	// Renewed is how long it runs by the last extension for Tenant by another gateway than the value's; 0 or less if there
	// was none, or it has passed.
	Renewed time.Duration
	// Behind is the note's number of requests that wait behind Value, in its own gateway.
	Behind int

	// Place is where the value that was asked about stands in the queue, 0 if it does not. Of an entry that has just taken
	// the lease it is where it would have stood. Places only order; they are positive, and above 1.
	Place int64
	// Followed says that other entries stand behind it: behind its place or, if it holds the lease, in the queue.
	Followed bool

	// Entries is how many entries the queue has, and Queue the first of them.
	Entries int
	Queue   []Queued
}

// Queued is an entry of a queue.
type Queued struct {
	Value   fence.Digest
	Waiters int
	Note    string
}

// Dropped is what became of a lease that was given up.
type Dropped struct {
	// Had says that the value held the lease, had it reserved, or stood in the queue.
	Had bool
	// Next says that the lease went to another that waited, or to the same hold again. If he does not claim it somebody has to look.
	Next bool
}

// Signal tells a gateway what concerns one of its entries.
type Signal struct {
	Kind  SignalKind
	Name  string
	Value fence.Digest
}

// SignalKind is what a signal says.
type SignalKind int

const (
	// Resync says that signals may have been lost: all that wait should look how they stand.
	Resync SignalKind = iota + 1
	// Pushed says that the lease is reserved for the value from now on.
	Pushed
	// Followed says that another entry stands behind the value now.
	Followed
)
